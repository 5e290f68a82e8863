"""Attempts of every kind, each with the end that it must have."""

from __future__ import annotations

import math
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import attrs
import trio

from sandbox import group
from sandbox.client import Launcher, Sandbox
from sandbox.spec import (
    DEFAULT_ENVIRONMENT,
    Command,
    Ended,
    LauncherLost,
    Lost,
    NotStarted,
    Spec,
    Started,
)
from tests.sandbox.adversaries import MODES
from tests.sandbox.support import new_tag, read_line

GRACE_MS = 20
BIG = 1 << 20
PATIENCE_S = 90
# How long a launcher may be dead until everybody has noticed.
NOTICED_S = 3.0

Outcome = Ended | Lost | NotStarted | None
"""None: the launcher was killed under it."""


@attrs.define
class Soak:
    """Runs attempts through one launcher, which may be killed meanwhile."""

    launcher: Launcher
    adversary: str
    folder: Path
    profiles: list[Spec]
    tally: Counter[str] = attrs.field(factory=Counter)
    kills: int = 0
    killed_at: float = -math.inf
    replacing: tuple[trio.Lock, trio.Lock] = attrs.field(factory=lambda: (trio.Lock(), trio.Lock()))

    # --- many of them

    async def run(self, kinds: list[str], at_once: int) -> None:
        """Each of ``kinds`` once, that many at a time."""
        waiting = iter(list(enumerate(kinds)))

        async def worker() -> None:
            for serial, kind in waiting:
                try:
                    with trio.fail_after(PATIENCE_S):
                        await self.one(kind, serial)
                except Exception as error:
                    error.add_note(f"attempt {serial}: {kind}, {MODES[serial % len(MODES)]}")
                    raise

        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(worker)

    async def one(self, kind: str, serial: int) -> None:
        spec = self.profiles[serial % len(self.profiles)]
        self.tally[kind] += 1
        while True:
            began = trio.current_time()
            try:
                await KINDS[kind](self, spec, serial)
            except LauncherLost:
                await trio.sleep(0.05)  # another is being started
            except (AssertionError, trio.BrokenResourceError):
                # Whoever is given a sandbox right after the kill may see it end under them.
                if self.killed_at < began - NOTICED_S:
                    raise
            else:
                return

    async def rest(self) -> None:
        """One plain attempt of each profile in turn: it leaves the pool in the same state."""
        for spec in (*self.profiles, *(self.shows_a_file(at) for at in range(2))):
            await self.one_of(spec)

    def shows_a_file(self, at: int) -> Spec:
        file = self.folder / f"replaced-{at}"
        if not file.exists():
            file.write_text("-1\n")
        return Spec(read=(str(file),))

    async def one_of(self, spec: Spec) -> None:
        end = await self._run(spec, ("/bin/true",))
        assert isinstance(end, Ended), end

    # --- the kinds

    async def succeeds(self, spec: Spec, _serial: int) -> None:
        end = await self._run(spec, ("/bin/true",))
        assert isinstance(end, Ended), end
        assert (end.how, end.status, end.killed) == ("exited", 0, 0)

    async def fails(self, spec: Spec, _serial: int) -> None:
        out: list[bytes] = []
        end = await self._run(spec, ("/bin/sh", "-c", "echo out; echo err >&2; exit 7"), out=out)
        assert isinstance(end, Ended), end
        assert (end.status, sorted(out)) == (7, [b"", b"err\n", b"out\n"])

    async def prints_much(self, spec: Spec, _serial: int) -> None:
        out: list[bytes] = []
        script = f"head -c {BIG} /dev/zero & head -c {BIG} /dev/zero >&2; wait"
        end = await self._run(spec, ("/bin/sh", "-c", script), out=out)
        assert isinstance(end, Ended), end
        assert sorted(map(len, out)) == [0, BIG, BIG]

    async def closes_everything(self, spec: Spec, _serial: int) -> None:
        script = "exec 0<&- 1>&- 2>&- 3>&-; exit 3"
        end = await self._run(spec, ("/bin/sh", "-c", script))
        assert isinstance(end, Ended), end
        assert end.status == 3

    async def cannot_start(self, spec: Spec, serial: int) -> None:
        program = ("/nowhere/at-all", "/etc", "/etc/hostname")[serial % 3]
        end = await self._run(spec, (program,))
        assert isinstance(end, NotStarted), end
        assert end.stage == "exec"

    async def reads_a_secret(self, spec: Spec, serial: int) -> None:
        out: list[bytes] = []
        secret = b"%d" % serial
        argv = ("/bin/cat", "/run/credentials/token", "-")
        end = await self._run(spec, argv, out=out, secrets={"token": secret}, stdin=b"-and-stdin")
        assert isinstance(end, Ended), end
        assert secret + b"-and-stdin" in out

    async def runs_out_of_time(self, spec: Spec, _serial: int) -> None:
        end = await self._ended(spec, ("/bin/sleep", "30"))
        assert isinstance(end, Ended), end
        # The grace is short: on a busy host it is over before the signal is heard.
        assert (end.how, end.status) in {("signaled", 15), ("signaled", 9)}

    async def is_told_to_stop(self, spec: Spec, serial: int) -> None:
        """Cancelled in the middle of whatever an adversary does."""
        mode = MODES[serial % len(MODES)]
        end = await self._ended(spec, (self.adversary, mode, "30000", new_tag()), ready=True)
        assert isinstance(end, Ended), (mode, end)

    async def leaves_others_behind(self, spec: Spec, serial: int) -> None:
        """The leader of an adversary exits; the rest of it stays."""
        mode = MODES[serial % len(MODES)]
        sandbox = await self.launcher.prepare(spec)
        try:
            argv = (self.adversary, mode, "-", new_tag())
            assert isinstance(await sandbox.dispatch(Command(argv, DEFAULT_ENVIRONMENT)), Started)
            assert await read_line(sandbox.stdout) == b"ready\n", mode
            await sandbox.channel.send_all(b"!")
            end = await sandbox.leader_exited()
        finally:
            await self._discard(sandbox)
        assert isinstance(end, Ended), (mode, end)
        assert end.killed > 0, mode

    async def is_killed_from_outside(self, spec: Spec, serial: int) -> None:
        mode = MODES[serial % len(MODES)]
        sandbox = await self.launcher.prepare(spec)
        try:
            argv = (self.adversary, mode, "30000", new_tag())
            assert isinstance(await sandbox.dispatch(Command(argv, DEFAULT_ENVIRONMENT)), Started)
            assert await sandbox.kill() == "pidfd"
        finally:
            await self._discard(sandbox)

    async def is_never_used(self, spec: Spec, _serial: int) -> None:
        await self._discard(await self.launcher.prepare(spec))

    async def is_given_up(self, spec: Spec, serial: int) -> None:
        """Nobody waits any more for the sandbox that is being prepared."""
        with trio.move_on_after((0, 0.000_5, 0.002)[serial % 3]):
            await self._discard(await self.launcher.prepare(spec))

    async def is_cancelled_at_the_gate(self, spec: Spec, serial: int) -> None:
        """The dispatch is cancelled while it waits for init's word."""
        sandbox = await self.launcher.prepare(spec)
        try:
            with trio.move_on_after((0, 0.000_2, 0.001)[serial % 3]):
                await sandbox.dispatch(Command(("/bin/sleep", "30"), DEFAULT_ENVIRONMENT))
            end = await group.end(sandbox, grace_ms=GRACE_MS, ask=True)
            assert isinstance(end, Ended | Lost), end
        finally:
            await self._discard(sandbox)

    async def sees_the_new_file(self, _spec: Spec, serial: int) -> None:
        """A bound file is replaced: no sandbox that was prepared before may be used."""
        spec = self.shows_a_file(serial % 2)
        file = Path(spec.read[0])
        out: list[bytes] = []
        async with self.replacing[serial % 2]:
            fresh = file.with_suffix(f".{serial}")
            fresh.write_text(f"{serial}\n")
            fresh.chmod(0o644)
            os.replace(fresh, file)
            end = await self._run(spec, ("/bin/cat", str(file)), out=out)
        assert isinstance(end, Ended), end
        assert max(out) == b"%d\n" % serial

    async def kills_the_launcher(self, _spec: Spec, _serial: int) -> None:
        self.kills += 1
        self.killed_at = trio.current_time()
        os.kill(self.launcher.pid, 9)

    # --- what they are made of

    async def _run(
        self, spec: Spec, argv: tuple[str, ...], *, out: list[bytes] | None = None, **more: object
    ) -> Outcome:
        """Until it ends by itself; ``out`` takes what the three outputs said."""
        sandbox = await self.launcher.prepare(spec)
        try:
            answer = await sandbox.dispatch(Command(argv, DEFAULT_ENVIRONMENT, **more))
            if isinstance(answer, NotStarted):
                return answer
            async with trio.open_nursery() as nursery:
                for stream in (sandbox.stdout, sandbox.stderr, sandbox.channel):
                    nursery.start_soon(_keep, stream, [] if out is None else out)
                end = await sandbox.leader_exited()
        finally:
            await self._discard(sandbox)
        return end

    async def _ended(self, spec: Spec, argv: tuple[str, ...], *, ready: bool = False) -> Outcome:
        """Ended from here as soon as it runs, or says that it is ready."""
        sandbox = await self.launcher.prepare(spec)
        try:
            assert isinstance(await sandbox.dispatch(Command(argv, DEFAULT_ENVIRONMENT)), Started)
            if ready:
                assert await read_line(sandbox.stdout) == b"ready\n"
            end = await group.end(sandbox, grace_ms=GRACE_MS, ask=True)
            assert not isinstance(end, group.Unkillable)
            return end
        finally:
            await self._discard(sandbox)

    async def _discard(self, sandbox: Sandbox) -> None:
        with trio.CancelScope(shield=True):
            await sandbox.discard()


