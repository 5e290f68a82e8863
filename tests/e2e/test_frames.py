"""A crash between any two frames: of dispatch, retry, reconcile, resolve, resume, cancel, extend.

A real run is recorded that contains all of them. Every prefix of its journal is what a crash at
that frame would have left on disk: each is recovered, and a sample is driven to its end by a real
daemon, in the world that the run left behind.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest

from config.load import load_config
from supervisor.core.checkpoint import checkpoint_digest
from supervisor.core.contract import Contract
from supervisor.core.decide import decide
from supervisor.core.evolve import fold
from supervisor.core.moment import Moment
from supervisor.core.projection import Projection, project
from supervisor.core.record import (
    KIND_OF,
    AttemptEnded,
    AttemptReserved,
    EffectConfirmed,
    EffectResolved,
    OperationRecord,
    ReconcilerEnded,
    Record,
)
from supervisor.core.standing import TERMINAL, OperationState
from supervisor.core.state import Operation, Said, State
from supervisor.core.step import Restarted
from supervisor.recovery import replay
from tests.e2e.support import journals
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.processes import wait_until
from tests.e2e.support.settle import settle

SETTLED = {"cancelled", "succeeded", "failed"}
# Handler, and where it is held when the daemon is killed.
HELD = {
    "repeated": ("none", "made none"),
    "retried": ("key", "made key"),
    "reconciled": ("check", "made check"),
    "resolved": ("never", "made never"),
    "denied": ("never", "leave never"),
    "restored": ("never-call", "made never"),
    "continued": ("pair", "made other"),
    "cancelled": ("check", "leave check"),
}


class Run:
    """A daemon that is stopped, and the frames that its life left."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.ids: dict[str, str] = {}
        self._accept()
        self._crash()
        self._settle()
        self._shut_down()
        self.world_left = daemon.world.remember()
        self.frames = journals.read(daemon.state / "journal")

    def _accept(self) -> None:
        api, world = self.daemon.api, self.daemon.world
        for tag, (handler, point) in HELD.items():
            world.hold(f"{tag} {point}")
            effects = ["key", "other"] if handler == "pair" else [handler.split("-")[0]]
            given = {"tag": tag, "effects": effects, "meet": [point]}
            terms: dict[str, Any] = {"max_run_ms": 240_000} if tag == "retried" else {}
            self.ids[tag] = api.dispatch(handler, given, **terms).ok()["operation_id"]
        given = {"tag": "plain", "effects": ["key", "never"], "fails": ["never"]}
        self.ids["plain"] = api.dispatch("mixed", given, wait_ms=60_000).ok()["operation_id"]
        for tag, (_, point) in HELD.items():
            world.arrived(f"{tag} {point}")

    def _crash(self) -> None:
        self.daemon.kill9()
        self.daemon.start()
        self.daemon.world.release()

    def _settle(self) -> None:
        api, world = self.daemon.api, self.daemon.world
        # One answer of the provider that settles nothing, before the one that does.
        world.silence()
        effect = api.recovery(self.ids["reconciled"])["effects"][0]
        api.reconcile(effect["effect_id"]).ok()
        world.silence(False)
        api.cancel(self.ids["cancelled"], wait_ms=0).ok()
        assert api.resume(self.ids["retried"]).code == "RunTimeBudgetExceeded"
        api.extend(self.ids["retried"], 600_000).ok()
        for operation_id in self.ids.values():
            assert settle(api, world, operation_id)["state"] in SETTLED

    def _shut_down(self) -> None:
        """A stop that does not wait: what runs is ended as seen, and interrupted."""
        api, world = self.daemon.api, self.daemon.world
        world.hold("shut before never")
        given = {"tag": "shut", "effects": ["never"], "meet": ["before never"]}
        self.ids["shut"] = api.dispatch("never", given).ok()["operation_id"]
        world.arrived("shut before never")
        assert self.daemon.process is not None
        self.daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: api.status()["state"] == "draining", what="it drains")
        self.daemon.process.send_signal(signal.SIGTERM)
        assert self.daemon.process.wait(60) == 0
        world.release()

    def first(self, kind: str) -> int:
        """How many frames there are up to the first one with such a record, itself included.

        The very first frame does not count: nothing was accepted yet.
        """
        return next(
            number
            for number, frame in enumerate(self.frames, start=1)
            if number > 1 and any(KIND_OF[type(record)] == kind for record in frame)
        )


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with new_daemon() as daemon:
        yield Run(daemon.start())


