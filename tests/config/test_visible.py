"""What loading says of what a handler is shown: who cannot get there, who could rewrite whom."""

from __future__ import annotations

import os
import stat
import struct

import attrs
import pytest

from config.load.reach import READ, SEARCH, User, allowed, require_reachable
from config.problems import ConfigError, WrongValueError
from supervisor.dispatch import visible

STRANGER = 54_321


def as_stranger(host):
    """The host with a user for handlers who owns nothing on it."""
    origin = attrs.evolve(host.config.origin, handler_uid=STRANGER, handler_gid=STRANGER)
    sandbox = attrs.evolve(host.config.sandbox, handler_user="stranger")
    return attrs.evolve(host, config=attrs.evolve(host.config, origin=origin, sandbox=sandbox))


def broken(host, name):
    """What is said of a handler that cannot be used."""
    said = visible.load(host.config).broken[name]
    return [problem.text.replace(str(host.root), "ROOT") for problem in said.problems]


# --- who cannot get there -----------------------------------------------------------------------


@pytest.mark.guarantee("S4")
def test_a_program_behind_a_closed_directory_is_refused_naming_the_directory(host):
    host = as_stranger(host)
    host.program("pay/deep/run")
    host.manifest("pay", command=f'["{host.root}/bin/pay/deep/run"]')
    assert "pay" in visible.load(host.config)
    (host.root / "bin/pay").chmod(0o700)
    (said,) = broken(host, "pay")
    assert said == (
        f"ROOT/handlers.d/pay.toml: command[0]: handlers run as uid {STRANGER}, which may not enter"
        " ROOT/bin/pay, on the way to ROOT/bin/pay/deep/run; move it below /opt or /srv, or open"
        " that directory: chmod o+x ROOT/bin/pay"
    )


@pytest.mark.parametrize(
    ("content", "mode", "lacks"),
    [
        ("#!/bin/sh\n", 0o755, None),
        ("#!/bin/sh\n", 0o711, "read and execute"),
        ("#!/bin/sh\n", 0o750, "read and execute"),
        ("\x7fELF", 0o711, None),
        ("\x7fELF", 0o744, "execute"),
    ],
)
def test_a_script_is_read_and_a_compiled_program_only_started(host, content, mode, lacks):
    host = as_stranger(host)
    host.program("pay/run", content, mode)
    host.manifest("pay", command=f'["{host.root}/bin/pay/run"]')
    if lacks is None:
        assert "pay" in visible.load(host.config)
    else:
        (said,) = broken(host, "pay")
        assert f"which lacks {lacks} permission on ROOT/bin/pay/run; chmod o+" in said


def test_an_interpreter_that_handlers_cannot_reach_is_named_with_its_directory(host):
    host = as_stranger(host)
    host.program("own/interpreter")
    host.program("pay/run", f"#!{host.root}/bin/own/interpreter\n")
    (host.root / "bin/own").chmod(0o711)
    host.manifest("pay", command=f'["{host.root}/bin/pay/run"]')
    (said,) = broken(host, "pay")
    assert "may not enter" not in said  # it gets there, and then cannot look around
    assert "lacks read and execute permission on ROOT/bin/own" in said
    (host.root / "bin/own").chmod(0o700)
    (said,) = broken(host, "pay")
    assert "may not enter ROOT/bin/own, on the way to ROOT/bin/own/interpreter" in said


@pytest.mark.parametrize("kind", ["read", "write", "unix"])
def test_a_declared_path_behind_a_closed_directory_is_refused(host, kind):
    host = as_stranger(host)
    (host.root / "shut/data").mkdir(parents=True)
    host.manifest("pay", f'[sandbox]\n{kind} = ["{host.root}/shut/data", "{host.root}/not/there"]')
    assert "pay" in visible.load(host.config)
    (host.root / "shut").chmod(0o700)
    (said,) = broken(host, "pay")
    assert f": sandbox.{kind}[0]: " in said
    assert "may not enter ROOT/shut, on the way to ROOT/shut/data" in said


