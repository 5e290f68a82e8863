"""What no manifest may declare: paths to effectd's own things or to another's program."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from config.hidden import guarded, hidden_places, relation
from config.load import load_handlers
from config.problems import ConfigError
from config.schema import Config, JournalConfig, Origin

REACHING: dict[str, str] = {
    "/": "/ contains ROOT/state, the state directory",
    "ROOT": "ROOT contains ROOT/state, the state directory",
    "ROOT/state": "ROOT/state is ROOT/state, the state directory",
    "ROOT/state/../state/journal": "ROOT/state/journal lies in ROOT/state, the state directory",
    "ROOT/state-witness": "ROOT/state-witness is ROOT/state-witness, the witness directory",
    "ROOT/secrets/key": "ROOT/secrets/key lies in ROOT/secrets, the secrets directory",
    "ROOT/run": "ROOT/run is ROOT/run, where the control socket is",
    "ROOT/handlers.d": "ROOT/handlers.d is ROOT/handlers.d, the manifests directory",
    "/sys": "/sys contains /sys/fs/cgroup, the control groups",
    "/run/dbus": "/run/dbus contains /run/dbus/system_bus_socket, the system bus",
    "/proc/self": "/proc/self lies in /proc, what the kernel tells of every process",
    "ROOT/link": "ROOT/link/none lies in ROOT/state, the state directory",
}


@pytest.mark.guarantee("S4")
@pytest.mark.parametrize("kind", ["read", "write", "unix"])
@pytest.mark.parametrize("path", REACHING)
def test_a_path_that_reaches_what_is_hidden_is_refused_naming_both(host, kind, path):
    (host.root / "link").symlink_to(host.root / "state" / "none")
    host.manifest("charge", f'[sandbox]\n{kind} = ["{path.replace("ROOT", str(host.root))}"]')
    (said,) = host.complaints("charge")
    expected = REACHING[path].replace("ROOT/link/none", "ROOT/state/none")
    assert said == (
        f"sandbox.{kind}[0]: {expected}, which no handler may reach; name narrower paths elsewhere"
    )


def test_what_is_hidden_follows_from_the_configuration():
    config = Config(
        socket=Path("/run/effectd.sock"),
        journal=JournalConfig(archive_dir=Path("/srv/archive")),
        origin=Origin(file=Path("/etc/e.toml"), credentials_dir=Path("/run/credentials/e")),
    )
    assert {str(place.path) for place in hidden_places(config)} == {
        "/var/lib/effectd",
        "/var/lib/effectd-witness",
        "/etc/effectd/secrets",
        "/etc/effectd/handlers.d",
        "/run/dbus/system_bus_socket",
        "/run/systemd/private",
        "/run/effectd.sock",  # alone: its directory is everybody's
        "/sys/fs/cgroup",
        "/proc",
        "/etc/e.toml",
        "/run/credentials/e",
        "/srv/archive",
    }


def test_paths_beside_what_is_hidden_are_allowed(host):
    beside = [f"{host.root}/statement", f"{host.root}/runner", "/etc/effectd-else", "/sys/class"]
    host.manifest("charge", f"[sandbox]\nread = {beside}")
    assert host.load("charge").manifest.sandbox.read == tuple(beside)


@pytest.mark.guarantee("S4")
def test_no_handler_may_write_what_another_runs_from(host):
    host.program("pay/pay.py", "#!/bin/sh\n")
    host.manifest("pay", command=f'["{host.root}/bin/pay/pay.py"]')
    writer = host.program("evil/evil.py")
    for path in ("pay", "pay/pay.py", "pay/json", "evil"):
        host.manifest(
            "evil", f'[sandbox]\nwrite = ["{host.root}/bin/{path}"]', command=f'["{writer}"]'
        )
        handlers = host.load_all()
        assert set(handlers) == {"pay"}
        (problem,) = handlers.broken["evil"].problems
        assert problem.key == "sandbox.write[0]"
        owner = "evil" if path == "evil" else "pay"
        assert f"{host.root}/bin/{path} " in problem.message
        assert problem.message.endswith(f", which handler {owner} runs from")
        assert problem.fix == "let it write to a directory where no program is"


@pytest.mark.guarantee("S4")
def test_a_link_to_anothers_program_is_no_way_around(host):
    host.program("pay/pay.py")
    host.manifest("pay", command=f'["{host.root}/bin/pay/pay.py"]')
    (host.root / "innocent").symlink_to(host.root / "bin" / "pay")
    host.manifest("evil", f'[sandbox]\nwrite = ["{host.root}/innocent"]', command='["/bin/true"]')
    assert set(host.load_all().broken) == {"evil"}


@pytest.mark.guarantee("S4")
@pytest.mark.parametrize("what", ["artifact", "reconciler", "schema", "linked manifest"])
def test_all_that_a_handler_is_made_of_is_guarded(host, what):
    away = host.root / "away"
    away.mkdir()
    file = away / "file"
    file.write_text("{}" if what == "schema" else "#!/bin/sh\n")
    file.chmod(0o755)
    text = {
        "artifact": f'artifacts = ["{file}"]',
        "reconciler": '[[effect]]\nname = "a"\ncontract = "reconciliation"\n'
        f'reconcile = {{ command = ["{file}"] }}',
        "schema": f'input_schema = "{file}"',
        "linked manifest": "",
    }[what]
    manifest = host.manifest("pay", text, command='["/bin/true"]')
    if what == "linked manifest":
        manifest.rename(away / "pay.toml")
        manifest.symlink_to(away / "pay.toml")
    host.manifest("evil", f'[sandbox]\nwrite = ["{away}"]', command='["/bin/true"]')
    assert set(host.load_all().broken) == {"evil"}


def test_a_place_for_data_is_writable(host):
    host.manifest("charge", f'[sandbox]\nwrite = ["{host.root}/data"]')
    assert set(host.load_all()) == {"charge"}


@pytest.mark.parametrize(
    ("touched", "kept"),
    [
        ("/srv/app/run.py", {"/srv/app"}),
        ("/srv/run.py", {"/srv/run.py"}),
        ("/home/jo/run.py", {"/home/jo/run.py"}),
        ("/home/jo/app/run.py", {"/home/jo/app"}),
        (
            "/home/jo/.venv/bin/python",
            {f"/home/jo/.venv/{part}" for part in ("bin", "lib", "lib64", "libexec", "pyvenv.cfg")},
        ),
        ("/bin/sh", {"/bin"}),
    ],
)
def test_the_directory_of_a_program_is_guarded_unless_strangers_share_it(touched, kept):
    assert set(map(str, guarded([Path(touched)], Path("/home/jo")))) == kept


@pytest.mark.parametrize(
    ("one", "other", "how"),
    [
        ("/a", "/a", "is"),
        ("/", "/a", "contains"),
        ("/a/b", "/a", "lies in"),
        ("/ab", "/a", None),
        ("/a", "/b", None),
    ],
)
def test_how_two_paths_overlap(one, other, how):
    assert relation(Path(one), Path(other)) == how


def test_a_broken_manifest_takes_no_other_down_and_fails_a_reload_whole(host):
    host.manifest("good")
    host.raw("bad", "manifest = 1\n")
    host.raw("worse", "=")
    (host.manifests / ".#good.toml").write_text("an editor's lock")
    (host.manifests / "notes.txt").write_text("notes")
    handlers = host.load_all()
    assert (list(handlers), len(handlers), "good" in handlers) == (["good"], 1, True)
    assert set(handlers.broken) == {"bad", "worse"}
    assert handlers.get("bad") is None
    with pytest.raises(ConfigError) as caught:
        load_handlers(host.config, strict=True)
    assert [Path(each.file).name for each in caught.value.problems] == [
        "bad.toml",
        "bad.toml",
        "worse.toml",
    ]


def test_no_manifests_directory_is_no_handlers_and_a_warning(host):
    host.manifests.rmdir()
    handlers = host.load_all()
    assert (len(handlers), handlers.broken) == (0, {})
    assert [each.message for each in handlers.warnings] == [
        "there is no such directory, so there are no handlers"
    ]


def test_what_everybody_can_write_registers_no_handler_except_a_developers(host):
    file = host.manifest("charge")
    file.chmod(0o646)
    assert set(host.load_all()) == {"charge"}
    origin = attrs.evolve(host.config.origin, dev=False)
    served = attrs.evolve(host.config, origin=origin)
    handlers = load_handlers(served)
    assert set(handlers) == set()
    (problem,) = handlers.broken["charge"].problems
    assert problem.fix == f"chmod o-w {file}"
    file.chmod(0o644)
    assert set(load_handlers(served)) == {"charge"}
    host.manifests.chmod(0o777)
    with pytest.raises(ConfigError, match=f"everybody can write {host.manifests}"):
        load_handlers(served)


def test_a_manifests_directory_that_is_a_file_is_an_error(host):
    host.manifests.rmdir()
    host.manifests.write_text("")
    with pytest.raises(ConfigError, match="is no directory"):
        host.load_all()


@pytest.mark.parametrize("path", ["/dev", "/run", "/tmp"])
@pytest.mark.parametrize("kind", ["read", "write", "unix"])
def test_what_every_sandbox_has_for_itself_cannot_be_declared_whole(host, kind, path):
    host.manifest("charge", f'[sandbox]\n{kind} = ["{path}"]')
    (said,) = host.complaints("charge")
    assert said == (
        f"sandbox.{kind}[0]: every sandbox has a {path} of its own; name what is needed in it"
    )