# --- every prefix, in memory ------------------------------------------------------------------


@attrs.frozen
class Recovered:
    """What a crash behind `number` frames leads to, after one restart and after two."""

    number: int
    records: tuple[Record, ...]
    once: State
    twice: State
    now: Moment


def restarted(state: State, now: Moment) -> State:
    """The state as a new daemon begins with it; everything old is dead."""
    decision = decide(state, Restarted(now, state.epoch + 1, "0"))
    return fold(state, state.position + 1, decision.records)


def recoveries(run: Run) -> Iterator[Recovered]:
    """One for every number of frames, from none to all."""
    state, seen = State(), tuple[Record, ...]()
    for number, frame in enumerate([(), *run.frames]):
        if frame:
            state = fold(state, number, frame)
            seen = (*seen, *frame)
        now = Moment(max((record.at for record in seen), default=0) + 1, 1, "another-boot")
        once = restarted(state, now)
        yield Recovered(number, seen, once, restarted(once, now), now)


def projected(state: State, operation: Operation, now: Moment) -> Projection:
    digests = {c.terms.handler: c.terms.digest for c in operation.ordered_calls()}
    assert operation.operation_id in state.operations
    return project(operation, now, margin_ms=0, digests=digests)


def test_the_run_contains_every_kind_of_frame_that_these_tests_are_about(run: Run) -> None:
    kinds = {KIND_OF[type(record)] for frame in run.frames for record in frame}
    assert kinds >= {
        *("operation_accepted", "call_accepted", "call_queued", "call_restored"),
        *("attempt_reserved", "attempt_started", "attempt_ended", "daemon_started"),
        *("effect_announced", "effect_answered", "effect_confirmed", "effect_resolved"),
        *("resume_accepted", "cancel_requested", "reconciler_started", "reconciler_ended"),
        *("budget_extended", "dispatch_refused_budget_exceeded"),
    }


@pytest.mark.guarantee("R4", "R11")
def test_behind_every_frame_each_operation_is_terminal_or_can_go_on(run: Run) -> None:
    rest = {OperationState.UNKNOWN, OperationState.INTERRUPTED}
    for one in recoveries(run):
        for operation in one.once.operations.values():
            projection = projected(one.once, operation, one.now)
            assert projection.state in TERMINAL | rest, (one.number, operation)
            actions = {action.action for action in projection.actions}
            going_on = actions & {"resume", "reconcile", "resolve"}
            by_time = "extend" in actions and [r.code for r in projection.refusals] == [
                "RunTimeBudgetExceeded"
            ]
            assert projection.state in TERMINAL or going_on or by_time, (one.number, projection)


@pytest.mark.guarantee("R1", "R4")
def test_behind_every_frame_a_second_restart_changes_nothing(run: Run) -> None:
    for one in recoveries(run):
        assert one.twice.operations == one.once.operations, one.number
        for operation_id, operation in one.once.operations.items():
            again = one.twice.operations[operation_id]
            assert checkpoint_digest(again) == checkpoint_digest(operation)
            assert projected(one.twice, again, one.now) == projected(one.once, operation, one.now)


@pytest.mark.guarantee("R1", "B3")
def test_behind_every_frame_nothing_moves_and_open_reservations_stay_charged(run: Run) -> None:
    for one in recoveries(run):
        assert not one.once.moving
        assert not one.once.reconciling
        for operation in one.once.operations.values():
            owed = charged_by_hand(one.records, operation)
            assert operation.budget.charged_ms == owed, (one.number, operation)


