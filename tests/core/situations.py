"""Named situations of a dispatch, each made by the real core from its inputs."""

from __future__ import annotations

from collections.abc import Callable

from supervisor.core.ids import CallId
from supervisor.core.record import Outcome, Result
from tests.core.made import ASK, KEY, NONE, Core, effect, terms

LOST = Result(unavailable="too_large")

ONE = terms(effect())
TWO = terms(effect(), effect("mail"))
FREE = terms(effect(contract=NONE))
KEYED = terms(effect(contract=KEY))
ASKED = terms(effect(contract=ASK))
WHOLE = terms(effect(whole_call=True, not_applied_exits=(3,)))

Situation = Callable[[Core], CallId]
SITUATIONS: dict[str, Situation] = {}


def situation(make: Situation) -> Situation:
    SITUATIONS[make.__name__.replace("_", " ")] = make
    return make


@situation
def just_accepted(core: Core) -> CallId:
    return core.submit(ONE)


@situation
def started(core: Core) -> CallId:
    return core.begin(ONE)


@situation
def started_with_leave(core: Core) -> CallId:
    call_id = core.begin(ONE)
    core.announce(call_id)
    return call_id


@situation
def queued_when_the_daemon_died(core: Core) -> CallId:
    call_id = core.submit(ONE)
    core.restart()
    return call_id


@situation
def resumed_before_it_ever_ran(core: Core) -> CallId:
    call_id = queued_when_the_daemon_died(core)
    core.resume(call_id)
    return call_id


@situation
def died_before_any_leave(core: Core) -> CallId:
    call_id = core.begin(ONE)
    core.restart()
    return call_id


@situation
def resumed_and_waiting_for_its_turn(core: Core) -> CallId:
    call_id = died_before_any_leave(core)
    core.resume(call_id)
    return call_id


@situation
def died_after_leave(core: Core) -> CallId:
    call_id = started_with_leave(core)
    core.restart()
    return call_id


@situation
def died_after_leave_with_a_key(core: Core) -> CallId:
    call_id = core.begin(KEYED)
    core.announce(call_id)
    core.restart()
    return call_id


@situation
def retried_with_its_key_and_waiting(core: Core) -> CallId:
    call_id = died_after_leave_with_a_key(core)
    core.resume(call_id)
    return call_id


@situation
def died_after_leave_and_the_provider_can_tell(core: Core) -> CallId:
    call_id = core.begin(ASKED)
    core.announce(call_id)
    core.restart()
    return call_id


@situation
def died_after_leave_with_no_contract(core: Core) -> CallId:
    call_id = core.begin(FREE)
    core.announce(call_id)
    core.restart()
    return call_id


@situation
def exit_0_without_a_confirmation(core: Core) -> CallId:
    call_id = started_with_leave(core)
    core.exit(call_id)
    return call_id


@situation
def unknown_and_cancelled(core: Core) -> CallId:
    call_id = died_after_leave(core)
    core.cancel(call_id)
    return call_id


@situation
def unknown_and_cancelled_and_settled(core: Core) -> CallId:
    call_id = unknown_and_cancelled(core)
    core.resolve(call_id, applied=True)
    return call_id


@situation
def cancelled_before_it_started(core: Core) -> CallId:
    call_id = core.submit(ONE)
    core.cancel(call_id)
    return call_id


@situation
def cancelled_and_still_running(core: Core) -> CallId:
    call_id = core.begin(ONE)
    core.cancel(call_id)
    return call_id


@situation
def cancelled_and_seen_to_end(core: Core) -> CallId:
    call_id = cancelled_and_still_running(core)
    core.exit(call_id, Outcome.CANCELLED)
    return call_id


@situation
def cancelled_and_died(core: Core) -> CallId:
    call_id = cancelled_and_still_running(core)
    core.restart()
    return call_id


@situation
def applied_and_succeeded(core: Core) -> CallId:
    call_id = started_with_leave(core)
    core.confirm(call_id)
    core.exit(call_id)
    return call_id


@situation
def applied_and_succeeded_with_its_result_lost(core: Core) -> CallId:
    call_id = core.begin(ASKED)
    core.announce(call_id)
    core.confirm(call_id, result=LOST)
    core.exit(call_id)
    return call_id


