"""What a call's lineage allows: evidence, verdicts, and how it would be relaunched.

The functions here are the reconciliation policy applied to one operation's state; the
policy itself is the table in `contract`.
"""

from __future__ import annotations

import enum
from typing import assert_never

from frozen import frozen
from supervisor.core.contract import (
    Contract,
    Evidence,
    Verdict,
    in_force,
    strictest,
    verdict,
)
from supervisor.core.errors import Refusal
from supervisor.core.ids import EffectId
from supervisor.core.moment import Moment
from supervisor.core.record import Identity, Relaunch, Result
from supervisor.core.state import Call, Effect, Operation, Said, Try

NS_PER_MS = 1_000_000


def evidence(effect: Effect) -> Evidence:
    match effect.outcome:
        case Said.APPLIED:
            return Evidence.APPLIED_NO_RESULT if effect.result_lost else Evidence.APPLIED
        case Said.NOT_APPLIED:
            return Evidence.NOT_APPLIED
        case Said.UNKNOWN | Said.ANNOUNCED:
            return Evidence.UNKNOWN
        case _:
            assert_never(effect.outcome)


def age_ms(effect: Effect, now: Moment) -> int:
    """Age since the first announcement: the larger of both clocks, so that neither a
    wall clock set back nor a suspended monotonic one makes a key look younger."""
    ages = [now.wall - effect.first_at]
    if effect.boot_id == now.boot_id:
        ages.append(now.mono - effect.first_mono)
    return max(*ages, 0) // NS_PER_MS


def key_valid(effect: Effect, call: Call, now: Moment) -> bool:
    """A retry must end while the provider surely remembers the key."""
    needs_ms = call.timeout_ms + call.terms.grace_ms
    return age_ms(effect, now) + needs_ms < effect.declared.key_valid_ms


def contract_now(effect: Effect, call: Call, now: Moment) -> Contract:
    return in_force(
        effect.declared.contract,
        key_valid=key_valid(effect, call, now),
        has_reconciler=effect.declared.reconciler is not None,
    )


def effect_verdict(effect: Effect, call: Call, now: Moment) -> Verdict:
    known = evidence(effect)
    # An expired key changes what an unknown outcome allows, not what is proven.
    if known is not Evidence.UNKNOWN:
        return verdict(known, effect.declared.contract)
    return verdict(known, contract_now(effect, call, now))


def supplies(effect: Effect, one: Try, result: Result | None) -> bool:
    """Whether a try that says *applied* with this result tells something new: an operator said so
    before it, and what the change gave is still missing."""
    given = result is not None and result.available
    return one.outcome is Said.APPLIED and effect.result_lost and given


def unresolved(effect: Effect) -> bool:
    """Unknown, and somebody has to care; a `none` effect is nobody's business."""
    return effect.outcome is Said.UNKNOWN and effect.declared.contract is not Contract.NONE


class Needs(enum.Enum):
    PERSON = "person"
    RECONCILER = "reconciler"
    CLIENT = "client"
    NOTHING = "nothing"


def needs(effect: Effect, call: Call, now: Moment, *, cancelled: bool = False) -> Needs:
    """Who can move this effect on; nobody retries for a cancelled operation."""
    if effect.outcome is not Said.UNKNOWN or effect.declared.contract is Contract.NONE:
        return Needs.NOTHING
    verdict_now = effect_verdict(effect, call, now)
    if verdict_now is Verdict.RETRY and not cancelled:
        return Needs.CLIENT
    asks = verdict_now in {Verdict.RECONCILE, Verdict.RETRY}
    if asks and effect.declared.reconciler is not None:
        return Needs.RECONCILER
    return Needs.PERSON


def needs_of(operation: Operation, effect: Effect, now: Moment) -> Needs:
    """The same, of an effect where it stands."""
    call = operation.calls[effect.newest.call_id]
    over = operation.cancel_requested or operation.followed_by is not None
    return needs(effect, call, now, cancelled=over)


def call_verdict(operation: Operation, call: Call, now: Moment) -> Verdict:
    """The strictest of the lineage's verdicts; with nothing announced, a plain repeat."""
    call = operation.newest(call)
    effects = operation.lineage(call)
    if not effects:
        return Verdict.REPEAT
    worst = strictest([effect_verdict(effect, call, now) for effect in effects])
    if worst is not Verdict.RESTORE:
        return worst
    return Verdict.RESTORE if _result_known(call, effects) else Verdict.FINISH


def _result_known(call: Call, effects: tuple[Effect, ...]) -> bool:
    if call.result is not None and call.result.available:
        return True
    sole = call.terms.sole_effect
    return sole is not None and len(effects) == 1


_RELAUNCH = {
    Verdict.FINISH: Relaunch.FINISH,
    Verdict.REPEAT: Relaunch.REPEAT,
    Verdict.RETRY: Relaunch.RETRY,
}


