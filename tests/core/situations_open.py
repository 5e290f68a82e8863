"""Where an open operation can stand: each name is a way to bring it there."""

from __future__ import annotations

from collections.abc import Callable

from supervisor.core.ids import OperationId
from supervisor.core.record import Ending, Result
from supervisor.core.step import TimePassed
from tests.core.agent import ASKED, KEYED, READ, WRITE, Agent
from tests.core.made import Core
from tests.core.situations_programs import DAY_MS, NO_VALUE

Situation = Callable[[Agent], object]
OPEN: dict[str, Situation] = {}


def situation(make: Situation) -> Situation:
    OPEN["open: " + make.__name__.replace("_", " ")] = make
    return make


def prepared(name: str) -> tuple[Core, OperationId]:
    agent = Agent()
    OPEN[name](agent)
    return agent, agent.op


@situation
def nothing_called(agent: Agent) -> None:
    assert agent.operation_.continuation is not None


@situation
def a_write_waits_for_its_turn(agent: Agent) -> None:
    agent.called(WRITE)


@situation
def a_write_runs(agent: Agent) -> None:
    agent.running(WRITE)


@situation
def a_write_is_done(agent: Agent) -> None:
    agent.completed(WRITE)


@situation
def a_write_failed(agent: Agent) -> None:
    agent.failed(WRITE)


@situation
def a_write_is_unsettled(agent: Agent) -> None:
    agent.unsettled(WRITE)


@situation
def a_write_is_unsettled_with_a_key(agent: Agent) -> None:
    agent.unsettled(KEYED)


@situation
def a_write_is_unsettled_and_the_provider_can_tell(agent: Agent) -> None:
    agent.unsettled(ASKED)


@situation
def a_write_is_done_and_its_result_lost(agent: Agent) -> None:
    agent.completed(WRITE, result=NO_VALUE)


@situation
def a_look_runs(agent: Agent) -> None:
    agent.ready(agent.called(READ).call_id)


@situation
def its_time_is_over(agent: Agent) -> None:
    agent.completed(WRITE)
    agent.end(Ending.TIME_LIMIT)


@situation
def ended_by_an_error(agent: Agent) -> None:
    agent.end(Ending.ERROR)


@situation
def ended_while_a_write_runs(agent: Agent) -> None:
    agent.running(WRITE)
    agent.end(Ending.TIME_LIMIT)


@situation
def stopped_while_a_write_runs(agent: Agent) -> None:
    agent.running(WRITE)
    agent.end(Ending.STOP)


@situation
def restarted(agent: Agent) -> None:
    agent.completed(WRITE)
    agent.restart()


@situation
def restarted_while_a_write_ran(agent: Agent) -> None:
    agent.running(WRITE)
    agent.restart()


@situation
def continued(agent: Agent) -> None:
    its_time_is_over(agent)
    agent.go_on()


@situation
def continued_after_an_unsettled_write(agent: Agent) -> None:
    restarted_while_a_write_ran(agent)
    agent.go_on()


@situation
def settled_after_it_was_unsettled(agent: Agent) -> None:
    call_id = agent.unsettled(WRITE)
    agent.resolve(call_id, applied=True, result=Result("seen"))


@situation
def done(agent: Agent) -> None:
    agent.completed(WRITE)
    agent.end(Ending.DONE)


@situation
def done_and_a_write_is_unsettled(agent: Agent) -> None:
    agent.unsettled(WRITE)
    agent.end(Ending.DONE)


@situation
def done_in_doubt_and_continued(agent: Agent) -> None:
    done_and_a_write_is_unsettled(agent)
    agent.go_on()


@situation
def done_in_doubt_and_continued_and_settled(agent: Agent) -> None:
    done_in_doubt_and_continued(agent)
    agent.resolve(agent.operation_.call_order[0], applied=True, result=Result("seen"))


@situation
def done_while_a_write_runs(agent: Agent) -> None:
    agent.running(WRITE)
    agent.end(Ending.DONE)


@situation
def cancelled(agent: Agent) -> None:
    agent.cancel_it()


@situation
def cancelled_while_a_write_runs(agent: Agent) -> None:
    agent.running(WRITE)
    agent.cancel_it()


@situation
def cancelled_and_a_write_is_unsettled(agent: Agent) -> None:
    agent.unsettled(WRITE)
    agent.cancel_it()


@situation
def overtaken(agent: Agent) -> None:
    its_time_is_over(agent)
    agent.message()


@situation
def overtaken_and_open(agent: Agent) -> None:
    agent.message()


@situation
def its_budget_is_used_up(agent: Agent) -> None:
    for n in range(59):
        call_id = agent.called(KEYED, n).call_id
        agent.ready(call_id)
        agent.announce(call_id)
        agent.lose(call_id)


@situation
def abandoned(agent: Agent) -> None:
    agent.wait(30 * DAY_MS)
    agent.do(TimePassed(agent.now, 1_000, 30, 400, 30))
