"""Who connects: identified while it lives, by pidfd or by start time, or refused."""

from __future__ import annotations

import array
import grp
import os
import pwd
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from supervisor.server import Peer, Request, Response, ServerLimits, bind, groups_of, serve
from supervisor.server import peer as peer_module
from supervisor.server.peer import UnidentifiedError, identify

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
UNKNOWN_OPTION = 9_999

# Connects, asks once if told to, hands the connection over, and waits to be killed.
HOLDER = """
import array, os, socket, sys
path, channel, ask = sys.argv[1], socket.socket(fileno=int(sys.argv[2])), sys.argv[3] == "ask"
connection = socket.socket(socket.AF_UNIX)
connection.connect(path)
if ask:
    connection.send(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
fds = array.array("i", [connection.fileno()])
channel.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
channel.recv(1)
"""


@pytest.fixture(params=["pidfd", "start time"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of telling a peer: kernels before 6.5 lack SO_PEERPIDFD."""
    if request.param == "start time":
        monkeypatch.setattr(peer_module, "_SO_PEERPIDFD", UNKNOWN_OPTION)
    return request.param


class Holder:
    """A child that connected; its connection is ours too."""

    def __init__(self, child: subprocess.Popen[bytes], connection: socket.socket) -> None:
        self.child = child
        self.connection = connection

    def end(self, *, reap: bool) -> None:
        pidfd = os.pidfd_open(self.child.pid)
        self.child.send_signal(signal.SIGKILL)
        assert select.select([pidfd], [], [], 10)[0]
        os.close(pidfd)
        if reap:
            self.child.wait()


@contextmanager
def holder(path: Path, ask: str) -> Iterator[Holder]:
    ours, its = socket.socketpair()
    with ours, its:
        argv = [sys.executable, "-I", "-c", HOLDER, str(path), str(its.fileno()), ask]
        child = subprocess.Popen(argv, pass_fds=[its.fileno()])
        try:
            ours.settimeout(60)
            fds = array.array("i")
            _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
            fds.frombytes(ancillary[0][2])
            with socket.socket(fileno=fds[0]) as connection:
                connection.settimeout(60)
                yield Holder(child, connection)
        finally:
            child.kill()
            child.wait()


def ask(connection: socket.socket) -> bytes:
    connection.send(GET)
    return connection.recv(65_536)


@pytest.mark.guarantee("S11")
@pytest.mark.parametrize("reap", [True, False], ids=["reaped", "zombie"])
async def test_a_connection_whose_process_died_is_refused_at_accept(
    directory: Path, by: str, reap: bool
) -> None:
    seen: list[Request] = []

    async def app(request: Request) -> Response:
        seen.append(request)
        return Response(200)

    with bind(directory / "s") as listener, holder(directory / "s", "silent") as held:
        held.end(reap=reap)
        async with trio.open_nursery() as nursery:

            async def run(task_status: trio.TaskStatus[None]) -> None:
                await serve([listener], app, peer_check=lambda _: None, task_status=task_status)

            await nursery.start(run)
            answer = await trio.to_thread.run_sync(ask, held.connection)
            assert answer.startswith(b"HTTP/1.1 403 ")
            assert b"AccessDenied" in answer
            nursery.cancel_scope.cancel()
    assert seen == []


@pytest.mark.guarantee("S11")
@pytest.mark.parametrize("reap", [True, False], ids=["reaped", "zombie"])
async def test_a_connection_whose_process_dies_later_is_refused_at_its_next_request(
    served, directory: Path, by: str, reap: bool
) -> None:
    seen: list[int] = []

    async def app(request: Request) -> Response:
        seen.append(request.peer.pid)
        return Response(200)

    async with served(app) as server:
        with await trio.to_thread.run_sync(enter, server.path) as held:
            answer = await trio.to_thread.run_sync(ask, held.connection)
            assert answer.startswith(b"HTTP/1.1 200 ")
            held.end(reap=reap)
            answer = await trio.to_thread.run_sync(ask, held.connection)
            assert answer.startswith(b"HTTP/1.1 403 ")
            assert str(held.child.pid).encode() in answer
        assert seen == [held.child.pid] * 2


class enter:
    """Run a holder's slow start in a thread, its end where it is used."""

    def __init__(self, path: Path) -> None:
        self._manager = holder(path, "ask")
        self._held = self._manager.__enter__()

    def __enter__(self) -> Holder:
        return self._held

    def __exit__(self, *error: object) -> None:
        self._manager.__exit__(None, None, None)


async def test_the_application_sees_the_living_peer(served, by: str) -> None:
    seen: list[Peer] = []

    async def app(request: Request) -> Response:
        seen.append(request.peer)
        assert request.peer.is_alive()
        if request.peer.pidfd is not None:
            assert not os.get_inheritable(request.peer.pidfd)
        return Response(200)

    async with served(app) as server:
        await server.get()
    (peer,) = seen
    assert (peer.pid, peer.uid, peer.gid) == (os.getpid(), os.getuid(), os.getgid())
    stat = (await trio.Path("/proc/self/stat").read_text()).rpartition(")")[2].split()
    assert peer.start_time == int(stat[19])
    assert peer.process_gids == frozenset(os.getgroups())
    assert (peer.pidfd is None) == (by == "start time")


async def test_the_peers_real_user_and_groups_are_seen(served) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can start a process of another user")
    seen: list[Peer] = []

    async def app(request: Request) -> Response:
        seen.append(request.peer)
        return Response(200)

    program = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.send(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); s.recv(1)"
    )
    async with served(app) as server:
        server.path.parent.chmod(0o755)
        server.path.chmod(0o666)
        await trio.run_process(
            ["/usr/bin/python3", "-I", "-c", program, str(server.path)],
            user=54_321,
            group=54_322,
            extra_groups=[54_323, 54_324],
        )
    assert (seen[0].uid, seen[0].gid, seen[0].process_gids) == (54_321, 54_322, {54_323, 54_324})


async def test_a_reused_number_is_another_process(by: str) -> None:
    peer = Peer(os.getpid(), 0, 0, frozenset(), start_time=1)
    assert not peer.is_alive()


async def test_a_dead_peer_is_not_mistaken_for_the_process_that_has_its_number_now(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bind(directory / "s") as listener, holder(directory / "s", "silent") as held:
        held.end(reap=False)
        # As if the number were in use again: /proc describes a healthy process.
        monkeypatch.setattr(peer_module, "_start_time", lambda _pid: 1)
        connection, _ = listener.socket.accept()
        async with trio.SocketStream(trio.socket.from_stdlib_socket(connection)) as stream:
            pidfd = peer_module._peer_pidfd(stream)
            if pidfd is None:
                pytest.skip("this kernel has no SO_PEERPIDFD (Linux 6.5), which tells them apart")
            os.close(pidfd)
            with pytest.raises(UnidentifiedError, match="has ended"):
                identify(stream)


async def test_a_process_that_began_after_the_connection_is_not_its_peer(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_module, "_SO_PEERPIDFD", UNKNOWN_OPTION)
    monkeypatch.setattr(peer_module, "_ticks_since_boot", lambda: 1)
    with bind(directory / "s") as listener:
        async with await trio.open_unix_socket(str(directory / "s")):
            connection, _ = listener.socket.accept()
            async with trio.SocketStream(trio.socket.from_stdlib_socket(connection)) as stream:
                with pytest.raises(UnidentifiedError, match="began after"):
                    identify(stream)


async def test_a_peer_that_the_check_refuses_gets_its_reason_and_nothing_else(served) -> None:
    seen: list[Request] = []

    async def app(request: Request) -> Response:
        seen.append(request)
        return Response(200)

    checked: list[int] = []

    def inside(peer: Peer) -> str | None:
        checked.append(peer.pid)
        return "Process 12 runs inside a sandbox."

    async with served(app, peer_check=inside) as server:
        answer = await server.get()
        assert (answer.status, answer.code) == (403, "AccessDenied")
        assert answer.document["detail"] == "Process 12 runs inside a sandbox."
    assert (seen, checked) == ([], [os.getpid()])


async def test_a_check_that_fails_lets_nobody_in_and_serving_goes_on(served, capsys) -> None:
    faults = [OSError("no /proc"), None]

    def check(_peer: Peer) -> str | None:
        fault = faults.pop(0)
        if fault is not None:
            raise fault
        return None

    async with served(peer_check=check) as server:
        assert (await server.get()).status == 403
        assert (await server.get()).status == 200
    assert capsys.readouterr().err.count("OSError: no /proc") == 1


async def test_a_peer_that_dies_while_it_is_checked_is_refused(directory: Path, by: str) -> None:
    with bind(directory / "s") as listener, holder(directory / "s", "silent") as held:

        def check(_peer: Peer) -> str | None:
            held.end(reap=True)
            return None

        async def app(_request: Request) -> Response:
            return Response(200)

        async with trio.open_nursery() as nursery:

            async def run(task_status: trio.TaskStatus[None]) -> None:
                limits = ServerLimits()
                await serve(
                    [listener], app, limits=limits, peer_check=check, task_status=task_status
                )

            await nursery.start(run)
            answer = await trio.to_thread.run_sync(ask, held.connection)
            assert answer.startswith(b"HTTP/1.1 403 ")
            nursery.cancel_scope.cancel()


async def test_groups_come_from_the_database() -> None:
    uid, gid = os.getuid(), os.getgid()
    name = pwd.getpwuid(uid).pw_name
    expected = {gid} | {group.gr_gid for group in grp.getgrall() if name in group.gr_mem}
    assert await groups_of(uid, gid) == expected


async def test_a_uid_that_the_database_does_not_know_has_its_own_group_alone() -> None:
    assert await groups_of(4_000_000_000, 4_000_000_001) == {4_000_000_001}
