"""An attempt's life: every record in every phase, the legal ones and all the others."""

from __future__ import annotations

import attrs
import pytest

from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve import TRANSITIONS, evolve, fold
from supervisor.core.record import (
    KINDS,
    AnnouncementRefused,
    Answer,
    AttemptEnded,
    AttemptInterrupted,
    AttemptReserved,
    AttemptStarted,
    CallAccepted,
    CallQueued,
    CallRefused,
    CallRestored,
    CallResultLost,
    ConfirmationDisputed,
    DaemonStarted,
    DeathProven,
    DispatchRefusedBudgetExceeded,
    EffectAnnounced,
    EffectAnswered,
    EffectConfirmed,
    EffectResolved,
    EffectResultLost,
    Identity,
    OperationAccepted,
    OperationRecord,
    Outcome,
    ReconcilerDeathProven,
    ReconcilerEnded,
    ReconcilerStarted,
    Relaunch,
    RepeatAnswered,
    Result,
    ResumeAccepted,
    Settler,
)
from supervisor.core.state import Phase, State
from tests.core.made import CLIENT, NOON, OPERATOR, Core, effect, terms

OF = terms(effect(many=True))

# record: the phases that it may meet; anything else raises.
LEGAL = {
    "attempt_reserved": {"queued"},
    "attempt_started": {"reserved"},
    "effect_announced": {"started"},
    "effect_answered": {"started with leave"},
    "effect_result_lost": set(),
    "call_result_lost": set(),
    "announcement_refused": {"started", "started with leave"},
    "effect_confirmed": {"started with leave", "interrupted, in doubt", "interrupted"},
    "confirmation_disputed": {
        "started with leave",
        "ended",
        "interrupted, in doubt",
        "interrupted",
    },
    "attempt_ended": {"reserved", "started", "started with leave"},
    "attempt_interrupted": {"reserved", "started", "started with leave"},
    "death_proven": {"interrupted, in doubt"},
    "call_queued": {"refused", "ended", "interrupted, in doubt", "interrupted"},
    "call_refused": {"queued"},
    "call_restored": {"queued", "refused", "ended", "interrupted, in doubt", "interrupted"},
    "effect_resolved": {"started with leave", "ended", "interrupted, in doubt", "interrupted"},
    "reconciler_started": {"started with leave", "ended", "interrupted, in doubt", "interrupted"},
    # A dispatch has no continuation in which to answer a repeat.
    "repeat_answered": set(),
    "reconciler_ended": set(),
    "reconciler_death_proven": set(),
}


def at(phase):
    """A core, and a call in that phase, with at most one effect announced."""
    core = Core()
    call_id = core.submit(OF)
    base = (NOON, core.operation(call_id).operation_id, call_id)
    if phase == "refused":
        core.put(CallRefused(*base, "SandboxUnavailable", ""))
    elif phase == "reserved":
        core.put(AttemptReserved(*base, 0, 10_000, Relaunch.FIRST, "d"))
    elif phase != "queued":
        core.ready(call_id)
    if phase == "started with leave" or phase.startswith(("ended", "interrupted")):
        core.announce(call_id)
    if phase == "started with leave":
        core.confirm(call_id)
    if phase == "ended":
        core.confirm(call_id)
        core.exit(call_id, Outcome.FAILED)
    elif phase == "interrupted":
        core.lose(call_id)
    elif phase == "interrupted, in doubt":
        core.lose(call_id, dead=False)
    return core, call_id


PHASES = [
    "queued",
    "refused",
    "reserved",
    "started",
    "started with leave",
    "ended",
    "interrupted, in doubt",
    "interrupted",
]


def records(core, call_id):
    """One record of each kind that is about this call, as right as it can be made."""
    operation = core.operation(call_id)
    call = core.call(call_id)
    base = (core.now.wall, operation.operation_id)
    one = (*base, call_id, max(len(call.attempts) - 1, 0))
    effect_id = next(iter(operation.effects), "eff_new")
    announced = call.attempts[-1].announced if call.attempts else 0
    identity = Identity(1, 2, "boot-1")
    ordinal = (announced, "eff_fresh")
    return {
        "attempt_reserved": AttemptReserved(
            *base, call_id, len(call.attempts), 10_000, Relaunch.REPEAT, "d"
        ),
        "attempt_started": AttemptStarted(*one, identity),
        "effect_announced": EffectAnnounced(*one, *ordinal, OF.effects[0], 1, "", "", 0),
        "effect_answered": EffectAnswered(*one, announced, effect_id),
        "announcement_refused": AnnouncementRefused(*one, "x", "UndeclaredEffect", ""),
        "effect_confirmed": EffectConfirmed(*one, 0, effect_id, True, Settler.HANDLER),
        "confirmation_disputed": ConfirmationDisputed(*one, 0, effect_id, False),
        "attempt_ended": AttemptEnded(*one, Outcome.FAILED, 5),
        "attempt_interrupted": AttemptInterrupted(*one, "lost", True),
        "death_proven": DeathProven(*one, "pidfd"),
        "call_queued": CallQueued(*base, call_id, Relaunch.REPEAT),
        "call_refused": CallRefused(*base, call_id, "SandboxUnavailable", ""),
        "call_restored": CallRestored(*base, call_id),
        "repeat_answered": RepeatAnswered(*base, call_id, 0, "t1", "", Answer.JOINED, CLIENT),
        "effect_result_lost": EffectResultLost(*base, effect_id, "damaged"),
        "call_result_lost": CallResultLost(*base, call_id, "missing"),
        "effect_resolved": EffectResolved(*base, effect_id, True, "seen", OPERATOR),
        "reconciler_started": ReconcilerStarted(*base, effect_id, 1, CLIENT, identity),
        "reconciler_ended": ReconcilerEnded(*base, effect_id, True, True),
        "reconciler_death_proven": ReconcilerDeathProven(*base, effect_id, "pidfd"),
    }


