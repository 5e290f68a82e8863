"""The listening socket: made safely, never stolen, or taken over from systemd."""

from __future__ import annotations

import errno
import grp
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.server import ListenError, bind, inherited, listen

# A process that is not this one, wherever this one runs.
OTHER = str(os.getpid() + 1)


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(60)
        return probe.connect_ex(str(path)) == 0


def test_a_bound_socket_is_for_its_group_and_goes_when_closed(directory: Path) -> None:
    path = directory / "s"
    with bind(path) as listener:
        mode = path.lstat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o660
        assert connects(path)
        assert listener.name == str(path)
        assert not listener.socket.get_inheritable()
    assert not path.exists()
    listener.close()  # a second time does nothing


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_mode_does_not_depend_on_the_umask(directory: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with bind(directory / "s"):
            assert stat.S_IMODE((directory / "s").lstat().st_mode) == 0o660
            assert stat.S_IMODE((directory / "s.lock").lstat().st_mode) & 0o077 == 0
    finally:
        os.umask(before)


def test_nobody_can_connect_before_the_group_is_set(directory: Path, monkeypatch) -> None:
    modes = []

    def gid(_group: str | None) -> int | None:
        modes.append(stat.S_IMODE((directory / "s").lstat().st_mode))

    monkeypatch.setattr(listen, "_gid", gid)
    before = os.umask(0)
    try:
        with bind(directory / "s"):
            assert modes == [0o600]
    finally:
        os.umask(before)


def test_the_socket_is_given_to_the_group_where_it_exists(directory: Path) -> None:
    # As root any group will do; an ordinary user may only give to a group of its own.
    mine = [*os.getgroups(), os.getgid()]
    gid = max(entry.gr_gid for entry in grp.getgrall() if not os.getuid() or entry.gr_gid in mine)
    with bind(directory / "s", group=grp.getgrgid(gid).gr_name):
        assert (directory / "s").lstat().st_gid == gid
    with bind(directory / "s", group="no-such-group"):
        assert (directory / "s").lstat().st_gid == os.getgid()


def test_a_stale_socket_file_is_replaced(directory: Path) -> None:
    path = directory / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert path.exists()
    assert not connects(path)
    with bind(path):
        assert connects(path)


def test_what_a_killed_daemon_leaves_is_replaced(directory: Path) -> None:
    path = directory / "s"
    program = (
        "import pathlib, signal, sys; from supervisor.server import bind;"
        "bind(pathlib.Path(sys.argv[1])); print(flush=True); signal.pause()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, cwd=repository()
    ) as daemon:
        assert daemon.stdout.readline() == b"\n"
        with pytest.raises(ListenError, match="another process listens there"):
            bind(path)
        daemon.send_signal(signal.SIGKILL)
    assert path.exists()
    with bind(path):
        assert connects(path)


@pytest.mark.parametrize("own", [True, False], ids=["ours", "a stranger's"])
def test_a_socket_on_which_somebody_answers_is_left_alone(directory: Path, own: bool) -> None:
    path = directory / "s"
    first = bind(path) if own else socket.socket(socket.AF_UNIX)
    with first:
        if isinstance(first, socket.socket):
            first.bind(str(path))
            first.listen(8)  # nobody accepts, and each try takes a place
        inode = path.lstat().st_ino
        for _ in range(3):
            with pytest.raises(ListenError, match="another process listens there"):
                bind(path)
        assert path.lstat().st_ino == inode
        assert connects(path)


def test_a_full_queue_is_not_a_dead_socket(directory: Path) -> None:
    path = directory / "s"
    with socket.socket(socket.AF_UNIX) as busy:
        busy.bind(str(path))
        busy.listen(0)
        waiting = []
        while True:
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            waiting.append(client)
            if client.connect_ex(str(path)) == errno.EAGAIN:
                break
        with pytest.raises(ListenError, match="another process listens there"):
            bind(path)
        for client in waiting:
            client.close()


def test_a_datagram_socket_is_somebodys(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(directory / "s"))
        with pytest.raises(ListenError, match="another process listens there"):
            bind(directory / "s")


def test_a_file_that_is_no_socket_is_left_alone(directory: Path) -> None:
    kept = directory / "kept"
    kept.write_text("precious")
    (directory / "link").symlink_to(kept)
    (directory / "directory").mkdir()
    os.mkfifo(directory / "fifo")
    for name in ("kept", "link", "directory", "fifo"):
        with pytest.raises(ListenError, match="is not a socket"):
            bind(directory / name)
    assert kept.read_text() == "precious"
    assert sorted(path.name for path in directory.iterdir() if path.suffix != ".lock") == [
        "directory",
        "fifo",
        "kept",
        "link",
    ]


def test_a_directory_in_which_anybody_may_replace_the_socket_is_refused(directory: Path) -> None:
    open_to_all = directory / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(ListenError, match="chmod o-w"):
        bind(open_to_all / "s")
    open_to_all.chmod(0o1777)
    with bind(open_to_all / "s"):
        assert connects(open_to_all / "s")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing/s", "must exist"),
        ("file/s", "not a directory|Not a directory"),
        ("x" * 120, "107 bytes"),
    ],
)
def test_where_no_socket_can_be_the_error_says_why(directory: Path, name: str, why: str) -> None:
    (directory / "file").touch()
    with pytest.raises(ListenError, match=why):
        bind(directory / name)


