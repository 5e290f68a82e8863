"""A request of which the kernel dropped descriptors is refused whole: what is left of it would be a
request for less, for a sandbox outside of its cgroup or a handler without its outputs."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import pytest

from sandbox import plan, wire
from sandbox.forker import Forker
from sandbox.process import Refused, rights
from sandbox.spec import Command, NotStarted, Spec
from tests.sandbox.support import children, launched
from tests.sandbox.test_out_of_files import open_files, room_for

CUT_OFF = [(5, 32), (4, 3), (4, 0)]
"""How many descriptors are sent to whoever takes four, and how many more it may have."""


class Recorder(Forker):
    """Forks nothing, and keeps how many descriptors came with each request."""

    def __init__(self, control: socket.socket) -> None:
        super().__init__(control)
        self.obeyed: list[int] = []

    def obey(self, kind: int, number: int, flags: int, plan: bytes, fds: list[int]) -> None:
        self.obeyed.append(len(fds))


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield ours, theirs


def send(to: socket.socket, count: int, message: bytes) -> None:
    with open("/dev/null", "rb") as null:
        to.sendmsg([message], rights([null.fileno()] * count))


@pytest.mark.guarantee("S1")
@pytest.mark.parametrize(("count", "room"), CUT_OFF)
def test_a_forker_refuses_it_and_keeps_nothing(
    pair: tuple[socket.socket, socket.socket], count: int, room: int
) -> None:
    ours, theirs = pair
    forker = Recorder(theirs)
    try:
        send(ours, count, wire.REQUEST.pack(wire.BARE, 7, 0))
        before = open_files()
        with room_for(room):
            assert forker.listen()
        assert forker.obeyed == []
        forker.flush()
        assert wire.REPLY.unpack(ours.recv(64)) == (wire.REFUSED, 7, 0, errno.EMFILE)
        assert open_files() == before
        send(ours, 4, wire.REQUEST.pack(wire.BARE, 8, 0))
        assert forker.listen()
        assert forker.obeyed == [4], "it serves whoever asks next"
        assert open_files() == before
    finally:
        os.close(forker.me)


@pytest.mark.parametrize("level", ["strict", "none"])
async def test_the_launcher_makes_nothing_of_it(level: str) -> None:
    async with launched() as launcher:
        kind, flags, steps = (wire.BARE, 0, plan.bare(Spec(), ()))
        if level == "strict":
            kind, flags, steps = (
                wire.TEMPLATE,
                plan.template_flags(Spec()),
                plan.template(Spec()),
            )
        with pytest.raises(Refused) as refused:
            await launcher._process.request(kind, flags, steps, [0] * 5)
        assert refused.value.errno == errno.EMFILE
        assert children(launcher.pid) == []
        await (await launcher.prepare(Spec())).discard()


@pytest.mark.guarantee("S8")
async def test_an_init_starts_nothing_without_all_its_descriptors() -> None:
    async with launched() as launcher:
        sandbox = await launcher.prepare(Spec())
        sandbox._theirs.append(os.dup(0))
        answer = await sandbox.dispatch(Command(("/bin/true",)))
        assert isinstance(answer, NotStarted)
        assert (answer.errno, answer.stage) == (errno.EMFILE, "send")
        await sandbox.discard()