@frozen
class Plan:
    """How a resume would let this call go on; `relaunch` is None for a restore.

    `new_call` says that the relaunch is a new call which retries this one.
    """

    call: Call
    verdict: Verdict
    relaunch: Relaunch | None
    new_call: bool


def plan(operation: Operation, call: Call, now: Moment) -> Plan | Refusal:
    """Say how the call's lineage may go on, or why it may not."""
    newest = operation.newest(call)
    if operation.lost:
        return lost_refusal(operation, newest)
    alive = previous_alive(operation, newest)
    if alive is not None:
        return alive
    decided = call_verdict(operation, newest, now)
    if decided.refuses:
        return refusal_of(operation, newest, decided, now)
    if decided is Verdict.RESTORE:
        return Plan(newest, decided, None, new_call=False)
    relaunch = _RELAUNCH[decided]
    # A call that never got an attempt goes on as itself.
    fresh = not newest.attempts
    if fresh and newest.retry_of is None:
        relaunch = Relaunch.FIRST
    return Plan(newest, decided, relaunch, new_call=decided is Verdict.RETRY and not fresh)


def lost_refusal(operation: Operation, call: Call) -> Refusal:
    """Leave may have been given in records that nobody can read any more."""
    first, last = operation.lost
    return Refusal(
        "EffectOutcomeUnknown",
        f"the journal's records at positions {first}..{last} were given up by a repair; what "
        f"{call.call_id} announced and did after position {first - 1} is not known",
        fix="Look at the provider, settle the effects that are listed, ask anew with another "
        "request_id for what is really missing, and cancel this one.",
        call_id=call.call_id,
    )


def previous_alive(operation: Operation, call: Call) -> Refusal | None:
    """No relaunch beside an old tree, or beside a reconciler that is asking."""
    for one in operation.tries(call):
        for attempt in one.attempts:
            if not attempt.live and not attempt.dead:
                which = f"attempt {attempt.number} of {one.call_id}"
                return Refusal(
                    "PreviousAttemptAlive",
                    f"{which} is not proven dead{_whom(attempt.identity)}",
                    call_id=one.call_id,
                )
    waits = (reconciler_alive(effect) for effect in operation.lineage(call))
    return next((refusal for refusal in waits if refusal is not None), None)


def reconciler_alive(effect: Effect) -> Refusal | None:
    """The reconciler of this effect that runs, or that outlived its daemon."""
    running, one = effect.reconciling, effect.effect_id
    if running is None:
        return None
    call_id = effect.newest.call_id
    if running.survivor:
        detail = f"a reconciler of {one} is not proven dead{_whom(running.identity)}"
        return Refusal("PreviousAttemptAlive", detail, call_id=call_id, effect_id=one)
    return Refusal(
        "PreviousAttemptAlive",
        f"a reconciler of {one} is running",
        fix="Wait for the reconciler to answer.",
        call_id=call_id,
        effect_id=one,
    )


def _whom(identity: Identity | None) -> str:
    return f" (init is process {identity.init_pid})" if identity is not None else ""


def refusal_of(operation: Operation, call: Call, decided: Verdict, now: Moment) -> Refusal:
    """The refusal with the effect that causes it."""
    effect = next(e for e in operation.lineage(call) if effect_verdict(e, call, now) is decided)
    return Refusal(
        decided.value,
        f"effect {effect.declared.name!r} ({effect.effect_id}, ordinal {effect.ordinal}) of "
        f"{call.call_id} is {_words(effect)}",
        fix=_fix(effect, decided),
        call_id=call.call_id,
        effect_id=effect.effect_id,
    )


def _words(effect: Effect) -> str:
    if evidence(effect) is Evidence.UNKNOWN:
        return f"unknown, and its contract is {effect.declared.contract.value}"
    return str(evidence(effect).value)


def _fix(effect: Effect, decided: Verdict) -> str:
    one: EffectId = effect.effect_id
    if decided is Verdict.RECONCILE and effect.declared.reconciler is not None:
        return f"effectctl effects reconcile {one}"
    if decided is Verdict.RESULT_LOST:
        return resolve_command(effect, "--outcome applied --result JSON")
    return resolve_command(effect, "--outcome applied|not_applied")


def resolve_command(effect: Effect, outcome: str) -> str:
    """What an operator types, bound to the revision that was looked at."""
    bound = f"effectctl effects resolve {effect.effect_id} --if-revision {effect.revision}"
    return f"{bound} {outcome} --evidence TEXT"


def open_tries_dead(operation: Operation, effect: Effect) -> bool:
    """Every try of the effect belongs to a tree that is proven dead: none can still act."""
    return all(operation.calls[one.call_id].attempts[one.attempt].dead for one in effect.tries)


def relaunched(operation: Operation, effect: Effect) -> bool:
    """An attempt of the effect's lineage is live: it may announce the effect at any moment."""
    first = operation.calls[effect.tries[0].call_id]
    return any(one.live is not None for one in operation.tries(first))