CELLS = [
    pytest.param(phase, kind, phase in LEGAL[kind], id=f"{kind} meets {phase}")
    for kind in LEGAL
    for phase in PHASES
]


@pytest.mark.guarantee("R6")
@pytest.mark.parametrize(("phase", "kind", "legal"), CELLS)
def test_a_record_that_cannot_follow_is_refused_and_one_that_can_is_folded(phase, kind, legal):
    core, call_id = at(phase)
    if kind == "effect_confirmed" and phase == "started with leave":
        core, call_id = at("started")
        core.announce(call_id)
    if kind == "effect_answered" and phase == "started with leave":
        core, call_id = at("interrupted")
        core.resolve(call_id, applied=True, result=None)
        core.resolve(call_id, applied=True, result=Result({"id": "ch_1"}))
        core.put(CallQueued(NOON, core.operation(call_id).operation_id, call_id, Relaunch.REPEAT))
        core.ready(call_id)
    if kind == "effect_announced" and phase == "started with leave":
        legal = True  # the next ordinal
    record = records(core, call_id)[kind]
    if legal:
        assert evolve(core.state, record) != core.state
    else:
        with pytest.raises(IllegalTransition):
            evolve(core.state, record)


def test_the_table_of_phases_is_this_one_and_terminal_phases_lead_nowhere():
    found = {
        (phase.value, kind.__name__, to.value)
        for phase, row in TRANSITIONS.items()
        for kind, to in row.items()
    }
    assert found == {
        ("reserved", "AttemptStarted", "started"),
        ("reserved", "AttemptEnded", "ended"),
        ("reserved", "AttemptInterrupted", "interrupted"),
        ("reserved", "DaemonStarted", "interrupted"),
        ("started", "EffectAnnounced", "started"),
        ("started", "EffectAnswered", "started"),
        ("started", "AnnouncementRefused", "started"),
        ("started", "AttemptEnded", "ended"),
        ("started", "AttemptInterrupted", "interrupted"),
        ("started", "DaemonStarted", "interrupted"),
        ("interrupted", "DeathProven", "interrupted"),
    }
    assert TRANSITIONS[Phase.ENDED] == {}
    assert set(TRANSITIONS) == set(Phase)


def test_every_kind_that_names_a_call_or_an_effect_has_its_row():
    about = {
        kind
        for kind, cls in KINDS.items()
        if {"call_id", "effect_id"} & {field.name for field in attrs.fields(cls)}
    }
    assert about - set(LEGAL) == {"call_accepted", "dispatch_refused_budget_exceeded"}


# --- what no order of records makes legal --------------------------------------------------


def started_with_leave():
    core = Core()
    call_id = core.begin(OF)
    core.announce(call_id)
    return core, call_id


def change(record, **members):
    return attrs.evolve(record, **members)


@pytest.mark.guarantee("E2", "E5", "R6")
@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("effect_announced", {"ordinal": 0}),  # twice
        ("effect_announced", {"ordinal": 2}),  # a gap
        ("effect_announced", {"attempt": 1}),
        ("effect_announced", {"attempt": -1}),
        ("effect_announced", {"call_id": "call_other"}),
        ("effect_confirmed", {"ordinal": 1}),
        ("effect_confirmed", {"effect_id": "eff_other"}),
        ("effect_confirmed", {"attempt": 1}),
        ("confirmation_disputed", {"effect_id": "eff_other"}),
        ("attempt_ended", {"attempt": 1}),
        ("attempt_ended", {"attempt": -1}),
        ("attempt_interrupted", {"attempt": 1}),
        ("attempt_reserved", {"attempt": 2}),
        ("call_queued", {"call_id": "call_other"}),
        ("effect_resolved", {"effect_id": "eff_other"}),
        ("reconciler_started", {"effect_id": "eff_other"}),
    ],
    ids=str,
)
def test_a_record_with_another_correlation_is_refused(kind, members):
    core, call_id = started_with_leave()
    with pytest.raises(IllegalTransition):
        evolve(core.state, change(records(core, call_id)[kind], **members))