def test_a_lock_that_is_a_link_is_not_followed(directory: Path) -> None:
    (directory / "s.lock").symlink_to(directory / "elsewhere")
    with pytest.raises(ListenError, match=r"s\.lock"):
        bind(directory / "s")
    assert not (directory / "elsewhere").exists()


def test_closing_does_not_remove_what_took_its_place(directory: Path) -> None:
    path = directory / "s"
    listener = bind(path)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen(1)
        listener.close()
        assert connects(path)


def repository() -> Path:
    return Path(__file__).parents[2]


ACTIVATED = """
import json, os, sys
import trio
from supervisor.server import ListenError, Response, inherited, serve
async def app(request):
    return Response(200, {}, b"activated")
async def main():
    try:
        listeners = inherited()
    except ListenError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({
        "names": [listener.name for listener in listeners],
        "left": [name for name in os.environ if name.startswith("LISTEN_")],
        "inheritable": [listener.socket.get_inheritable() for listener in listeners],
    }), flush=True)
    if listeners:
        await serve(listeners, app, peer_check=lambda peer: None)
trio.run(main)
"""

# What systemd does between fork and exec.
ACTIVATE = """
import os, sys
fds, pid, names, program = sys.argv[1:]
fds = [int(fd) for fd in fds.split(",")]
high = [os.dup2(fd, 100 + i) for i, fd in enumerate(fds)]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i)
os.closerange(100, 200)
os.environ["LISTEN_FDS"] = str(len(fds))
os.environ["LISTEN_PID"] = str(os.getpid() if pid == "own" else pid)
if names != "none":
    os.environ["LISTEN_FDNAMES"] = names
os.execv(sys.executable, [sys.executable, "-c", program])
"""


def activate(*fds: int, pid: str = "own", names: str = "effectd.socket") -> subprocess.Popen[bytes]:
    listed = ",".join(map(str, fds))
    return subprocess.Popen(
        [sys.executable, "-c", ACTIVATE, listed, pid, names, ACTIVATED],
        stdout=subprocess.PIPE,
        pass_fds=fds,
        cwd=repository(),
    )


def test_systemds_socket_is_served_and_its_variables_are_gone(directory: Path) -> None:
    path = directory / "s"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        sock.listen(8)
        with activate(sock.fileno()) as child:
            try:
                assert json.loads(child.stdout.readline()) == {
                    "names": ["effectd.socket"],
                    "left": [],
                    "inheritable": [False],
                }
                with socket.socket(socket.AF_UNIX) as client:
                    client.settimeout(60)
                    client.connect(str(path))
                    client.send(b"GET / HTTP/1.0\r\n\r\n")
                    answer = b""
                    while data := client.recv(65_536):
                        answer += data
                assert answer.endswith(b"\r\n\r\nactivated")
            finally:
                child.kill()
    assert path.exists()  # the file is systemd's


@pytest.mark.parametrize(
    ("kind", "names", "said"),
    [
        ("datagram", "a", "SOCK_DGRAM"),
        ("not listening", "a", "listening: False"),
        ("tcp", "a", "AF_INET SOCK_STREAM"),
        ("file", "a", "File descriptor 3 (a)"),
        ("unix", "a:b", "LISTEN_FDNAMES has 2 names"),
    ],
)
def test_anything_but_a_listening_unix_stream_is_refused(
    directory: Path, kind: str, names: str, said: str
) -> None:
    family = socket.AF_INET if kind == "tcp" else socket.AF_UNIX
    of_type = socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM
    with socket.socket(family, of_type) as sock, (directory / "f").open("w") as file:
        if kind in {"tcp", "unix"}:
            sock.bind(("127.0.0.1", 0) if kind == "tcp" else str(directory / "s"))
            sock.listen(1)
        with activate(file.fileno() if kind == "file" else sock.fileno(), names=names) as child:
            assert said in json.loads(child.stdout.readline())["error"]


def test_variables_meant_for_another_process_are_not_ours_but_go(directory: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(directory / "s"))
        sock.listen(1)
        with activate(sock.fileno(), pid=str(os.getppid())) as child:
            assert json.loads(child.stdout.readline()) == {
                "names": [],
                "left": [],
                "inheritable": [],
            }


@pytest.mark.parametrize(
    "environ",
    [{}, {"LISTEN_PID": OTHER, "LISTEN_FDS": "1"}, {"LISTEN_FDS": "1"}, {"LISTEN_PID": "x"}],
)
def test_without_activation_there_is_nothing(environ: dict[str, str]) -> None:
    assert inherited({**environ, "HOME": "/"}) == ()


def test_a_count_that_is_no_number_is_refused() -> None:
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "many", "HOME": "/"}
    with pytest.raises(ListenError, match="not a number"):
        inherited(environ)
    assert environ == {"HOME": "/"}
