"""`handlers check` uses each path from inside, and says what to do about each that it cannot."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.cli.__main__ import run
from supervisor.cli.remedies import Said
from supervisor.cli.unit import protected
from tests.cli.denials.conftest import ALLOWED, DENIED, Tried, Workbench
from tests.cli.denials.listeners import answering

ROOT = Path(__file__).parents[3]
AS_ROOT = os.geteuid() == 0
UID = 65_534 if AS_ROOT else os.getuid()


def lines(checked: Tried, state: str) -> dict[str, dict[str, str]]:
    """The checks in one state, by what was checked."""
    return {one["what"]: one for one in checked.document["items"] if one["state"] == state}


def wrong(checked: Tried) -> dict[str, dict[str, str]]:
    assert checked.code == DENIED, checked.out
    return lines(checked, "wrong")


def test_everything_that_works_is_told_once(bench: Workbench) -> None:
    (bench.data / "file").write_text("here")
    bench.write("exit 0", f'read = ["{bench.data}/file"]\nwrite = ["{bench.data}"]')
    checked = bench.check()
    assert checked.code == ALLOWED, checked.out
    good = lines(checked, "ok")
    assert f"run {bench.programs}/tried" in good
    assert any(what.startswith("run ") and what.endswith("sh") for what in good)
    assert f"read {bench.data}/file" in good
    assert f"write {bench.data}" in good


def test_trying_a_directory_leaves_it_as_it_was(bench: Workbench) -> None:
    file = bench.data / "file"
    file.write_text("here")
    file.chmod(0o666)
    bench.write("exit 0", f'write = ["{bench.data}", "{file}"]')
    assert bench.check().code == ALLOWED
    assert list(bench.data.iterdir()) == [file]
    assert file.read_text() == "here"


def test_a_path_that_is_not_there_is_told_and_the_others_are_still_tried(bench: Workbench) -> None:
    missing = bench.data / "missing"
    bench.write("exit 0", f'read = ["{missing}"]\nwrite = ["{bench.data}"]')
    checked = bench.check()
    [one] = wrong(checked).values()
    assert one["what"] == f"read {missing}"
    assert "is not there" in one["detail"]
    assert f"write {bench.data}" in lines(checked, "ok")
    assert "sandbox" in lines(checked, "ok")


def test_a_directory_that_the_handlers_user_cannot_pass_is_named(bench: Workbench) -> None:
    closed = bench.data / "closed"
    (closed / "deep").mkdir(parents=True)
    closed.chmod(0o700 if AS_ROOT else 0o600)
    bench.write("exit 0", f'read = ["{closed}/deep"]')
    checked = bench.check()
    closed.chmod(0o700)
    if AS_ROOT:
        [one] = wrong(checked).values()
        assert f"chmod o+x {closed}" in one["remedy"]
    else:
        assert "deep" in str(wrong(checked))


def test_a_file_that_cannot_be_read_is_told_with_its_mode(bench: Workbench) -> None:
    secret = bench.data / "secret"
    secret.write_text("here")
    secret.chmod(0)
    bench.write("exit 0", f'read = ["{secret}"]')
    [one] = wrong(bench.check()).values()
    assert one["detail"].endswith("it is there, and not allowed")
    assert f"chmod o+r {secret}, or give it to uid {UID}" in one["remedy"]


def test_a_directory_that_cannot_be_written_to_is_told_with_the_owner(bench: Workbench) -> None:
    bench.data.chmod(0o555)
    bench.write("exit 0", f'write = ["{bench.data}"]')
    [one] = wrong(bench.check()).values()
    assert one["what"] == f"write {bench.data}"
    assert f"chown {UID} {bench.data}" in one["remedy"]


@pytest.mark.skipif(not AS_ROOT, reason="only root mounts a file system read-only")
def test_a_file_system_that_is_read_only_is_told_with_the_drop_in(bench: Workbench) -> None:
    # In a mount namespace of its own, which ends with the command: nothing is left mounted.
    bench.write("exit 0", f'write = ["{bench.data}"]')
    script = f'mount -t tmpfs -o ro,mode=777 none {bench.data} && exec "$@"'
    said = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *command(bench)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert said.returncode == DENIED, said.stderr
    assert f"ReadWritePaths={bench.data}" in said.stdout


def command(bench: Workbench) -> list[str]:
    return [
        *[sys.executable, "-m", "supervisor.cli", "handlers", "check", "tried", "--dev"],
        *["--handlers-dir", str(bench.manifests), "--state-dir", str(bench.base / "state")],
    ]


@pytest.fixture
def listening(bench: Workbench) -> Iterator[Path]:
    path = bench.data / "served.sock"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    path.chmod(0o777)
    server.listen()
    with answering(server):
        yield path


def test_a_unix_socket_is_connected_to(bench: Workbench, listening: Path) -> None:
    bench.write("exit 0", f'unix = ["{listening}"]')
    checked = bench.check()
    assert checked.code == ALLOWED, checked.out
    assert f"unix {listening}" in lines(checked, "ok")


def test_a_unix_socket_on_which_nobody_listens_is_told(bench: Workbench) -> None:
    path = bench.data / "dead.sock"
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
    path.chmod(0o777)
    bench.write("exit 0", f'unix = ["{path}"]')
    [one] = wrong(bench.check()).values()
    assert one["detail"].endswith("nobody listens")
    assert one["remedy"].startswith("Start what listens there")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler makes a program to link")
def test_a_library_that_the_program_would_not_find_is_named(bench: Workbench) -> None:
    hidden = bench.base / "hidden"
    hidden.mkdir()
    (hidden / "lib.c").write_text("int answer(void) { return 0; }")
    (hidden / "main.c").write_text("int answer(void); int main(void) { return answer(); }")
    library = hidden / "libanswer.so"
    program = bench.programs / "linked"
    build = ["gcc", "-o"]
    subprocess.run([*build, library, "-shared", hidden / "lib.c"], check=True)
    linked = [hidden / "main.c", f"-Wl,-rpath,{hidden}", library]
    subprocess.run([*build, program, *linked], check=True)
    library.rename(hidden / "away.so")
    bench.write("exit 0")
    manifest = bench.manifests / "tried.toml"
    manifest.write_text(manifest.read_text().replace('/tried"', '/linked"'))
    [one] = wrong(bench.check()).values()
    assert one["what"] == f"run {program}"
    assert "libanswer.so" in one["remedy"]
    (hidden / "away.so").rename(library)
    assert bench.check().code == ALLOWED


def test_the_reconciler_is_used_as_well(bench: Workbench) -> None:
    asked = bench.programs / "asked"
    asked.write_text("#!/bin/sh\n")
    asked.chmod(0o755)
    bench.write(
        "exit 0",
        more='[[effect]]\nname = "charge"\ncontract = "reconciliation"\n'
        f'reconcile = {{ command = ["{asked}"] }}\n',
    )
    manifest = bench.manifests / "tried.toml"
    manifest.write_text(manifest.read_text().replace("read_only = true", ""))
    checked = bench.check()
    assert lines(checked, "ok")[f"run {asked}"]["detail"] == "the reconciler of charge"


@pytest.mark.skipif(not AS_ROOT, reason="a network without name servers takes root to make")
def test_names_that_nobody_answers_are_a_warning(bench: Workbench) -> None:
    bench.write("exit 0", 'network = "host"')
    said = subprocess.run(
        ["unshare", "-n", *command(bench)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert said.returncode == ALLOWED, said.stdout + said.stderr
    assert "name look-ups: a name server answers: none answered" in said.stdout
    assert "1 warning" in said.stdout


@pytest.mark.skipif(not AS_ROOT, reason="anybody else runs handlers as themself")
@pytest.mark.parametrize("verb", ["check", "try"])
def test_root_without_a_user_for_handlers_is_told_how_to_get_one(
    bench: Workbench, verb: str
) -> None:
    bench.write("exit 0")
    file = bench.base / "effectd.toml"
    file.write_text('[sandbox]\nhandler_user = "effectd-nobody-of-that-name"\n')
    (bench.base / "witness").mkdir()
    where = ["--config", str(file), "--handlers-dir", str(bench.manifests)]
    bench.capture()
    code = run(["handlers", verb, "tried", *where, "--state-dir", str(bench.base / "state")])
    said = bench.capture()
    assert code == DENIED
    assert "effectd-nobody-of-that-name" in said


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("sh: 1: cannot create /x/.effectd-check-7: Permission denied", "denied"),
        ("sh: 1: cannot create /x/.effectd-check-7: Read-only file system", "read-only"),
        ("sh: 1: cannot create /x/y: Directory nonexistent", "absent"),
        ("sh: 1: cannot open /x: No such file", "absent"),
        ("/bin/sh: line 5: /x: Permission denied", "denied"),
        ("sh: can't create /x: Permission denied", "denied"),
        ("Connection refused exit 1", "refused"),
        ("needs libfoo.so.1", "needs"),
        ("no answer exit 1", "silent"),
        ("something that nobody foresaw", "other"),
    ],
)
def test_what_a_shell_says_is_understood(line: str, how: str) -> None:
    assert Said.of(line).how == how


UNIT = {
    "LoadState": "loaded",
    "ProtectSystem": "full",
    "ProtectHome": "read-only",
    "PrivateTmp": "yes",
    "ReadWritePaths": "-/home/app",
    "BindReadOnlyPaths": "/tmp/shown:/tmp/shown:rbind",
}


@pytest.mark.parametrize(
    ("path", "drop_in"),
    [
        ("/home/u/out", "ReadWritePaths=/home/u/out"),
        ("/etc/app", "ReadWritePaths=/etc/app"),
        ("/usr/local/app", "ReadWritePaths=/usr/local/app"),
        ("/tmp/out", "BindPaths=/tmp/out"),
        ("/home/app/out", ""),  # opened by a drop-in
        ("/srv/out", ""),
        ("/var/lib/app", ""),
    ],
)
def test_a_path_that_the_unit_protects_is_told_with_its_drop_in(path: str, drop_in: str) -> None:
    found = list(protected(UNIT, (), (path,)))
    assert [one.remedy.splitlines()[-1] for one in found] == ([drop_in] if drop_in else [])
    assert all(one.state == "warning" for one in found)


def test_what_the_unit_does_not_see_is_told_for_reading_too() -> None:
    [one] = protected(UNIT, ("/tmp/data", "/tmp/shown", "/home/u"), ())
    assert one.remedy.endswith("BindReadOnlyPaths=/tmp/data")
    hidden = {**UNIT, "ProtectHome": "yes"}
    [one] = protected(hidden, ("/home/u",), ())
    assert "ProtectHome=yes" in one.detail


def test_strict_protection_leaves_homes_to_their_own_setting() -> None:
    unit = {**UNIT, "ProtectSystem": "strict", "ProtectHome": "no"}
    assert [one.what for one in protected(unit, (), ("/srv/a", "/home/u/a"))] == ["write /srv/a"]


def test_without_a_unit_nothing_is_said_of_one() -> None:
    assert list(protected({}, ("/tmp/x",), ("/home/u/x", "/etc/x"))) == []