def test_an_effect_is_never_announced_under_an_id_that_is_taken():
    core, call_id = started_with_leave()
    taken = core.effect(call_id).effect_id
    with pytest.raises(IllegalTransition):
        evolve(core.state, change(records(core, call_id)["effect_announced"], effect_id=taken))


@pytest.mark.guarantee("R6")
def test_no_record_is_folded_before_its_operation_was_accepted():
    core, call_id = started_with_leave()
    for record in records(core, call_id).values():
        with pytest.raises(IllegalTransition, match="before its operation"):
            evolve(Core().state, record)


@pytest.mark.guarantee("R4", "R8")
def test_nothing_is_accepted_twice():
    core = Core()
    event = core.submitted(OF)
    core.do(event)
    operation = core.state.operations[event.operation_id]
    accepted = OperationAccepted(
        NOON, "op_x", operation.kind, event.session_id, "r1", "", CLIENT, 1_000
    )
    call = CallAccepted(NOON, event.operation_id, event.call_id, OF, None, 1_000, CLIENT)
    resumed = ResumeAccepted(NOON, event.operation_id, "again", 1, "", CLIENT)
    for record in (accepted, change(accepted, operation_id=event.operation_id), call):
        with pytest.raises(IllegalTransition, match="twice"):
            evolve(core.state, record)
    state = evolve(core.state, resumed)
    with pytest.raises(IllegalTransition, match="twice"):
        evolve(state, resumed)


@pytest.mark.parametrize("phase", ["queued", "started", "retried"])
def test_a_call_that_moves_or_was_retried_is_not_retried(phase):
    core = Core()
    call_id = core.submit(OF)
    operation_id = core.operation(call_id).operation_id
    retry = CallAccepted(NOON, operation_id, "call_2", OF, None, 10_000, CLIENT, call_id)
    if phase != "queued":
        core.ready(call_id)
    if phase == "retried":
        core.restart()
        core.put(retry)
    with pytest.raises(IllegalTransition):
        evolve(core.state, change(retry, call_id="call_3"))


@pytest.mark.guarantee("E9")
@pytest.mark.parametrize("applied", [True, False])
def test_a_settled_outcome_is_not_flipped_by_any_record(applied):
    core, call_id = started_with_leave()
    core.confirm(call_id, applied=applied)
    core.lose(call_id)
    effect_id = core.effect(call_id).effect_id
    base = (NOON, core.operation(call_id).operation_id)
    confirmed = EffectConfirmed(*base, call_id, 0, 0, effect_id, not applied, Settler.HANDLER)
    resolved = EffectResolved(*base, effect_id, not applied, "", OPERATOR)
    core.put(ReconcilerStarted(*base, effect_id, 9, CLIENT, Identity(1, 2, "boot-1")))
    answered = ReconcilerEnded(*base, effect_id, not applied, settles=True)
    for record in (confirmed, resolved, answered):
        with pytest.raises(IllegalTransition):
            evolve(core.state, record)


@pytest.mark.guarantee("R4")
def test_a_frame_counts_one_revision_for_each_operation_that_it_names():
    core = Core()
    first, second = core.submit(OF, "r1"), core.submit(OF, "r2")
    assert core.operation(first).revision == 1
    core.ready(first)
    assert core.operation(first).revision == 2
    assert core.operation(first).position == core.position
    assert core.operation(second).revision == 1
    core.restart()
    assert (core.operation(first).revision, core.operation(second).revision) == (3, 2)
    core.restart()
    assert (core.operation(first).revision, core.operation(second).revision) == (3, 2)
    event = DispatchRefusedBudgetExceeded(
        NOON, core.operation(first).operation_id, first, 1, 2, 3, 4
    )
    core.put(event, event)
    assert core.operation(first).revision == 4


def test_a_bare_record_of_no_kind_is_refused():
    with pytest.raises(IllegalTransition):
        evolve(Core().state, OperationRecord(NOON, "op_1"))
    with pytest.raises(IllegalTransition):
        fold(Core().state, 9, [CallRestored(NOON, "op_1", "call_1")])


def test_the_latest_time_of_any_record_is_remembered() -> None:
    state = fold(State(), 1, [DaemonStarted(at=50, epoch=1, boot_id="b", version="v")])
    state = fold(state, 2, [DaemonStarted(at=20, epoch=2, boot_id="c", version="v")])
    assert state.latest == 50
