"""Handlers of a real effectd that reach for effectd itself, and for one another's things."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.containment.support import needs_root
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.processes import descendants, start_time, wait_until
from tests.sandbox.support import HANDLER_UID

HEAD: Final = 'manifest = 1\ntimeout_ms = 60_000\nread_only = true\ncommand = ["{}"]\n'
PROGRAMS: Final = ("reach", "outside", "seen")
CLOSED: Final = {"ENOENT", "EACCES", "EPERM"}


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with new_daemon() as made:
        for name in PROGRAMS:
            source = Path(__file__).with_name("programs") / f"{name}.py"
            program = made.add_program(name, source.read_text())
            made.add_handler(name, HEAD.format(program) + "max_running = 8\n")
        yield made.start()


def result(daemon: Daemon, handler: str, given: Any) -> Any:
    """What the handler answered, which must have succeeded."""
    answer = daemon.api.dispatch(handler, given, wait_ms=60_000).ok()
    assert answer["state"] == "succeeded", answer
    return answer["result"]


def own_places(daemon: Daemon) -> list[Path]:
    """Everything of the daemon's on disk."""
    return [
        daemon.state,
        Path(f"{daemon.state}-witness"),
        daemon.state / "secrets",
        Path(daemon.api.socket_path),
        daemon.handlers,
        *daemon.state.rglob("*"),
        *daemon.handlers.iterdir(),
        daemon.base / "log",
    ]


@pytest.mark.guarantee("S4")
def test_nothing_of_the_daemons_on_disk_is_in_sight(daemon: Daemon) -> None:
    places = own_places(daemon)
    assert len(places) > 10
    for how in ("list", "read", "write", "stat"):
        got = result(daemon, "reach", [[how, str(place)] for place in places])
        assert set(got.values()) == {"ENOENT"}, got


@pytest.mark.guarantee("S4")
def test_a_program_beside_the_daemons_own_files_shows_none_of_them(daemon: Daemon) -> None:
    """Its directory is shown, for what it may load from there; not what is effectd's in it."""
    program = daemon.base / "beside.py"
    shutil.copy(daemon.programs / "reach", program)
    daemon.add_handler("beside", HEAD.format(program))
    places = own_places(daemon)
    tries = {"list": [one for one in places if one.is_dir()]}
    tries["read"] = tries["write"] = [one for one in places if one.is_file()]
    for how, paths in tries.items():
        got = result(daemon, "beside", [[how, str(path)] for path in paths])
        shown = {path for path, outcome in got.items() if outcome not in CLOSED | {"EROFS"}}
        # The log is the tests' own: effectd does not know of it.
        assert shown <= {str(daemon.base / "log")}, shown


@pytest.mark.guarantee("S4")
@pytest.mark.parametrize("kind", ["read", "write", "unix"])
@pytest.mark.parametrize(
    "place", ["/", "state", "handlers.d", "", "state/effectd.sock", "state/secrets"]
)
def test_a_manifest_that_asks_for_them_is_refused(daemon: Daemon, kind: str, place: str) -> None:
    path = daemon.base / place
    text = HEAD.format("/bin/true") + f'[sandbox]\n{kind} = ["{path}"]\n'
    daemon.add_handler("greedy", text)
    answer = daemon.api.dispatch("greedy", {})
    assert answer.code == "UnknownHandler"
    assert f"sandbox.{kind}[0]" in answer.document["detail"]
    (daemon.handlers / "greedy.toml").unlink()


@pytest.mark.guarantee("S4")
def test_no_handler_may_write_what_another_runs_from(daemon: Daemon) -> None:
    text = HEAD.format("/bin/true") + f'[sandbox]\nwrite = ["{daemon.programs}"]\n'
    daemon.add_handler("rewriter", text)
    answer = daemon.api.dispatch("rewriter", {})
    assert answer.code == "UnknownHandler"
    assert "sandbox.write[0]" in answer.document["detail"]
    (daemon.handlers / "rewriter.toml").unlink()


def _standing(pid: int) -> tuple[str, str, int, int]:
    return (
        start_time(pid),
        Path(f"/proc/{pid}/limits").read_text(),
        os.getpriority(os.PRIO_PROCESS, pid),
        os.sched_getscheduler(pid),
    )


@pytest.mark.guarantee("S4")
def test_neither_daemon_nor_launcher_nor_template_can_be_touched(daemon: Daemon) -> None:
    result(daemon, "seen", {})
    family = [daemon.pid, *(pid for pid, _ in descendants(daemon.pid))]
    outside = [pid for pid in family if pid > 64]
    before = {pid: _standing(pid) for pid in (daemon.pid, daemon.launcher)}
    words = ", ".join(f'"{word}"' for word in (daemon.programs / "outside", *outside))
    daemon.add_handler(
        "poker", f"manifest = 1\ntimeout_ms = 60_000\nread_only = true\ncommand = [{words}]\n"
    )
    got = result(daemon, "poker", {})
    assert len(got) >= 2 * 15
    assert "open" not in got.values(), {way for way, how in got.items() if how == "open"}
    assert {pid: _standing(pid) for pid in before} == before
    assert daemon.api.status()


@pytest.mark.guarantee("S4", "S7")
def test_a_handler_of_a_daemon_has_what_every_sandbox_has(daemon: Daemon) -> None:
    seen = result(daemon, "seen", {})
    assert set(seen["descriptors"]) == {"0", "1", "2", "3"}
    assert not any(one["directory"] for one in seen["descriptors"].values())
    assert set(seen["directory_mounts"].values()) <= {mount["id"] for mount in seen["mounts"]}
    assert {int(seen["status"][f"Cap{kind}"], 16) for kind in ("Prm", "Eff", "Bnd")} == {0}
    assert seen["status"]["NoNewPrivs"] == "1"
    assert seen["status"]["Seccomp"] == "2"
    assert seen["status"]["Uid"].split()[0] == str(HANDLER_UID)
    assert seen["processes"] == [1, seen["pid"]]
    assert set(seen["writable"]) <= {"/run", "/run/credentials", "/tmp", "/tmp/home"}


