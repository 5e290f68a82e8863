"""Where a program can stand: each name is a way to bring it there."""

from __future__ import annotations

from collections.abc import Callable

from supervisor.core.ids import OperationId
from supervisor.core.record import By, JournalRepaired, Outcome, Result
from supervisor.core.step import CancelAsked, TimePassed
from supervisor.core.step_programs import ApprovalsTimePassed
from tests.core.made import CLIENT
from tests.core.programs import APPROVE, GIVE, Programs, call, parallel

DAY_MS = 86_400_000
NO_VALUE = Result(unavailable="too_large")
BRANCHES = parallel("fail_fast", a=[call("x")], b=[call("x", "mail")])

Situation = Callable[[Programs], object]
PROGRAMS: dict[str, Situation] = {}


def situation(make: Situation) -> Situation:
    PROGRAMS["program: " + make.__name__.replace("_", " ")] = make
    return make


def prepared(name: str) -> tuple[Programs, OperationId]:
    core = Programs()
    PROGRAMS[name](core)
    return core, core.one


def cancel(core: Programs) -> None:
    core.do(CancelAsked(core.now, core.one, CLIENT, "no more"))


def repair(core: Programs) -> None:
    core.put(JournalRepaired(core.wall, 900, 910, By(0, 1), "the disk died"))
    core.restart()


@situation
def just_accepted(core: Programs) -> None:
    core.send(call("a", "mail"), GIVE)


@situation
def its_first_call_runs(core: Programs) -> None:
    just_accepted(core)
    core.ready(core.of("a"))


@situation
def its_first_call_has_leave(core: Programs) -> None:
    its_first_call_runs(core)
    core.announce(core.of("a"), "mail")


@situation
def between_two_calls(core: Programs) -> None:
    core.send(call("a"), call("b"), GIVE)
    core.finish("a")


@situation
def two_branches_run(core: Programs) -> None:
    core.send(BRANCHES, GIVE)
    core.ready(core.of("both.a.x"))
    core.ready(core.of("both.b.x"))


@situation
def a_branch_waits_for_the_budget_of_another(core: Programs) -> None:
    core.send(BRANCHES, GIVE, max_run_ms=15_000)
    core.ready(core.of("both.a.x"))
    core.ready(core.of("both.b.x"))


@situation
def a_branch_failed_and_another_has_leave(core: Programs) -> None:
    two_branches_run(core)
    core.announce(core.of("both.b.x"), "mail")
    core.exit(core.of("both.a.x"), Outcome.FAILED)


@situation
def a_branch_failed_and_the_other_was_ended(core: Programs) -> None:
    two_branches_run(core)
    core.exit(core.of("both.a.x"), Outcome.FAILED)
    core.exit(core.of("both.b.x"), Outcome.CANCELLED)


@situation
def waits_for_an_approval(core: Programs) -> None:
    core.send(call("a"), APPROVE, call("b"), GIVE)
    core.finish("a")


@situation
def waits_for_an_approval_after_a_restart(core: Programs) -> None:
    waits_for_an_approval(core)
    core.restart()


@situation
def its_approval_is_overdue(core: Programs) -> None:
    waits_for_an_approval(core)
    core.wait(60_000)


@situation
def approved(core: Programs) -> None:
    waits_for_an_approval(core)
    core.answer_approval("approve")


@situation
def rejected(core: Programs) -> None:
    waits_for_an_approval(core)
    core.answer_approval("reject")


@situation
def nobody_approved_in_time(core: Programs) -> None:
    its_approval_is_overdue(core)
    core.do(ApprovalsTimePassed(core.now))


@situation
def cancelled_while_it_waits_for_an_approval(core: Programs) -> None:
    waits_for_an_approval(core)
    cancel(core)


@situation
def waits_for_an_approval_and_records_are_lost(core: Programs) -> None:
    waits_for_an_approval(core)
    repair(core)


@situation
def gave(core: Programs) -> None:
    core.send({"id": "a", "bind": "input"}, GIVE)


@situation
def gave_after_a_call(core: Programs) -> None:
    just_accepted(core)
    core.finish("a")


@situation
def stopped(core: Programs) -> None:
    core.send({"id": "no", "stop": {"reason": "nothing to do"}})


@situation
def an_expression_failed(core: Programs) -> None:
    core.send({"id": "a", "bind": "sum(input)"}, GIVE)


@situation
def a_call_failed(core: Programs) -> None:
    its_first_call_runs(core)
    core.exit(core.of("a"), Outcome.FAILED)


@situation
def a_call_was_refused_by_the_budget(core: Programs) -> None:
    core.send(call("a"), GIVE, max_run_ms=10_000)
    core.ready(core.of("a"))


@situation
def a_call_failed_and_it_cannot_be_resumed(core: Programs) -> None:
    core.send(call("a"), GIVE, not_resumable=("handler 'a' declares no contracts",))
    core.ready(core.of("a"))
    core.exit(core.of("a"), Outcome.FAILED)


@situation
def restarted_before_its_first_call(core: Programs) -> None:
    just_accepted(core)
    core.restart()


@situation
def restarted_while_a_call_ran(core: Programs) -> None:
    its_first_call_runs(core)
    core.restart()


@situation
def restarted_while_a_call_had_leave(core: Programs) -> None:
    its_first_call_has_leave(core)
    core.restart()


@situation
def restarted_while_a_call_had_leave_with_a_key(core: Programs) -> None:
    core.send(call("a"), call("b"), GIVE)
    core.ready(core.of("a"))
    core.announce(core.of("a"))
    core.restart()


@situation
def resumed(core: Programs) -> None:
    restarted_while_a_call_had_leave_with_a_key(core)
    core.resume(core.of("a"))


@situation
def settled_as_applied_after_a_restart(core: Programs) -> None:
    restarted_while_a_call_had_leave(core)
    core.resolve(core.of("a"), applied=True, result=Result("seen"))


@situation
def settled_as_not_applied_after_a_restart(core: Programs) -> None:
    restarted_while_a_call_had_leave(core)
    core.resolve(core.of("a"), applied=False)


@situation
def a_value_was_not_kept(core: Programs) -> None:
    its_first_call_has_leave(core)
    core.confirm(core.of("a"), result=NO_VALUE)
    core.exit(core.of("a"))


@situation
def a_call_is_not_proven_dead(core: Programs) -> None:
    its_first_call_has_leave(core)
    core.lose(core.of("a"), dead=False)


@situation
def cancelled_while_a_call_runs(core: Programs) -> None:
    its_first_call_runs(core)
    cancel(core)


@situation
def cancelled_and_a_call_ended(core: Programs) -> None:
    cancelled_while_a_call_runs(core)
    core.exit(core.of("a"), Outcome.CANCELLED)


@situation
def unknown_and_cancelled(core: Programs) -> None:
    restarted_while_a_call_had_leave(core)
    cancel(core)


@situation
def interrupted_and_records_are_lost(core: Programs) -> None:
    a_call_failed(core)
    repair(core)


@situation
def abandoned(core: Programs) -> None:
    restarted_while_a_call_ran(core)
    core.wait(30 * DAY_MS)
    core.do(TimePassed(core.now, 1_000, 30, 400, 30))
