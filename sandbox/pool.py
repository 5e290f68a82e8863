"""Which sandboxes stand ready: taken on demand, refilled when nothing would notice, given up.

A profile is admitted when its first sandbox is asked for. Preparing beside a handler that runs for
a millisecond would double that handler's time, so it is made up for when the attempt has ended, or
when it turns out to be a long one.
"""

from __future__ import annotations

import functools
import math
from collections import OrderedDict
from collections.abc import Callable

import attrs
import trio

from sandbox import scarce
from sandbox.process import Process
from sandbox.profile import Home, Profile, Stamp, TemplateLost, stamp_of
from sandbox.slot import Sandbox
from sandbox.spec import LauncherLost, SandboxFault, SandboxUnavailable, Spec

PREPARE_S = 5.0
# A mount holds a file system that the host wants to let go of, and shows none that came later.
AGE_MAX_S = 300.0
TEMPLATES_MAX = 16
# From then on an attempt counts as a long one, beside which others may be prepared.
QUIET_S = 0.05
_TRIES = 3


@attrs.define
class Statistics:
    """Counts since the start."""

    hits: int = 0
    """Sandboxes that stood ready when they were asked for."""
    misses: int = 0
    templates: int = 0
    """Templates made."""
    stale: int = 0
    """Templates retired because what they showed was replaced, or for their age."""
    evicted: int = 0
    """Sandboxes and templates given up in favour of others."""


