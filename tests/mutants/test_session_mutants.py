"""Planted bugs in the end of sessions, in what an answer meets, and in what recovery offers."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

from supervisor.core import block, projection, standing
from supervisor.core.decide import message as decide_message
from supervisor.core.decide import operation as decide_operation
from supervisor.core.decide import program as decide_program
from supervisor.core.decide import retention as decide_retention
from supervisor.core.evolve import operation as evolve_operation
from supervisor.core.evolve import retention as evolve_retention
from supervisor.core.session_state import Session
from supervisor.core.tombstones import Tombstones
from tests.core import (
    test_allowed,
    test_every_verb,
    test_open,
    test_programs,
    test_retention,
    test_tombstones,
)
from tests.core.buried import small_blocks
from tests.core.programs import Programs
from tests.mutants.planting import NOTICED, Edit, planted

ENDS = test_retention.test_a_session_ends_days_after_its_last_message_and_is_then_not_found
STAYS = test_retention.test_a_session_stays_while_anything_of_it_is_kept
HONEST = test_allowed.test_what_is_offered_is_accepted_and_what_is_not_is_refused_as_it_says


def verb(name: str) -> Callable[[], None]:
    told = test_every_verb.test_each_verb_does_what_its_table_says_wherever_an_operation_stands
    return functools.partial(told, name)


def in_small_blocks(test: Callable[..., None], *, patched: bool = False) -> Callable[[], None]:
    """Of test_tombstones, as its fixture has it."""

    def run() -> None:
        with pytest.MonkeyPatch.context() as patch:
            small_blocks(patch, test_tombstones.ROWS, test_tombstones.TEXTS)
            test(*[patch] * patched)

    return run


CAME_AGAIN = in_small_blocks(test_tombstones.test_of_a_message_that_came_again_the_last_counts)
IS_NEW = in_small_blocks(
    test_tombstones.test_a_message_that_is_new_is_none_of_those_with_its_print, patched=True
)


def answered_twice() -> None:
    test_programs.test_an_answer_is_accepted_once(Programs())


TABLES: dict[str, tuple[list[Edit], Callable[[], None]]] = {
    "a session ends while an operation of it is kept": (
        [
            Edit(decide_retention._to_end, "not one.kept and", ""),
            Edit(evolve_retention.session_ended, "or session.kept", ""),
        ],
        STAYS,
    ),
    "a session ends so long after it was made": (
        [Edit(vars(Session)["used_at"].fget, "max(self.at, self.message_at)", "self.at")],
        ENDS,
    ),
    "an eviction is not counted in its session": (
        [Edit(evolve_retention.evicted, "session.kept - 1", "session.kept")],
        ENDS,
    ),
    "a message is not counted in its session": (
        [Edit(evolve_operation.accepted, "kept=session.kept + 1", "kept=session.kept")],
        STAYS,
    ),
    "a tombstone goes though its session stands": (
        [
            Edit(decide_retention._of_tombstones, "one.session_id in state.sessions", "False"),
            Edit(evolve_retention.expired, "oldest.session_id in state.sessions", "False"),
        ],
        ENDS,
    ),
    "a tombstone that has gone answers": (
        [Edit(Tombstones._found, " if row >= self._begin(block)", "")],
        CAME_AGAIN,
    ),
    "what has a message's print is taken for the message": (
        [Edit(Tombstones._found, "filter(is_it, ones)", "ones")],
        IS_NEW,
    ),
    "a block is asked for another end of a print than it has": (
        [Edit(block.hint_of, "print_ & 7", "print_ >> 3 & 7")],
        CAME_AGAIN,
    ),
    "what is left of an operation answers for a session that has ended": (
        [Edit(decide_message.begin, "_no_session(state, event) or expired_one", "expired_one")],
        ENDS,
    ),
    "done once is done, whatever was opened since": (
        [
            Edit(
                standing._ended_of_kind,
                "operation.continuation is not None:",
                "operation.continuation and len(operation.continuations) == 1:",
                "operation.continuations[-1].reason is Ending.DONE",
                "any(one.reason is Ending.DONE for one in operation.continuations)",
            )
        ],
        test_open.test_done_in_doubt_and_continued_is_finished_only_when_that_one_is_done,
    ),
    "a second answer is taken for the first": (
        [Edit(decide_program._answered, "if given == (", "if given[:0] == ()[:0] or given == (")],
        answered_twice,
    ),
    "an answer counts after its time": (
        [Edit(projection.approval_barred, "now.wall >= approval.expires_at", "False")],
        verb("approve"),
    ),
    "what was cancelled gets more time": (
        [Edit(decide_operation._ended, "or operation.cancel_requested", "")],
        HONEST,
    ),
    "what runs is resumed": (
        [
            Edit(
                projection.resume_barred,
                "standing in {OperationState.ACCEPTED, OperationState.RUNNING}",
                "False",
            )
        ],
        verb("resume"),
    ),
    "an overtaken operation is offered to be continued": (
        [Edit(projection._continue, "if closed is None:", "if True:")],
        HONEST,
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_its_test_fails(name: str) -> None:
    edits, test = TABLES[name]
    test()
    with planted(edits), pytest.raises(NOTICED):
        test()