async def _keep(stream: trio.abc.ReceiveStream, out: list[bytes]) -> None:
    data = bytearray()
    while chunk := await stream.receive_some(65_536):
        data += chunk
    out.append(bytes(data))


_FREQUENT = ("succeeds", "fails", "leaves_others_behind", "runs_out_of_time", "is_told_to_stop")

KINDS: dict[str, Callable[[Soak, Spec, int], Awaitable[None]]] = {
    "succeeds": Soak.succeeds,
    "fails": Soak.fails,
    "prints_much": Soak.prints_much,
    "closes_everything": Soak.closes_everything,
    "cannot_start": Soak.cannot_start,
    "reads_a_secret": Soak.reads_a_secret,
    "runs_out_of_time": Soak.runs_out_of_time,
    "is_told_to_stop": Soak.is_told_to_stop,
    "leaves_others_behind": Soak.leaves_others_behind,
    "is_killed_from_outside": Soak.is_killed_from_outside,
    "is_never_used": Soak.is_never_used,
    "is_given_up": Soak.is_given_up,
    "is_cancelled_at_the_gate": Soak.is_cancelled_at_the_gate,
    "sees_the_new_file": Soak.sees_the_new_file,
    "kills_the_launcher": Soak.kills_the_launcher,
}


def mixed(count: int, launcher_kills: int, seed: int) -> list[str]:
    """That many kinds in an order that the seed decides; every kind is among them."""
    chance = random.Random(seed)
    usual = [kind for kind in KINDS if kind != "kills_the_launcher"]
    kinds = chance.choices([*usual, *_FREQUENT], k=count - launcher_kills - len(usual))
    kinds += usual
    chance.shuffle(kinds)
    # Neither at the start nor at the end, where they would end nothing.
    for at in range(launcher_kills):
        kinds.insert((at + 1) * count // (launcher_kills + 1), "kills_the_launcher")
    return kinds