def charged_by_hand(records: Sequence[Record], operation: Operation) -> int:
    """Each reservation of the prefix, or the active time where the attempt was seen to end."""
    mine = [
        record
        for record in records
        if isinstance(record, OperationRecord) and record.operation_id == operation.operation_id
    ]
    ended = {(r.call_id, r.attempt): r.active_ms for r in mine if isinstance(r, AttemptEnded)}
    return sum(
        ended.get((r.call_id, r.attempt), r.reservation_ms)
        for r in mine
        if isinstance(r, AttemptReserved)
    )


@pytest.mark.guarantee("E6", "E9")
def test_behind_every_frame_what_nobody_settled_is_unknown(run: Run) -> None:
    for one in recoveries(run):
        said = {
            record.effect_id
            for record in one.records
            if isinstance(record, EffectConfirmed | EffectResolved)
            or (isinstance(record, ReconcilerEnded) and record.settles)
        }
        for operation in one.once.operations.values():
            for effect in operation.effects.values():
                assert effect.outcome is not Said.ANNOUNCED, one.number
                known = effect.outcome is not Said.UNKNOWN
                # A try that came after an answer may be unknown again; the reverse never is.
                assert not known or effect.effect_id in said, (one.number, effect)


# --- the same from real files -----------------------------------------------------------------


@pytest.mark.guarantee("J1", "R4")
def test_a_journal_cut_behind_any_frame_replays_to_the_state_of_its_prefix(
    run: Run, tmp_path: Path
) -> None:
    state = State()
    for number in range(0, len(run.frames) + 1, 9):
        for position, frame in enumerate(run.frames[:number], start=1):
            state = fold(state if position > 1 else State(), position, frame)
        (tmp_path / str(number)).mkdir()
        config = load_config(None, dev=True, overrides={"state_dir": tmp_path / str(number)})
        layout = attrs.evolve(config.journal, segment_bytes=journals.SEGMENT_BYTES)
        journals.write(config.state_dir / "journal", run.frames[:number])
        replayed = replay(attrs.evolve(config, journal=layout))
        assert replayed.damage is None
        if number:
            assert replayed.state.operations == state.operations


# --- a real daemon on the prefix --------------------------------------------------------------

# The frames where a decision of somebody outside has just become durable, and nothing more.
SAMPLE = ("call_accepted", "resume_accepted", "reconciler_started", "effect_resolved")
LONG_SAMPLE = (
    *("attempt_reserved", "effect_announced", "effect_confirmed", "attempt_ended"),
    *("daemon_started", "call_queued", "call_restored", "effect_answered", "reconciler_ended"),
    *("cancel_requested", "budget_extended", "dispatch_refused_budget_exceeded"),
)


@pytest.mark.guarantee("R4", "R11", "E4")
@pytest.mark.parametrize(
    "kind", [*SAMPLE, *(pytest.param(kind, marks=pytest.mark.long) for kind in LONG_SAMPLE)]
)
def test_a_daemon_killed_behind_such_a_frame_brings_everything_to_its_end(
    run: Run, kind: str
) -> None:
    daemon, number = run.daemon, run.first(kind)
    journals.write(daemon.state / "journal", run.frames[:number])
    daemon.world.recall(run.world_left)
    daemon.start()
    try:
        accepted = {
            record.operation_id
            for frame in run.frames[:number]
            for record in frame
            if isinstance(record, OperationRecord)
        }
        assert accepted
        for operation_id in accepted:
            assert settle(daemon.api, daemon.world, operation_id)["state"] in SETTLED
            assert_the_world_agrees(daemon, operation_id)
    finally:
        daemon.kill9()


def assert_the_world_agrees(daemon: Daemon, operation_id: str) -> None:
    for effect in daemon.api.recovery(operation_id)["effects"]:
        made = daemon.world.made(effect["effect_id"])
        assert made <= 1 or effect["contract"] == Contract.NONE.value, effect
        assert (effect["outcome"] == "applied") == (made > 0), effect
