"""strace(1) on a sandbox that waits at its gate: attached before anything runs, read as it goes."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from supervisor.cli.denials.limits import TRACED
from supervisor.cli.denials.lines import LINE_MAX

if TYPE_CHECKING:
    from supervisor.cli.denials.judge import Judge

ATTACH_S = 10.0
POLL_S = 0.005
READ_BYTES = 65_536
SAID_MAX = 4_096
# What is left to read once the last process is gone, and strace with it.
END_S = 5.0
INSTALL = "apt install strace, or your distribution's like, shows each denied call"


class NotTraced(Exception):  # noqa: N818 - a reason to go on without, not a fault
    """strace is not there, or may not attach: its text says why."""


def program() -> str:
    """Where strace is. Raises NotTraced."""
    found = shutil.which("strace")
    if found is None:
        raise NotTraced(INSTALL)
    return found


def arguments(strace: str, init: int) -> list[str]:
    """The command line: all strings in hexadecimal, no contents, nothing of what succeeds quietly
    left out, because a later failure is told by an earlier success (whom a socket was for)."""
    # With a question mark, a name that this strace does not know is passed over.
    names = ",".join(f"?{name}" for name in TRACED)
    return [
        *[strace, "-f", "-y", "-xx", "-s", "0", "-o", "/dev/stdout"],
        *["-e", f"trace=%file,%network,%process,{names}"],
        *["-e", "signal=SYS,XCPU,XFSZ", "-p", str(init)],
    ]


@contextlib.asynccontextmanager
async def tracing(init: int, judge: Judge) -> AsyncGenerator[None]:
    """Within, every call in the sandbox of PID 1 `init` comes to the judge; afterwards, with the
    sandbox dead, all have come. Raises NotTraced before anything within has run. What is raised
    within comes out in a group, as from any nursery."""
    tracer = await _Tracer.attach(init, judge)
    reading = trio.Event()

    async def read() -> None:
        await tracer.read()
        reading.set()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            yield
            with trio.move_on_after(END_S):
                await reading.wait()
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await tracer.close()


class _Tracer:
    """One strace on one sandbox."""

    def __init__(self, process: trio.Process, judge: Judge) -> None:
        self._process = process
        self._judge = judge
        self._said = b""

    @classmethod
    async def attach(cls, init: int, judge: Judge) -> _Tracer:
        """Return once the kernel calls `init` traced: from then on no call escapes, its children's
        from their first. Raises NotTraced with strace's own words."""
        process = await trio.lowlevel.open_process(
            arguments(program(), init),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C ends the run, and the run's end ends this.
            start_new_session=True,
        )
        tracer = cls(process, judge)
        attached = False
        try:
            with trio.move_on_after(ATTACH_S):
                while process.poll() is None and not attached:
                    await trio.sleep(POLL_S)
                    attached = tracer_of(init) == process.pid
            if not attached:
                raise NotTraced(await tracer._why_not())
        finally:
            if not attached:
                with trio.CancelScope(shield=True):
                    await tracer.close()
        return tracer

    async def read(self) -> None:
        """Feed the judge until the last traced process is gone."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._hear)
            stdout = self._process.stdout
            assert stdout is not None
            rest = b""
            while data := await stdout.receive_some(READ_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._judge.feed(line.decode("ascii", "replace"))
                if len(rest) > LINE_MAX:
                    rest = b""  # no line of ours is that long: what follows is passed over

    async def close(self) -> None:
        """End it, by its pid, and reap it. A sandbox that it still traced goes on untraced."""
        if self._process.poll() is None:
            self._process.kill()
        await self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                await stream.aclose()

    async def _hear(self) -> None:
        """What it says of itself is dropped, but read, so that it never waits for us."""
        stderr = self._process.stderr
        assert stderr is not None
        while data := await stderr.receive_some(READ_BYTES):
            self._said = (self._said + data)[-SAID_MAX:]

    async def _why_not(self) -> str:
        if self._process.poll() is None:
            return f"strace did not attach within {ATTACH_S:.0f} s"
        with trio.move_on_after(END_S):
            await self._hear()
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        said = lines[-1] if lines else f"it ended with {self._process.returncode}"
        if "not permitted" in said:
            said += "; root may attach, or anybody when kernel.yama.ptrace_scope is below 3"
        return f"strace could not attach: {said}"


def tracer_of(pid: int) -> int:
    """Who traces a process, as the kernel says; 0 for nobody."""
    try:
        lines = Path("/proc", str(pid), "status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    for line in lines.splitlines():
        if line.startswith("TracerPid:"):
            return int(line.split()[1])
    return 0