def test_all_that_is_wrong_is_said_and_a_reload_fails_whole(host):
    host = as_stranger(host)
    for name in ("one", "two"):
        host.program(f"{name}/run")
        host.manifest(name, command=f'["{host.root}/bin/{name}/run"]')
        (host.root / "bin" / name).chmod(0o700)
    assert set(visible.load(host.config).broken) == {"one", "two"}
    with pytest.raises(ConfigError) as caught:
        visible.load(host.config, strict=True)
    assert len(caught.value.problems) == 2


def test_without_a_user_for_handlers_nothing_is_said_of_what_he_could_reach(host):
    host = as_stranger(host)
    origin = attrs.evolve(host.config.origin, handler_uid=None, handler_gid=None)
    host = attrs.evolve(host, config=attrs.evolve(host.config, origin=origin))
    host.program("pay/run")
    (host.root / "bin/pay").chmod(0o700)
    host.manifest("pay", command=f'["{host.root}/bin/pay/run"]')
    assert "pay" in visible.load(host.config)


OWN, GROUP, OTHER = os.geteuid(), os.getegid(), 54_322


@pytest.mark.parametrize(
    ("uid", "gids", "mode", "wanted", "may"),
    [
        (OWN, {GROUP}, 0o500, READ | SEARCH, True),
        # Only the first class that fits counts: an owner who locked himself out stays out.
        (OWN, {GROUP}, 0o077, READ, False),
        (OTHER, {GROUP}, 0o050, READ | SEARCH, True),
        (OTHER, {GROUP}, 0o705, READ, False),
        (OTHER, {OTHER}, 0o705, READ | SEARCH, True),
        (OTHER, {OTHER}, 0o771, READ, False),
        (OTHER, {OTHER}, 0o771, SEARCH, True),
        (OTHER, set(), 0o770, SEARCH, False),
    ],
)
def test_mode_bits_are_read_as_the_kernel_reads_them(host, uid, gids, mode, wanted, may):
    folder = host.root / "folder"
    folder.mkdir()
    folder.chmod(mode)
    try:
        assert allowed(folder, User(uid, frozenset(gids)), wanted) is may
    finally:
        folder.chmod(stat.S_IRWXU)


def test_of_a_directory_with_an_access_control_list_effectd_does_not_judge(host):
    folder = host.root / "listed"
    (folder / "in").mkdir(parents=True)
    folder.chmod(0o700)
    entries = [(0x01, 7, -1), (0x02, 5, STRANGER), (0x04, 0, -1), (0x10, 5, -1), (0x20, 0, -1)]
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    stranger = User(STRANGER, frozenset())
    with pytest.raises(WrongValueError):
        require_reachable(folder / "in", stranger)
    try:
        os.setxattr(folder, "system.posix_acl_access", packed)
    except OSError as error:
        pytest.skip(f"no access control lists on this file system: {error}")
    require_reachable(folder / "in", stranger)


# --- who could rewrite whom ---------------------------------------------------------------------