@situation
def exit_0_after_the_deadline(core: Core) -> CallId:
    call_id = started_with_leave(core)
    core.confirm(call_id)
    core.exit(call_id, Outcome.TIMED_OUT, status=0)
    return call_id


@situation
def exit_0_after_the_deadline_without_a_confirmation(core: Core) -> CallId:
    call_id = started_with_leave(core)
    core.exit(call_id, Outcome.TIMED_OUT, status=0)
    return call_id


@situation
def timed_out_before_any_leave(core: Core) -> CallId:
    call_id = core.begin(ONE)
    core.exit(call_id, Outcome.TIMED_OUT)
    return call_id


@situation
def failed_with_nothing_applied(core: Core) -> CallId:
    call_id = started_with_leave(core)
    core.confirm(call_id, applied=False)
    core.exit(call_id, Outcome.FAILED)
    return call_id


@situation
def failed_with_a_free_effect_unknown(core: Core) -> CallId:
    call_id = core.begin(FREE)
    core.announce(call_id)
    core.exit(call_id, Outcome.FAILED)
    return call_id


@situation
def failed_with_something_applied(core: Core) -> CallId:
    call_id = core.begin(TWO)
    core.announce(call_id)
    core.confirm(call_id)
    core.exit(call_id, Outcome.FAILED)
    return call_id


@situation
def failed_with_something_applied_and_cancelled(core: Core) -> CallId:
    call_id = failed_with_something_applied(core)
    core.cancel(call_id)
    return call_id


@situation
def failed_with_its_applied_result_lost(core: Core) -> CallId:
    call_id = core.begin(ASKED)
    core.announce(call_id)
    core.confirm(call_id, result=LOST)
    core.exit(call_id, Outcome.FAILED)
    return call_id


@situation
def refused_before_it_started(core: Core) -> CallId:
    call_id = core.submit(ONE, max_run_ms=10_000)
    core.ready(call_id)
    return call_id


@situation
def a_retry_refused_before_it_started(core: Core) -> CallId:
    call_id = retried_with_its_key_and_waiting(core)
    core.ready(core.newest(call_id), digest="e" * 64)
    return call_id


@situation
def settled_as_applied_after_a_failure(core: Core) -> CallId:
    call_id = started_with_leave(core)
    core.exit(call_id, Outcome.FAILED)
    core.resolve(call_id, applied=True, result=Result("seen"))
    return call_id


@situation
def settled_as_not_applied_after_a_failure(core: Core) -> CallId:
    call_id = started_with_leave(core)
    core.exit(call_id, Outcome.FAILED)
    core.resolve(call_id, applied=False)
    return call_id


@situation
def settled_as_applied_after_a_crash(core: Core) -> CallId:
    call_id = died_after_leave(core)
    core.resolve(call_id, applied=True, result=Result("seen"))
    return call_id


@situation
def settled_as_not_applied_after_a_crash(core: Core) -> CallId:
    call_id = died_after_leave(core)
    core.resolve(call_id, applied=False)
    return call_id


@situation
def settled_as_applied_after_exit_0(core: Core) -> CallId:
    call_id = exit_0_without_a_confirmation(core)
    core.resolve(call_id, applied=True, result=Result("seen"))
    return call_id


@situation
def restored(core: Core) -> CallId:
    call_id = settled_as_applied_after_a_crash(core)
    core.resume(call_id)
    return call_id


@situation
def stopped_by_a_shutdown(core: Core) -> CallId:
    call_id = core.begin(ONE)
    core.exit(call_id, Outcome.CANCELLED, code="Draining")
    return call_id


@situation
def held_back_by_the_last_check(core: Core) -> CallId:
    call_id = core.begin(WHOLE)
    core.exit(call_id, Outcome.NOT_STARTED, how=None, code="AuthorityRevoked")
    return call_id


@situation
def not_started_by_exec(core: Core) -> CallId:
    call_id = core.begin(WHOLE)
    core.exit(call_id, Outcome.NOT_STARTED, how=None, detail="exec: ENOENT")
    return call_id


@situation
def lost_and_not_proven_dead(core: Core) -> CallId:
    call_id = core.begin(KEYED)
    core.announce(call_id)
    core.lose(call_id, dead=False)
    return call_id


@situation
def being_reconciled(core: Core) -> CallId:
    call_id = died_after_leave_and_the_provider_can_tell(core)
    core.wait(6_000)
    core.reconcile(call_id)
    return call_id