@pytest.mark.guarantee("S4")
def test_no_directory_of_the_host_is_held_by_any_process_of_a_sandbox(daemon: Daemon) -> None:
    """Seen from outside, for each process below the launcher while a handler runs."""
    daemon.add_program("sleeper", "import os\nos.read(3, 1)\n")
    daemon.add_handler("sleeper", HEAD.format(daemon.programs / "sleeper"))
    operation = daemon.api.dispatch("sleeper", {}).ok()
    wait_until(lambda: _running(daemon, "sleeper"), 20, "the handler runs")
    (handler,) = _running(daemon, "sleeper")
    lines = Path(f"/proc/{handler}/mountinfo").read_text().splitlines()
    mounts = {line.split()[0] for line in lines}
    for fd in Path(f"/proc/{handler}/fd").iterdir():
        assert not fd.is_dir(), os.readlink(fd)
    for link in ("cwd", "root"):
        fd = os.open(f"/proc/{handler}/{link}", os.O_PATH)
        words = Path(f"/proc/self/fdinfo/{fd}").read_text().split()
        os.close(fd)
        assert words[words.index("mnt_id:") + 1] in mounts
    daemon.api.cancel(operation["operation_id"])


def _running(daemon: Daemon, program: str) -> list[int]:
    """Processes whose command line ends in that program: the handler itself."""
    found = []
    for pid, _ in descendants(daemon.pid):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if str(daemon.programs / program).encode() in words:
            found.append(pid)
    return found


SENDER = """
import array, json, os, socket
channel = socket.socket(fileno=3)
fds = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
read, write = os.pipe()
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [write, *fds]))]
line = json.dumps({"type": "progress", "fraction": 0.5, "message": "m"}).encode() + b"\\n"
for _ in range(5):
    channel.sendmsg([line], rights)
os.close(write)
print(json.dumps(os.read(read, 1) == b""))
"""


@pytest.mark.guarantee("S7")
def test_the_daemon_takes_no_descriptor_from_a_handler(daemon: Daemon) -> None:
    """The handler sees the end of its pipe while it runs: the daemon holds no copy of it."""
    daemon.add_program("sender", SENDER)
    daemon.add_handler("sender", HEAD.format(daemon.programs / "sender"))
    assert result(daemon, "sender", {}) is True
    if os.getuid() == 0:  # its own user may not look
        before = len(os.listdir(f"/proc/{daemon.pid}/fd"))
        for _ in range(5):
            assert result(daemon, "sender", {}) is True
        assert len(os.listdir(f"/proc/{daemon.pid}/fd")) <= before + 8


SECRETS = """
import json, os
folder = os.environ["CREDENTIALS_DIRECTORY"]
print(json.dumps({name: open(f"{folder}/{name}").read() for name in sorted(os.listdir(folder))}))
"""


@pytest.mark.guarantee("S4", "S7")
def test_a_handler_has_its_own_secrets_and_nobody_elses(daemon: Daemon) -> None:
    secrets = daemon.state / "secrets"
    secrets.mkdir(exist_ok=True)
    secrets.chmod(0o700)
    for name in ("mine", "yours"):
        (secrets / name).write_text(f"the-{name}-secret")
        (secrets / name).chmod(0o600)
    daemon.add_program("secretive", SECRETS)
    # Redaction would blot the value out of the answer: a handler that says what it has, says how
    # long it is.
    program = daemon.programs / "secretive"
    program.write_text(program.read_text().replace(".read()", ".read().__len__()"))
    for name in ("mine", "yours"):
        text = HEAD.format(program) + f'secrets = ["{name}"]\n'
        daemon.add_handler(f"has-{name}", text)
    assert result(daemon, "has-mine", {}) == {"mine": len("the-mine-secret")}
    assert result(daemon, "has-yours", {}) == {"yours": len("the-yours-secret")}


@pytest.mark.guarantee("S4")
def test_the_daemon_cannot_be_looked_into_by_its_own_user(daemon: Daemon) -> None:
    """Its memory, environment and descriptors belong to root, whoever started it."""
    for pid in (daemon.pid, daemon.launcher):
        assert Path(f"/proc/{pid}/environ").stat().st_uid == 0
        if os.getuid() != 0:
            for name in ("environ", "mem", "maps"):
                with pytest.raises(PermissionError):
                    Path(f"/proc/{pid}/{name}").open("rb").close()


@needs_root
def test_a_path_that_hangs_fails_its_own_handler_and_delays_no_other(
    daemon: Daemon, folder: Path, hanging: Callable[[Path], None]
) -> None:
    """A file system that stops to answer while effectd runs, as a network's may."""
    place = folder / "share"
    place.mkdir()
    text = HEAD.format("/bin/true") + f'[sandbox]\nread = ["{place}/x"]\n'
    (place / "x").mkdir()
    daemon.add_handler("hung", text)
    assert daemon.api.dispatch("hung", {}, wait_ms=60_000).ok()["state"] == "succeeded"
    hanging(place)
    hung = [daemon.api.dispatch("hung", {}) for _ in range(3)]
    for _ in range(5):
        assert result(daemon, "reach", [["list", "/"]]) == {"/": "open"}
    for answer in hung:
        final = daemon.api.final(answer.ok()["operation_id"])
        assert final["state"] != "succeeded", final
    (daemon.handlers / "hung.toml").unlink()
