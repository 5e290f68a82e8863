"""Properties of the core over whatever inputs Hypothesis thinks of."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.checkpoint import checkpoint_digest
from supervisor.core.decide import decide
from supervisor.core.evolve import fold
from supervisor.core.projection import project
from supervisor.core.record import Exit, Outcome, Result
from supervisor.core.reserve import CONFIRMATION_BYTES, END_BYTES, UPKEEP_BYTES, reserve_bytes
from supervisor.core.standing import operation_state
from supervisor.core.state import UNSETTLED, State
from supervisor.journal.records import decode
from tests.core.examples import examples
from tests.core.made import ASK, KEY, NEVER, NONE, Core, effect, terms
from tests.core.situations import SITUATIONS

NAME = st.sampled_from(sorted(SITUATIONS))

# What may be asked of a call in any state, well or badly timed.
VERBS = {
    "ready": lambda core, call, n: core.ready(core.newest(call)),
    "restart": lambda core, call, n: core.restart(),
    "survivor": lambda core, call, n: core.restart((call, 0)),
    "cancel": lambda core, call, n: core.cancel(call),
    "resume": lambda core, call, n: core.resume(call),
    "stale resume": lambda core, call, n: core.resume(call, revision=n),
    "extend": lambda core, call, n: core.extend(call, 600_000 + n - 2),
    "message": lambda core, call, n: core.do(core.submitted(terms(), f"r{n}")),
}
ATTEMPT_VERBS = {
    "announce": lambda core, call, n: core.announce(call, ["charge", "mail", "w"][n % 3]),
    "confirm": lambda core, call, n: core.confirm(call, n % 3, applied=n % 2 == 0),
    "other result": lambda core, call, n: core.confirm(call, 0, result=Result(n)),
    "exit": lambda core, call, n: core.exit(call, list(Outcome)[n % 5], how=Exit(code=n % 4)),
    "lose": lambda core, call, n: core.lose(call, dead=n % 2 == 0),
    "prove dead": lambda core, call, n: core.prove_dead(call, n),
}
EFFECT_VERBS = {
    "reconcile": lambda core, call, n: core.reconcile(call),
    "answer": lambda core, call, n: core.answer(call, applied=[True, False, None][n % 3]),
    "resolve": lambda core, call, n: core.resolve(call, applied=n % 2 == 0),
    "stale": lambda core, call, n: core.resolve(call, applied=n % 2 == 0, if_revision=n),
}
ASKED = st.lists(
    st.tuples(st.sampled_from([*VERBS, *ATTEMPT_VERBS, *EFFECT_VERBS]), st.integers(0, 9)),
    max_size=12,
)


def ask(core, call_id, verb, n):
    """One input, about the newest call of the lineage where it is about an attempt."""
    newest = core.newest(call_id)
    if verb in VERBS:
        return VERBS[verb](core, call_id, n)
    if verb in ATTEMPT_VERBS:
        return ATTEMPT_VERBS[verb](core, newest, n) if core.call(newest).attempts else None
    if not core.operation(call_id).lineages.get(call_id):
        return None
    return EFFECT_VERBS[verb](core, call_id, n)


@examples(20, 1_000)
@given(NAME, ASKED)
def test_no_input_is_met_with_silence_and_every_answer_can_be_folded(name, asked):
    core = Core()
    call_id = SITUATIONS[name](core)
    for verb, n in asked:
        core.wait(1_000 * n)
        decision = ask(core, call_id, verb, n)
        if decision is not None:
            assert (
                decision.records or decision.directives or decision.refusal or decision.repeated
            ), f"{verb} of {name}: nothing"
            assert not (decision.repeated and decision.records)


@examples(20, 1_000)
@given(NAME, ASKED)
def test_the_fold_is_the_same_every_time_and_from_the_bytes(name, asked):
    core = Core()
    call_id = SITUATIONS[name](core)
    for verb, n in asked:
        ask(core, call_id, verb, n)
    state = State()
    for position, payload in enumerate(core.frames, 1):
        state = fold(state, position, decode(payload))
    assert state == core.state
    operation, again = core.operation(call_id), state.operation_of(call_id)
    assert checkpoint_digest(operation) == checkpoint_digest(again)
    assert operation.budget == again.budget


@examples(20, 1_000)
@given(NAME, ASKED)
def test_an_outcome_and_a_finished_operation_never_flip(name, asked):
    core = Core()
    call_id = SITUATIONS[name](core)
    settled, finished = {}, None
    for verb, n in asked:
        ask(core, call_id, verb, n)
        operation = core.operation(call_id)
        for known in operation.effects.values():
            for one in known.tries:
                key = (known.effect_id, one.key)
                assert settled.get(key, one.outcome) is one.outcome
                if one.outcome not in UNSETTLED:
                    settled[key] = one.outcome
        if finished is not None:
            assert operation_state(operation) is finished
        if operation.finished:
            finished = operation_state(operation)


@examples(20, 1_000)
@given(NAME, ASKED)
def test_a_revision_counts_the_frames_that_name_the_operation(name, asked):
    core = Core()
    call_id = SITUATIONS[name](core)
    for verb, n in asked:
        before = core.operation(call_id)
        moved = before.operation_id in core.state.moving.values()
        moved = moved or before.operation_id in core.state.reconciling.values()
        position = core.position
        ask(core, call_id, verb, n)
        after = core.operation(call_id)
        frames = [decode(payload) for payload in core.frames[position:]]
        named = sum(
            any(getattr(r, "operation_id", None) == before.operation_id for r in frame)
            or (moved and type(frame[0]).__name__ == "DaemonStarted")
            for frame in frames
        )
        assert after.revision == before.revision + named


@examples(20, 1_000)
@given(NAME, ASKED, st.integers(0, 100_000))
def test_what_recovery_says_is_about_the_present_and_changes_nothing(name, asked, wait_ms):
    core = Core()
    call_id = SITUATIONS[name](core)
    for verb, n in asked:
        ask(core, call_id, verb, n)
    core.wait(wait_ms)
    operation = core.operation(call_id)
    digests = {call.terms.handler: call.terms.digest for call in operation.ordered_calls()}
    found = project(operation, core.now, margin_ms=0, digests=digests)
    assert found.state is operation_state(operation)
    assert set(found.verdicts) == set(operation.effects)
    offered = {one.action for one in found.actions}
    resumed = decide(core.state, attrs.evolve(core.resuming(call_id), now=core.now))
    # A finished operation was refused for what it is; all others say what they offer.
    assert ("resume" in offered) is (resumed.refusal is None)


@examples(20, 1_000)
@given(st.lists(st.sampled_from([NONE, KEY, ASK, NEVER]), min_size=1, max_size=3), st.data())
def test_the_room_kept_on_disk_covers_every_end_that_is_still_owed(contracts, data):
    core = Core()
    declared = [effect(f"e{n}", contract) for n, contract in enumerate(contracts)]
    calls = []
    for n in range(data.draw(st.integers(1, 3))):
        call_id = core.submit(terms(*declared), f"r{n}")
        calls.append(call_id)
        if data.draw(st.booleans()):
            core.ready(call_id)
            for one in range(data.draw(st.integers(0, len(declared)))):
                core.announce(call_id, f"e{one}")
    leaves = sum(
        one.outcome.value == "announced"
        for call_id in calls
        for known in core.operation(call_id).effects.values()
        for one in known.tries
    )
    owed = UPKEEP_BYTES + len(calls) * END_BYTES + leaves * CONFIRMATION_BYTES
    assert reserve_bytes(core.state, int) == owed
    for call_id in calls:
        core.cancel(call_id)
        if core.call(call_id).live is not None:
            core.exit(call_id, Outcome.CANCELLED)
    assert reserve_bytes(core.state, int) == UPKEEP_BYTES