class Pool:
    """``depth`` ready sandboxes for each profile in use, ``total`` for all of them together."""

    def __init__(self, home: Home, process: Callable[[], Process], depth: int, total: int) -> None:
        self.statistics = Statistics()
        self._home = home
        self._process = process
        self._depth = depth
        self._total = total
        self._profiles: OrderedDict[Spec, Profile] = OrderedDict()  # the last was used last
        self._making: dict[Spec, trio.Event] = {}
        self._changed = trio.Event()
        self._nursery: trio.Nursery | None = None

    def resize(self, depth: int, total: int) -> None:
        """Other numbers from now on; what is too much is given up when it is taken or aged."""
        self._depth, self._total = depth, total
        self._changed.set()

    @property
    def ready(self) -> int:
        """How many sandboxes wait."""
        return sum(len(profile.ready) for profile in self._profiles.values())

    # --- taking

    def at_hand(self, spec: Spec) -> Sandbox | None:
        """A sandbox that stands ready, when that can be told without waiting for anything."""
        profile = self._profiles.get(spec)
        if profile is None or not profile.ready or _may_hang(spec):
            return None
        if not self._current(profile, stamp_of(spec)):
            return None
        self._profiles.move_to_end(spec)
        sandbox = self._popped(profile)
        return None if sandbox is None else self._given(profile, sandbox)

    async def take(self, spec: Spec) -> Sandbox:
        """A waiting sandbox. SandboxUnavailable, LauncherLost."""
        stamp = await _stamp(spec)
        for _ in range(_TRIES):
            profile = await self._profile(spec, stamp)
            try:
                return await self._taken(profile)
            except TemplateLost:
                self._retire(profile)
                continue
            except SandboxUnavailable as error:
                failed = error
            old, stamp = stamp, await _stamp(spec)
            if old == stamp:
                raise failed
            self._retire(profile)  # what it shows was replaced meanwhile
        raise LauncherLost("its template ended again and again")

    async def _taken(self, profile: Profile) -> Sandbox:
        sandbox = self._popped(profile)
        if sandbox is None:
            self.statistics.misses += 1
            profile.wanted += 1
            try:
                sandbox = await profile.fork(ahead=False)
            finally:
                profile.wanted -= 1
            profile.failed = False  # whatever was in the way of filling it is gone
        return self._given(profile, sandbox)

    def _popped(self, profile: Profile) -> Sandbox | None:
        """One that stands ready and still lives."""
        while profile.ready:
            sandbox = profile.ready.pop()
            if sandbox.waits():
                self.statistics.hits += 1
                return sandbox
            self._discard(sandbox)
        return None

    def _given(self, profile: Profile, sandbox: Sandbox) -> Sandbox:
        profile.live += 1
        profile.taken_at = trio.current_time()

        def over() -> None:
            profile.live -= 1
            if sandbox.lost:
                # Most likely with its template, whose others only look alive until their turn.
                self._retire(profile)
            self._changed.set()

        sandbox.on_end = over
        self._changed.set()
        return sandbox

    async def _profile(self, spec: Spec, stamp: Stamp) -> Profile:
        """The profile of ``spec``, in force and up to date; made when there is none."""
        while True:
            profile = self._profiles.get(spec)
            if profile is not None and self._current(profile, stamp):
                self._profiles.move_to_end(spec)
                return profile
            if profile is not None:
                self.statistics.stale += 1
                self._retire(profile)
            making = self._making.get(spec)
            if making is None:
                return await self._make(spec, stamp)
            await making.wait()

    def _current(self, profile: Profile, stamp: Stamp) -> bool:
        return (
            not profile.retired
            and profile.stamp == stamp
            and profile.process is self._process()
            and trio.current_time() - profile.born < AGE_MAX_S
        )

    async def _make(self, spec: Spec, stamp: Stamp) -> Profile:
        made = self._making[spec] = trio.Event()
        try:
            profile = Profile(self._home, spec, self._process(), stamp)
            await profile.build()
        finally:
            del self._making[spec]
            made.set()
        self.statistics.templates += 1
        profile.changed = self._changed.set
        self._profiles[spec] = profile
        while len(self._profiles) > TEMPLATES_MAX:
            self.statistics.evicted += 1
            self._retire(next(iter(self._profiles.values())))
        return profile

    # --- giving up

    def retire_all(self) -> None:
        """Nothing that was prepared until now is given out any more."""
        for profile in list(self._profiles.values()):
            self._retire(profile)

    def _retire(self, profile: Profile) -> None:
        if self._profiles.get(profile.spec) is profile:
            del self._profiles[profile.spec]
            profile.retire()
            self._run(profile.buried)
        while profile.ready:
            self._discard(profile.ready.pop())

    def _discard(self, sandbox: Sandbox) -> None:
        sandbox.kill_now()
        self._run(sandbox.discard)

    def _run(self, what: Callable[[], object]) -> None:
        assert self._nursery is not None, "a launcher gives out sandboxes while it is run"
        self._nursery.start_soon(what)  # type: ignore[arg-type]  # an async function

    # --- refilling

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Refill and expire until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            try:
                await self._keep()
            finally:
                self.retire_all()

    async def _keep(self) -> None:
        while True:
            with trio.move_on_after(self._idle_s()):
                await self._changed.wait()
            self._changed = trio.Event()
            self._expire()
            while (profile := self._hungry()) is not None:
                await self._fill(profile)

    def _idle_s(self) -> float:
        """Seconds until something is due that nobody announces."""
        now = trio.current_time()
        due = [profile.born + AGE_MAX_S for profile in self._profiles.values()]
        due += [
            profile.taken_at + QUIET_S
            for profile in self._profiles.values()
            if profile.live and now < profile.taken_at + QUIET_S
        ]
        return max(0.0, min(due, default=math.inf) - now)

    def _expire(self) -> None:
        oldest = trio.current_time() - AGE_MAX_S
        for profile in list(self._profiles.values()):
            if profile.born <= oldest or profile.retired:
                self.statistics.stale += 1
                self._retire(profile)

    def _hungry(self) -> Profile | None:
        """The profile to prepare a sandbox for now, the one that was used last first."""
        now = trio.current_time()
        for profile in reversed(self._profiles.values()):
            if len(profile.ready) >= self._depth or profile.failed or profile.wanted:
                continue
            if profile.live and now < profile.taken_at + QUIET_S:
                continue
            if self.ready < self._total or self._evicted(profile):
                return profile
        return None

    def _evicted(self, favourite: Profile) -> bool:
        """Give up a sandbox of the profile that was used the longest ago, if that is another."""
        for profile in self._profiles.values():
            if profile is favourite:
                return False
            if profile.ready:
                self.statistics.evicted += 1
                self._discard(profile.ready.pop())
                return True
        return False

    async def _fill(self, profile: Profile) -> None:
        try:
            with trio.fail_after(PREPARE_S):
                sandbox = await profile.fork(ahead=True)
        except TemplateLost:
            self._retire(profile)
        except (SandboxFault, trio.TooSlowError):
            profile.failed = True  # whoever asks next is told why
        else:
            if profile.retired or self._profiles.get(profile.spec) is not profile:
                self._discard(sandbox)
            else:
                profile.ready.append(sandbox)


def _may_hang(spec: Spec) -> bool:
    """Whether its paths may lie on a file system that does: that must cost one request only."""
    return bool(spec.distant or spec.read or spec.write or spec.unix)


@functools.lru_cache(maxsize=4_096)
def _looks(_spec: Spec) -> trio.CapacityLimiter:
    """Those that hang take no thread that others wait for."""
    return trio.CapacityLimiter(2)


async def _stamp(spec: Spec) -> Stamp:
    if not _may_hang(spec):
        return stamp_of(spec)
    try:
        return await scarce.in_thread(stamp_of, spec, limiter=_looks(spec))
    except OSError as error:
        raise scarce.refused(error.errno or 0) from error
