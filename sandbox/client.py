"""The daemon's end of the launcher: starts it, replaces it, gives out its sandboxes."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Self

import trio

from sandbox import cgroups, confine, plan, remedies, wire
from sandbox.claim import Claim
from sandbox.pool import PREPARE_S, Pool, Statistics
from sandbox.process import Process
from sandbox.profile import Home, lent
from sandbox.slot import Sandbox
from sandbox.spec import LauncherLost, NamespacesRefused, SandboxUnavailable, Spec

__all__ = ["Launcher", "Sandbox"]

# A launcher that ended five times, each within a minute of its start and before it had made
# anything, will not get better.
RESTARTS_MAX = 5
RESTART_RESET_S = 60.0
# Descriptors that the daemon keeps for itself: those in flight to handlers count against its own
# soft limit, and a handler of the same uid can hold as many in flight as it may have open.
FILES_KEPT = 1_024


class Launcher:
    """Prepares sandboxes through a process of its own, which dies with the daemon.

    `start` it first, then `run` it in a nursery for as long as sandboxes are wanted.
    """

    def __init__(self, home: Home, claim: Claim | None, pool: int, pool_total: int) -> None:
        self._home = home
        self._claim = claim
        self._process = Process(home.uid, home.gid)
        self._pool = Pool(home, lambda: self._process, pool, pool_total)
        self._files = _raise_file_limit()
        self._closing = trio.Event()

    @classmethod
    def start(
        cls,
        *,
        handler_uid: int | None = None,
        handler_gid: int | None = None,
        cgroup_root: Path | None = None,
        pool: int = 0,
        pool_total: int = 0,
    ) -> Self:
        """Start the launcher: the first act of ``main()``, before trio, threads and secrets.

        Handlers run as ``handler_uid`` (default: the daemon's own). ``pool`` sandboxes stand
        ready for each spec in use, at most ``pool_total`` in all. ValueError for uid 0.
        """
        uid = os.getuid() if handler_uid is None else handler_uid
        gid = os.getgid() if handler_gid is None else handler_gid
        if uid == 0 or gid == 0:
            raise ValueError(
                "handlers never run as root: set handler_user to an unprivileged user"
                " (effectd-run under systemd, nobody for a try as root)"
            )
        if cgroup_root is not None and (why := cgroups.unavailable(cgroup_root, gid)):
            raise SandboxUnavailable("cgroup", why, remedies.CGROUP)
        claim = Claim.of(cgroup_root) if cgroup_root is not None else None
        try:
            launcher = cls(Home(uid, gid, cgroup_root), claim, pool, pool_total)
        except BaseException:
            if claim is not None:
                claim.close()
            raise
        confine.ask()
        return launcher

    @property
    def pid(self) -> int:
        """The present launcher's."""
        return self._process.popen.pid

    @property
    def uid(self) -> int:
        """Whose handlers run."""
        return self._home.uid

    @property
    def gid(self) -> int:
        """The group of that user."""
        return self._home.gid

    @property
    def statistics(self) -> Statistics:
        """How the pool did so far."""
        return self._pool.statistics

    @property
    def ready(self) -> int:
        """How many sandboxes stand ready."""
        return self._pool.ready

    def resize(self, pool: int, pool_total: int) -> None:
        """Keep that many ready from now on, and nothing that was prepared before."""
        self._pool.resize(pool, pool_total)
        self._pool.retire_all()

    async def sweep(self, within_s: float = 5) -> tuple[str, ...]:
        """End and remove the cgroups that dead daemons left, those of attempts among them; the
        paths of those that something in them keeps."""
        if self._claim is None:
            return ()
        return tuple(str(one.path) for one in await self._claim.sweep(within_s))

    # --- keeping it alive

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Watch the launcher and replace a lost one, until `close`.

        LauncherLost when it ends again and again: there is something that a restart cannot heal.
        """
        lost: LauncherLost | None = None
        confine.here()  # asked by `start`
        async with trio.open_nursery() as nursery:
            await nursery.start(self._pool.run)
            task_status.started()
            try:
                await self._watch()
            except LauncherLost as error:
                lost = error
            finally:
                with trio.CancelScope(shield=True):
                    await self._process.bury()
                nursery.cancel_scope.cancel()
        if lost is not None:
            raise lost

    async def _watch(self) -> None:
        failures = 0
        while not self._closing.is_set():
            since = trio.current_time()
            await self._process.attend()
            await self._process.bury()
            if self._closing.is_set():
                return
            long_enough = trio.current_time() - since > RESTART_RESET_S
            failures = 1 if long_enough or self._process.served else failures + 1
            if failures > RESTARTS_MAX:
                raise LauncherLost(f"the launcher ended {failures} times in a row, at once")
            await trio.sleep(min(0.05 * 2**failures, 2.0) if failures > 1 else 0)
            # On the main thread, and 20 to 40 ms of it: trio would spawn from a worker.
            try:
                self._process = Process(self._home.uid, self._home.gid)
            except OSError:  # no memory, no descriptors: counts as one that made nothing
                self._process.served = False
            self._pool.retire_all()

    async def close(self) -> None:
        """Let the launcher end, and with it every sandbox that is still there."""
        if self._claim is not None and not self._closing.is_set():
            self._claim.close()
        self._closing.set()
        self._process.kill()
        with trio.CancelScope(shield=True):
            await self._process.bury()

    # --- sandboxes

    async def prepare(self, spec: Spec) -> Sandbox:
        """A confined, waiting sandbox for one command, within five seconds.

        SandboxUnavailable names the layer that cannot be had; LauncherLost is worth a retry.
        """
        sandbox = self._pool.at_hand(spec)  # whose spec was checked when its profile was made
        if sandbox is not None:
            return sandbox
        remedies.check_paths(spec)
        if self._home.uid == os.getuid() and spec.files_max + FILES_KEPT > self._files:
            raise SandboxUnavailable("limits", f"files_max is {spec.files_max}", remedies.FILES)
        has_cgroup = self._home.cgroup_root is not None
        contained_by = remedies.containment(spec, has_cgroup=has_cgroup)
        try:
            with trio.fail_after(PREPARE_S):
                if contained_by == wire.BY_NAMESPACE:
                    try:
                        return await self._pool.take(spec)
                    except NamespacesRefused:
                        if not remedies.falls_back(spec, has_cgroup=has_cgroup):
                            raise
                return await self._bare(spec)
        except trio.TooSlowError as error:
            raise SandboxUnavailable("init", remedies.SLOW, remedies.SLOW_REMEDY) from error

    async def _bare(self, spec: Spec) -> Sandbox:
        """A sandbox that only a cgroup holds together."""
        cgroup = self._home.cgroup(spec)
        assert cgroup is not None, "without one there is no containment"
        async with lent(cgroup, wire.BY_CGROUP):
            fds = cgroup.open()
            try:
                steps = plan.bare(spec, cgroup.limits)
                forked = await self._process.request(wire.BARE, 0, steps, fds)
            finally:
                for fd in fds:
                    os.close(fd)
            sandbox = self._home.sandbox(forked, wire.BY_CGROUP, cgroup)
        return await self._home.confined(sandbox)


def _raise_file_limit() -> int:
    """As many as are allowed: descriptors in flight to handlers count against the soft limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