@pytest.mark.guarantee("S4")
def test_nobody_may_write_what_anybodys_closure_shows(host):
    app = host.root / "app"
    for folder in ("src", "node_modules/dep", "venv/bin", "venv/lib"):
        (app / folder).mkdir(parents=True)
    (app / "package.json").write_text("{}")
    (app / "venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    (app / "venv/bin/python").symlink_to("/bin/sh")
    script = app / "src/main.js"
    script.write_text(f"#!{app}/venv/bin/python\n")
    script.chmod(0o755)
    (host.root / "current").symlink_to(app)
    host.manifest("pay", command=f'["{host.root}/current/src/main.js"]')
    host.manifest("other", command='["/bin/true"]')
    for path in ("app/node_modules", "app/node_modules/dep", "app/venv/lib", "current", "app/data"):
        host.manifest("evil", f'[sandbox]\nwrite = ["{host.root}/{path}"]', command='["/bin/true"]')
        handlers = visible.load(host.config)
        assert set(handlers) == {"pay", "other"}, path
        (problem,) = handlers.broken["evil"].problems
        assert problem.key == "sandbox.write[0]"
        assert f"{host.root}/{path} " in problem.message
        assert problem.message.endswith(", which handler pay runs from")
        with pytest.raises(ConfigError):
            visible.load(host.config, strict=True)
    host.manifest("evil", f'[sandbox]\nwrite = ["{host.root}/data"]', command='["/bin/true"]')
    assert visible.load(host.config).broken == {}


# --- warnings, and looking again ----------------------------------------------------------------


def test_what_is_shown_only_in_part_is_a_warning_of_its_handler(host, monkeypatch):
    monkeypatch.setenv("HOME", str(host.root))
    tool = host.root / "tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    host.manifest("pay", command=f'["{tool}"]')
    handlers = visible.load(host.config)
    (warning,) = handlers["pay"].warnings
    assert warning in handlers.warnings
    assert warning.text.replace(str(host.root), "ROOT") == (
        "ROOT/handlers.d/pay.toml: command: ROOT/tool: only this file is visible to the handler,"
        " not ROOT; put it in a folder of its own if it needs what lies beside it"
    )


def test_beside_its_manifest_a_program_is_shown_alone_and_that_is_no_warning(host):
    program = host.manifests / "run"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    host.manifest("pay", command='["./run"]')
    handlers = visible.load(host.config)
    assert handlers.warnings == ()
    assert visible.visible(host.config, handlers["pay"]).paths == (str(program),)


def test_the_manifests_own_path_is_searched_for_interpreters(host):
    host.program("node/node")
    host.program("pay/run", "#!/usr/bin/env node\n")
    env = f'env = {{ PATH = "{host.root}/bin/node:/usr/bin:/bin" }}'
    host.manifest("pay", env, command=f'["{host.root}/bin/pay/run"]')
    shown = visible.visible(host.config, visible.load(host.config)["pay"])
    assert set(shown.paths) == {f"{host.root}/bin/node", f"{host.root}/bin/pay"}


def test_it_is_looked_up_again_only_when_something_on_the_way_changed(host, monkeypatch):
    for number in (1, 2):
        host.program(f"releases/{number}/run")
    link = host.root / "bin/current"
    link.symlink_to("releases/1")
    host.manifest("pay", command=f'["{host.root}/bin/current/run"]')
    handler = visible.load(host.config)["pay"]
    looks = []
    real = visible.closure
    monkeypatch.setattr(
        visible, "closure", lambda *args, **more: looks.append(args) or real(*args, **more)
    )
    first = visible.visible(host.config, handler)
    assert visible.visible(host.config, handler) is first
    assert looks == []
    (host.root / "bin/new").symlink_to("releases/2")
    (host.root / "bin/new").rename(link)
    second = visible.visible(host.config, handler)
    assert len(looks) == 1
    assert f"{host.root}/bin/releases/2" in second.paths
    assert f"{host.root}/bin/releases/1" not in second.paths


def test_no_more_is_remembered_than_is_worth_it(host, monkeypatch):
    monkeypatch.setattr(visible, "_KEPT_MAX", 3)
    monkeypatch.setattr(visible, "_kept", {})
    for number in range(9):
        host.manifest(f"h{number}")
    visible.load(host.config)
    assert len(visible._kept) == 3


# --- layers that may be missing -----------------------------------------------------------------


def test_a_layer_that_nobody_is_refused_for_need_not_be_accepted(host):
    host.manifest("pay", '[sandbox]\naccept_missing = ["memory", "landlock"]')
    (warning,) = visible.load(host.config)["pay"].warnings
    assert "memory need not be accepted" in warning.text


def test_a_layer_that_does_not_exist_is_a_fault_of_the_manifest(host):
    host.manifest("pay", '[sandbox]\naccept_missing = ["landlok"]')
    (said,) = broken(host, "pay")
    assert "no layer is called 'landlok'; name some of user_namespace," in said
