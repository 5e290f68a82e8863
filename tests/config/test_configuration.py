"""The daemon's configuration: defaults, files, the command line, a developer's host."""

from __future__ import annotations

import grp
import os
import pwd
import tomllib
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import config
from config.convert import document_of, structured
from config.dump import dump
from config.load import load_config, reload_config
from config.problems import ConfigError
from config.schema import (
    Access,
    Config,
    JournalConfig,
    Limits,
    MetricsConfig,
    Retention,
    SandboxDefaults,
    config_faults,
)
from config.values import MAX_INTEGER, Principal

DEFAULT = Path(config.__file__).parent / "default.toml"


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "effectd.toml"
    file.write_text(text)
    file.chmod(0o644)
    return file


def complaints(tmp_path: Path, text: str) -> list[str]:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(file, environ={})
    return [problem.text.removeprefix(f"{file}: ") for problem in caught.value.problems]


def test_the_documented_file_says_every_default():
    document = tomllib.loads(DEFAULT.read_text())
    assert structured(document, Config) == Config()
    assert document == document_of(Config())


def test_every_key_of_the_documented_file_has_a_comment():
    lines = DEFAULT.read_text().splitlines()
    keys = [n for n, line in enumerate(lines) if " = " in line and not line.startswith("#")]
    assert len(keys) == 30
    assert [lines[n] for n in keys if not lines[n - 1].startswith("# ")] == []


def test_an_empty_file_is_the_defaults(tmp_path):
    loaded = load_config(written(tmp_path, ""), environ={})
    assert attrs.evolve(loaded, access=Access()) == Config()
    assert loaded.origin.file == tmp_path / "effectd.toml"
    assert loaded.origin.daemon_uid == os.geteuid()


def test_a_default_group_that_is_missing_grants_nobody_and_warns(tmp_path, monkeypatch):
    def nobody(name: str) -> object:
        raise KeyError(name)

    monkeypatch.setattr(grp, "getgrnam", nobody)
    monkeypatch.setattr(pwd, "getpwnam", nobody)
    loaded = load_config(written(tmp_path, ""), environ={})
    assert loaded.access.run == (Principal("group", "effectd-clients", None),)
    assert loaded.origin.handler_uid is None
    assert [(each.key, each.message) for each in loaded.origin.warnings] == [
        ("access.read[0]", "this host knows no group 'effectd-admin'"),
        ("access.run[0]", "this host knows no group 'effectd-clients'"),
        ("access.resolve[0]", "this host knows no group 'effectd-admin'"),
        (
            "sandbox.handler_user",
            "this host knows no user 'effectd-run', so no handler can run",
        ),
    ]


def test_names_are_looked_up(tmp_path):
    loaded = load_config(
        written(tmp_path, '[access]\nrun = ["group:daemon", "user:daemon", "uid:77"]\n'),
        environ={},
    )
    assert [each.id for each in loaded.access.run] == [
        grp.getgrnam("daemon").gr_gid,
        pwd.getpwnam("daemon").pw_uid,
        77,
    ]


