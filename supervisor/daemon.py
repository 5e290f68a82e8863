"""The order of life: launcher, journal, survivors, epoch, socket, ready; then the reverse."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import sys
import time
from collections.abc import AsyncIterator
from typing import cast

import trio

from config.load import Handlers
from config.manifest import SandboxDecl
from config.problems import ConfigError
from config.schema import Config
from sandbox import remedies, scarce
from sandbox.census import boot_id
from sandbox.client import Launcher
from sandbox.spec import Missing, SandboxFault, SandboxUnavailable, Spec
from supervisor import memory, server
from supervisor.dispatch import Engine, Unavailable, visible
from supervisor.dispatch.approvals import expire_approvals
from supervisor.dispatch.queued import run_call
from supervisor.housekeeping import housekeep
from supervisor.journal import blobs, durably
from supervisor.journal.ahead import Ahead
from supervisor.journal.damaged import DamagedJournal
from supervisor.journal.log import Journal, JournalPoisoned
from supervisor.launching import CannotStart
from supervisor.notify import Notifier
from supervisor.occupancy import Occupancy
from supervisor.recovery import (
    Replayed,
    identities,
    recover,
    recover_unwritten,
    replay,
    watch_survivors,
)
from supervisor.reloading import Reloads
from supervisor.server import Listener, Peer, ServerLimits
from supervisor.server.inside import Init, is_inside
from supervisor.service import Service
from supervisor.snapshotting import Snapshots
from supervisor.version import VERSION
from supervisor.witnessing import Keeper

EXIT_POISONED = 75
# How often a stop looks whether all that it waits for cannot be killed.
_LOOK_S = 0.5
_NO_CLIENT = "a handler cannot be a client of the daemon that runs it"
# Of their own: look-ups that hang must not take the threads that others wait for.
_LOOKUPS = trio.CapacityLimiter(4)
# A second signal means: do not wait any longer.
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def say(text: str) -> None:
    print(f"effectd: {text}", file=sys.stderr, flush=True)  # noqa: T201  # the service manager's log


def run(
    config: Config, launcher: Launcher, ahead: Ahead | None, *, accept_rollback: str = ""
) -> int:
    """Run until told to stop; the exit status. Raises what stands in the way of starting.

    The process is protected, and may have begun to read its journal. `accept_rollback` is the
    reason to go on for with a journal that its witness knows better.
    """
    started = time.monotonic_ns()
    memory.spare()
    notifier = Notifier.from_environment()
    listeners = server.inherited()
    _make_directories(config)
    handlers = visible.load(config)
    witness = Keeper(config, accept_rollback, say)
    replayed = replay(config, witness.open, ahead)
    if replayed.damage is None:  # and the journal's lock is ours
        blobs.clear(config.state_dir / blobs.DIRECTORY)
    daemon = Daemon(config, handlers, launcher, replayed, witness, notifier, started)
    return trio.run(daemon.main, listeners)


def _make_directories(config: Config) -> None:
    """The state directory; for a developer also the one for manifests."""
    wanted = [("state_dir", config.state_dir)]
    if config.origin.dev:
        wanted.append(("handlers_dir", config.handlers_dir))
    for key, directory in wanted:
        try:
            durably.make_directory(directory)
        except OSError as error:
            fix = "create it for the daemon's user, or name another one"
            raise CannotStart(f"{key} {directory}: {error.strerror}: {fix}") from error


class Daemon:
    def __init__(  # made in one place
        self,
        config: Config,
        handlers: Handlers,
        launcher: Launcher,
        replayed: Replayed,
        witness: Keeper,
        notifier: Notifier,
        started: int,
    ) -> None:
        self._launcher = launcher
        self._replayed = replayed
        self._witness = witness
        self._notifier = notifier
        self._engine = Engine(
            config=config,
            handlers=handlers,
            # A damaged journal is never appended to: the service refuses before that.
            journal=cast("Journal", replayed.journal),
            launcher=launcher,
            state=replayed.state,
            events=replayed.events,
            scratch=replayed.scratch,
            groups=_groups,
            unwitnessed=lambda: witness.problem,
        )
        self._snapshots = _snapshots(self._engine, replayed)
        self._reloads = Reloads(self._engine, notifier, say)
        self._service = Service(
            self._engine, self._reloads.now, started=started, damage=replayed.damage
        )
        self._status = 0
        self._patience = trio.CancelScope()  # of a stop with what still runs

    async def main(self, listeners: tuple[Listener, ...]) -> int:
        async with trio.open_nursery() as nursery:
            with trio.open_signal_receiver(*_SIGNALS) as signals:
                await nursery.start(self._launcher.run)
                await self._start(nursery)
                mine = listeners or (self._bind(),)
                await nursery.start(self._serve, mine)
                self._announce_ready()
                nursery.start_soon(self._notifier.watchdog, lambda: True)
                await self._until_told(signals)
            if self._snapshots is not None:
                self._snapshots.stop()
            await self._stop(mine)
            nursery.cancel_scope.cancel()
        return self._status

    async def _start(self, nursery: trio.Nursery) -> None:
        engine, journal = self._engine, self._replayed.journal
        if isinstance(journal, DamagedJournal):
            assert self._replayed.damage is not None
            say(f"read-only: {self._replayed.damage.detail}")
            await recover_unwritten(engine)
            return
        journal.start(self._poisoned)
        async with trio.open_nursery() as beginning:
            beginning.start_soon(self._probe)  # another process works on that
            await self._begin(nursery, journal)
        if any(one.refuses for one in engine.missing):
            await self._probe()  # perhaps for what was not ended yet
            for one in engine.missing:
                say(f"handlers cannot be confined: {one.layer}: {one.cause}. {one.remedy}")
        nursery.start_soon(watch_survivors, engine)
        nursery.start_soon(housekeep, engine)
        nursery.start_soon(expire_approvals, engine)

    async def _begin(self, nursery: trio.Nursery, journal: Journal) -> None:
        """End what is left of earlier epochs, and begin one; what is done beside it from then
        on is started in `nursery`."""
        engine = self._engine
        engine.attend(nursery, lambda call_id, lent: run_call(engine, call_id, lent))
        try:
            await recover(engine, self._witness.accepted)
        except Unavailable as unavailable:
            raise CannotStart(f"the journal takes nothing: {unavailable}") from unavailable
        await self._witness.begin(journal)
        nursery.start_soon(self._witness.run, journal)
        assert self._snapshots is not None, "this journal can be written"
        nursery.start_soon(self._snapshots.run)
        occupancy = Occupancy(engine)
        engine.occupied, engine.full = (lambda: occupancy.used), (lambda: occupancy.problem)
        nursery.start_soon(occupancy.run)
        # Recorded attempts are proven dead by now; what nobody recorded goes with the rest.
        if kept := await engine.launcher.sweep():
            say(f"left by an earlier daemon, and not to be removed: {', '.join(kept)}")

    async def _probe(self) -> None:
        self._engine.layers, self._engine.missing = await _layers(self._engine)

    def _poisoned(self, why: JournalPoisoned) -> None:
        say(f"the journal failed, nothing new is started: {why}. {why.fix}")
        self._engine.poisoned.set()

    def _bind(self) -> Listener:
        config = self._engine.config
        folder = config.socket.parent
        if not folder.exists():
            try:
                folder.mkdir(mode=0o755, parents=True)
                # Our umask keeps everybody out; clients must get to the socket, which has a
                # mode of its own.
                folder.chmod(0o755)
            except OSError as error:
                fix = "create that directory, or name another socket"
                raise CannotStart(f"socket {config.socket}: {error.strerror}: {fix}") from error
        # A developer's socket is his own, whatever groups the host has.
        group = None if config.origin.dev else "effectd-clients"
        return server.bind(config.socket, group=group)

    async def _serve(
        self,
        listeners: tuple[Listener, ...],
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        limits = ServerLimits(body_bytes=self._engine.config.limits.request_bytes)
        await server.serve(
            listeners,
            self._service.app,
            limits=limits,
            peer_check=self._inside,
            task_status=task_status,
        )

    def _inside(self, peer: Peer) -> str | None:
        """Why this peer is refused: a process inside one of our sandboxes is never a client."""
        origin = self._engine.config.origin
        if peer.uid == origin.handler_uid != origin.daemon_uid:
            return f"handlers run as uid {peer.uid}, and {_NO_CLIENT}"
        inits = [
            Init(one.init_pid, one.start_time, one.cgroup)
            for one in identities(self._engine.state)
            if one.boot_id == boot_id()
        ]
        inside = is_inside(peer.pid, self._launcher.pid, inits)
        return _NO_CLIENT if inside else None

    def _announce_ready(self) -> None:
        config = self._engine.config
        for warning in (*config.origin.warnings, *self._engine.handlers.warnings):
            say(f"warning: {warning.text}")
        for name, error in self._engine.handlers.broken.items():
            for problem in error.problems:
                say(f"handler {name} is broken: {problem.text}")
        count = len(self._engine.handlers)
        recovered = self._replayed.journal.recovered
        for name, why in recovered.refused.items():
            say(f"warning: snapshot {name} was put into quarantine: {why}")
        since = f" from position {recovered.started_from}" if recovered.started_from else ""
        counts = f"{count} handlers, {recovered.frames} frames replayed{since}"
        text = f"{VERSION} ready on {config.socket}: {counts}"
        say(text)
        self._notifier.ready(text)

    # --- until the end ----------------------------------------------------------------

    async def _until_told(self, signals: AsyncIterator[int]) -> None:
        """Wait for a signal to stop, or for a journal that failed."""
        async with trio.open_nursery() as nursery:

            async def told() -> None:
                async for number in signals:
                    if number == signal.SIGHUP:
                        nursery.start_soon(self._reload)
                    elif self._engine.draining:
                        self._engine.stop_all("shutdown")
                        self._patience.cancel()
                    else:
                        nursery.start_soon(self._drain, nursery.cancel_scope)

            async def failed() -> None:
                await self._engine.poisoned.wait()
                self._status = EXIT_POISONED
                self._engine.draining = True
                # Running handlers may end by themselves, to their deadline.
                await self._engine.idle()
                nursery.cancel_scope.cancel()

            nursery.start_soon(told)
            nursery.start_soon(failed)

    async def _drain(self, scope: trio.CancelScope) -> None:
        engine = self._engine
        engine.draining = True
        self._notifier.stopping("draining: running handlers are given time to end")
        with trio.move_on_after(engine.config.drain_ms / 1000) as self._patience:
            await engine.idle()
        engine.stop_all("shutdown")
        while True:
            with trio.move_on_after(_LOOK_S):
                await engine.idle()
                break
            if engine.only_unkillable():
                say(f"left behind, not proven dead: {'; '.join(engine.unkillable.values())}")
                break
        scope.cancel()

    async def _reload(self) -> None:
        with contextlib.suppress(ConfigError, OSError):  # it has been said
            await self._reloads.now()

    async def _stop(self, listeners: tuple[Listener, ...]) -> None:
        with trio.CancelScope(shield=True):
            journal = self._replayed.journal
            if self._snapshots is not None:
                await self._snapshots.at_stop()
            await journal.close()
            if isinstance(journal, Journal):
                await self._witness.keep(journal)
            self._witness.close()
            await self._launcher.close()
        for listener in listeners:
            listener.close()
        self._notifier.close()


def _snapshots(engine: Engine, replayed: Replayed) -> Snapshots | None:
    """Of a journal that can be written."""
    if isinstance(replayed.journal, DamagedJournal):
        return None
    return Snapshots(
        journal=replayed.journal,
        state=lambda: engine.state,
        file=engine.file,
        crowded=lambda: engine.crowded,
        archive=lambda: engine.config.journal.archive_dir,
        full=lambda: engine.full() is not None,
        say=say,
    )


async def _layers(engine: Engine) -> tuple[dict[str, str], tuple[Missing, ...]]:
    """Which layers a sandbox has here and lacks: found by making one and throwing it away."""
    try:
        # As most handlers have it: without a limit asked for there is no memory layer to find.
        sandbox = await engine.launcher.prepare(Spec(memory_max=SandboxDecl().memory_max))
    except SandboxUnavailable as unavailable:
        name, cause, remedy = unavailable.layer, unavailable.cause, unavailable.remedy
        return {name: f"missing: {cause}. {remedy}"}, (Missing(name, cause, remedy, refuses=True),)
    except SandboxFault as fault:
        remedy = "Look at the daemon's messages; it starts a new one."
        missing = Missing("launcher", str(fault), remedy, refuses=True)
        return {"launcher": f"missing: {fault}"}, (missing,)
    layers = dict.fromkeys(sandbox.layers, "in force")
    await sandbox.discard()
    return layers, remedies.left_out(layers)


async def _groups(uid: int) -> frozenset[int]:
    """The groups of a user in the host's database, by a thread: it may be a remote one."""
    return await scarce.in_thread(_listed_groups, uid, limiter=_LOOKUPS)


def _listed_groups(uid: int) -> frozenset[int]:
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return frozenset()
    return frozenset(os.getgrouplist(user.pw_name, user.pw_gid))