BAD: dict[str, tuple[str, list[str]]] = {
    "unknown key": (
        'state_dri = "/x"',
        ["state_dri: this key is unknown; did you mean state_dir? Rename or remove it"],
    ),
    "key of a table above it": (
        "segment_bytes = 3",
        ["segment_bytes: this key is unknown here; it belongs in [journal]"],
    ),
    "key of the top in a table": (
        "[limits]\ndrain_ms = 3",
        ["limits.drain_ms: this key is unknown here; it belongs above the first [table]"],
    ),
    "origin is no key": (
        "origin = {}",
        [
            (
                "origin: this key is unknown; known here: state_dir, witness_dir, socket,"
                " handlers_dir, secrets_dir, budget_margin_ms, default_max_run_ms,"
                " max_running_attempts, drain_ms, access, limits, retention, journal, metrics,"
                " sandbox"
            )
        ],
    ),
    "relative path": (
        'state_dir = "var"',
        ["state_dir: the text 'var' is not an absolute path; write it from the root: /..."],
    ),
    "the root as state": (
        'state_dir = "/"',
        [
            "state_dir: the root directory cannot be it; name a directory of its own",
            (
                "witness_dir: /var/lib/effectd-witness is in state_dir, so one restore would roll"
                " back both; name a directory outside state_dir, best on another disk"
            ),
        ],
    ),
    "witness beside the journal": (
        'state_dir = "/srv/e"\nwitness_dir = "/srv/e/w"',
        [
            (
                "witness_dir: /srv/e/w is in state_dir, so one restore would roll back both; name a"
                " directory outside state_dir, best on another disk"
            )
        ],
    ),
    "archive in the state": (
        '[journal]\narchive_dir = "/var/lib/effectd/old"',
        [
            (
                "journal.archive_dir: /var/lib/effectd/old is in state_dir, whose size state_bytes"
                " bounds; name a directory outside state_dir"
            )
        ],
    ),
    "one directory for manifests and secrets": (
        'handlers_dir = "/srv/e"\nsecrets_dir = "/srv/e/"',
        ["secrets_dir: it is the same as handlers_dir; give each its own directory"],
    ),
    "long socket path": (
        f'socket = "/{"a" * 107}"',
        ["socket: the path has 108 bytes, and the kernel takes 107; choose a shorter path"],
    ),
    "no room for segments": (
        '[journal]\nsegment_bytes = "1M"\nstate_bytes = "3M"',
        [
            (
                "journal.state_bytes: there is no room for four segments, which recovery needs; set"
                " it to 4_194_304 or more, or make journal.segment_bytes smaller"
            )
        ],
    ),
    "pool above its total": (
        "[sandbox]\npool = 9",
        [
            (
                "sandbox.pool: 9 is more than sandbox.pool_total (8); lower sandbox.pool or raise"
                " sandbox.pool_total"
            )
        ],
    ),
    "a host name to listen on": (
        '[metrics]\nlisten = "localhost:9464"',
        [
            (
                "metrics.listen: the text 'localhost:9464' is no address and port; write"
                ' "127.0.0.1:9464" or "[::1]:9464", or "" for none'
            )
        ],
    ),
    "unknown group that was asked for": (
        '[access]\nread = ["group:no-such-group"]',
        [
            (
                "access.read[0]: this host knows no group 'no-such-group'; create it (groupadd"
                " --system no-such-group) or correct the name"
            )
        ],
    ),
    "unknown handler user that was asked for": (
        '[sandbox]\nhandler_user = "no-such-user"',
        [
            (
                "sandbox.handler_user: this host knows no user 'no-such-user', so no handler can"
                " run; create it (useradd --system no-such-user) or name another user"
            )
        ],
    ),
    "handlers as root": (
        '[sandbox]\nhandler_user = "root"',
        [
            (
                "sandbox.handler_user: handlers never run as root; name an ordinary user, like"
                " effectd-run"
            )
        ],
    ),
    "a role for the handlers' group": (
        '[access]\nadmin = ["group:daemon"]\n[sandbox]\nhandler_user = "daemon"',
        [
            (
                "access.admin: it grants the role to 'daemon', which handlers run as; take daemon"
                " out of that group, or grant the role to another"
            )
        ],
    ),
    "several": (
        'drain_ms = "x"\n[limits]\nsessions = 0\n[journal]\nsegment_bytes = 1',
        [
            "drain_ms: expected an integer, got the text 'x'; write a whole number without quotes",
            "limits.sessions: 0 is out of range; choose a value from 1 to 10_000_000",
            "journal.segment_bytes: 1 is out of range; choose a value from 65_536 to 1_073_741_824",
        ],
    ),
    "bad TOML": (
        "[limits\n",
        [
            (
                "it is not TOML: Expected ']' at the end of a table declaration (at line 1,"
                " column 8); correct that line"
            )
        ],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_in_these_words(tmp_path, case):
    text, said = BAD[case]
    assert complaints(tmp_path, text) == said


@pytest.mark.parametrize("listen", ["127.0.0.1:9464", "[::1]:9464", "10.0.0.1:80", ""])
def test_addresses_to_listen_on(tmp_path, listen):
    loaded = load_config(written(tmp_path, f'[metrics]\nlisten = "{listen}"'), environ={})
    assert loaded.metrics.listen == listen
    warned = "metrics.listen" in [each.key for each in loaded.origin.warnings]
    assert warned == listen.startswith("10.")


@pytest.mark.parametrize(
    "listen", ["9464", ":9464", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "::1:9464",
               "[127.0.0.1]:9464", "[::1]", "127.0.0.1:9464 "],
)  # fmt: skip
def test_what_cannot_be_listened_on(tmp_path, listen):
    (said,) = complaints(tmp_path, f'[metrics]\nlisten = "{listen}"')
    assert "is no address and port" in said


def test_a_file_that_was_named_must_exist(tmp_path):
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "none.toml", environ={})
    assert caught.value.problems[0].text == (
        f"{tmp_path}/none.toml: {tmp_path}/none.toml does not exist; create it or correct the path"
    )


def test_a_file_that_everybody_can_write_is_refused_except_to_a_developer(tmp_path):
    file = written(tmp_path, "")
    file.chmod(0o646)
    with pytest.raises(ConfigError, match=f"everybody can write .*; chmod o-w {file}"):
        load_config(file, environ={})
    load_config(file, dev=True, environ={"HOME": "/home/jo"})


def test_an_unreadable_file_says_who_may_not_read_it(host):
    file = host.raw("charge", "manifest = 1")
    file.chmod(0)
    uid = os.geteuid()
    if uid == 0:  # root reads everything, so somebody else has to try
        os.seteuid(65_534)
    try:
        (said,) = host.complaints("charge")
    finally:
        os.seteuid(uid)
    assert said == (
        f"effectd (uid {uid or 65_534}) may not read ROOT/handlers.d/charge.toml; let that user"
        " read the file and search its directories (chmod, chgrp)"
    )


def test_the_command_line_wins_and_is_named_in_errors(tmp_path):
    file = written(tmp_path, "drain_ms = 1\n[access]\nadmin = []\n")
    loaded = load_config(file, overrides={"drain_ms": 2, "limits.sessions": 3}, environ={})
    assert (loaded.drain_ms, loaded.limits.sessions) == (2, 3)
    with pytest.raises(ConfigError) as caught:
        load_config(file, overrides={"access.admin": ["x"], "drain_ms": "y"}, environ={})
    assert [(each.file, each.key) for each in caught.value.problems] == [
        ("the command line", "drain_ms"),
        ("the command line", "access.admin[0]"),
    ]


def test_paths_of_the_command_line_are_relative_to_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loaded = load_config(written(tmp_path, ""), overrides={"state_dir": Path("state")}, environ={})
    assert loaded.state_dir == tmp_path / "state"


@pytest.mark.parametrize(
    ("environ", "state", "socket"),
    [
        ({"HOME": "/home/jo"}, "/home/jo/.local/state/effectd", "{state}/effectd.sock"),
        ({"HOME": "/home/jo", "XDG_STATE_HOME": "/s"}, "/s/effectd", "{state}/effectd.sock"),
        (
            {"HOME": "/home/jo", "XDG_STATE_HOME": "relative"},
            "/home/jo/.local/state/effectd",
            "{state}/effectd.sock",
        ),
        (
            {"HOME": "/home/jo", "XDG_RUNTIME_DIR": "/run/user/7"},
            "/home/jo/.local/state/effectd",
            "/run/user/7/effectd/effectd.sock",
        ),
    ],
)
def test_a_developers_daemon_keeps_everything_below_its_state(environ, state, socket):
    loaded = load_config(dev=True, environ=environ)
    assert loaded.state_dir == Path(state)
    assert loaded.witness_dir == Path(state + "-witness")
    assert loaded.handlers_dir == Path(state, "handlers.d")
    assert loaded.secrets_dir == Path(state, "secrets")
    assert loaded.socket == Path(socket.format(state=state))
    own = (Principal("uid", str(os.geteuid()), os.geteuid()),)
    assert loaded.access == Access(own, own, own, own)
    assert loaded.origin.dev
    assert loaded.origin.warnings == ()
    assert loaded.origin.handler_uid == (
        pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    )


def test_a_state_directory_that_was_asked_for_has_its_own_socket():
    loaded = load_config(
        dev=True,
        overrides={"state_dir": "/srv/one"},
        environ={"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/7"},
    )
    assert loaded.socket == Path("/srv/one/effectd.sock")
    assert loaded.witness_dir == Path("/srv/one-witness")


def test_a_developers_file_and_command_line_win_over_a_developers_defaults(tmp_path):
    file = written(
        tmp_path, 'handlers_dir = "/srv/h"\n[access]\nadmin = []\n[limits]\nsessions = 5'
    )
    loaded = load_config(file, dev=True, overrides={"socket": "/srv/s"}, environ={"HOME": "/h"})
    assert loaded.handlers_dir == Path("/srv/h")
    assert loaded.socket == Path("/srv/s")
    assert loaded.access.admin == ()
    assert [each.text for each in loaded.access.run] == [f"uid:{os.geteuid()}"]
    assert loaded.limits.sessions == 5


def test_a_reload_reads_the_same_sources_again(tmp_path):
    file = written(tmp_path, "drain_ms = 1")
    first = load_config(
        file, overrides={"max_running_attempts": 5}, environ={"CREDENTIALS_DIRECTORY": "/run/c"}
    )
    file.write_text("drain_ms = 2")
    second = reload_config(first)
    assert (second.drain_ms, second.max_running_attempts) == (2, 5)
    assert second.origin.credentials_dir == Path("/run/c")


def test_a_reload_refuses_what_only_a_restart_can_change(tmp_path):
    file = written(tmp_path, "")
    first = load_config(file, environ={})
    file.write_text('state_dir = "/srv/else"\n[metrics]\nlisten = "127.0.0.1:80"')
    with pytest.raises(ConfigError) as caught:
        reload_config(first)
    assert [each.text for each in caught.value.problems] == [
        (
            f"{file}: state_dir: it changed from '/var/lib/effectd' to '/srv/else', and the running"
            " daemon cannot follow; restart effectd, or put the old value back"
        ),
        (
            f"{file}: metrics.listen: it changed from '' to '127.0.0.1:80', and the running daemon"
            " cannot follow; restart effectd, or put the old value back"
        ),
    ]


def test_a_developer_without_a_home_is_asked_for_a_state_directory(monkeypatch):
    def nobody(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(ConfigError, match="has no home directory; name a directory with"):
        load_config(dev=True, environ={})
    assert load_config(dev=True, overrides={"state_dir": "/srv/s"}, environ={}).state_dir


# Every valid configuration, by key.
SEGMENT = st.text("abz09 ÄßЖ._-'\"\\\n", min_size=1, max_size=12).filter(
    lambda part: part not in (".", "..")
)
PATHS = st.lists(SEGMENT, min_size=1, max_size=3).map(lambda parts: Path("/", *parts))
PRINCIPALS = st.lists(
    st.builds(
        lambda kind, number: Principal(kind, str(number), number),
        st.sampled_from(["uid", "gid"]),
        st.integers(0, 2**32 - 2),
    ),
    max_size=3,
).map(tuple)
COUNTS = st.integers(1, 10_000_000)
DAYS = st.integers(1, 36_500)
CONFIGS = st.builds(
    Config,
    state_dir=PATHS,
    witness_dir=PATHS,
    socket=PATHS,
    handlers_dir=PATHS,
    secrets_dir=PATHS,
    budget_margin_ms=st.integers(0, 10**9),
    default_max_run_ms=st.integers(1, 10**9),
    max_running_attempts=st.integers(1, 10_000),
    drain_ms=st.integers(0, 10**9),
    access=st.builds(Access, PRINCIPALS, PRINCIPALS, PRINCIPALS, PRINCIPALS),
    limits=st.builds(Limits, COUNTS, COUNTS, COUNTS, st.integers(1_024, 64 * 2**20)),
    retention=st.builds(Retention, DAYS, DAYS, DAYS, DAYS),
    journal=st.builds(
        JournalConfig,
        st.integers(2**16, 2**30),
        st.none() | PATHS,
        st.integers(2**32, MAX_INTEGER),
    ),
    metrics=st.builds(MetricsConfig, st.sampled_from(["", "127.0.0.1:1", "[::1]:65535"])),
    sandbox=st.builds(
        SandboxDefaults,
        level=st.sampled_from(["strict", "none"]),
        accept_missing=st.lists(st.sampled_from(["landlock", "memory", "a_b-c"])).map(tuple),
        handler_user=st.just("nobody"),
        pool=st.integers(0, 8),
        pool_total=st.integers(8, 10_000),
    ),
).filter(lambda built: not list(config_faults(built)))


# A busy machine draws slowly and is no fault of the test.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONFIGS)
def test_a_dump_loads_to_the_same(built):
    text = dump(built)
    assert structured(tomllib.loads(text), Config) == built
    assert text.startswith("# The effective configuration")


def test_a_dump_loads_through_a_file_to_the_same(tmp_path):
    first = load_config(
        written(tmp_path, '[access]\nrun = ["group:daemon"]\n[journal]\narchive_dir = "/srv/a"\n'),
        environ={},
    )
    assert f"# Source: {tmp_path}/effectd.toml\n" in dump(first)
    again = load_config(
        written(tmp_path, dump(first)),
        overrides={"access.read": [], "access.resolve": [], "sandbox.handler_user": "nobody"},
        environ={},
    )
    access = attrs.evolve(first.access, read=(), resolve=())
    sandbox = attrs.evolve(first.sandbox, handler_user="nobody")
    assert again == attrs.evolve(first, access=access, sandbox=sandbox)


def test_a_dump_says_where_it_came_from():
    loaded = load_config(dev=True, overrides={"state_dir": "/srv/s", "drain_ms": 1}, environ={})
    assert dump(loaded).splitlines()[1] == (
        "# Source: built-in defaults, with the defaults of --dev, and from the command line:"
        " drain_ms, state_dir"
    )


def test_a_dumps_comment_stays_a_comment_whatever_the_file_is_called(tmp_path):
    file = tmp_path / "a\nstate_dir = 'evil'\n#.toml"
    file.write_text("")
    file.chmod(0o644)
    document = tomllib.loads(dump(load_config(file, environ={})))
    assert document["state_dir"] == "/var/lib/effectd"
