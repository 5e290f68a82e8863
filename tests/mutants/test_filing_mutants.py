"""Planted bugs in how finished operations are filed, found, and leave their drawers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from supervisor.core import drawer as drawer_module
from supervisor.core import filing as filing_module
from supervisor.core.drawer import Drawer
from supervisor.core.evolve import put, retention
from supervisor.core.filed import Filed
from supervisor.core.filing import Filing
from supervisor.core.found import InLine
from supervisor.core.line import Line
from tests.core import test_filing
from tests.mutants.planting import NOTICED, Edit, planted


def small(test: Callable[..., None], *, patched: bool = False) -> Callable[[], None]:
    """Of test_filing, as its fixture has it."""

    def run() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(drawer_module, "FULL_ROWS", 4)
            patch.setattr(filing_module, "PART", 2)
            test(*[patch] * patched)

    return run


MOVES = small(test_filing.test_what_goes_or_changes_while_it_is_filed_is_not_there_twice)
GOES = small(test_filing.test_a_drawer_goes_when_all_of_it_left)
FOLLOWED = small(
    test_filing.test_a_message_to_a_session_makes_the_one_before_loose_and_it_keeps_its_place
)
ALIKE = small(test_filing.test_prints_that_are_all_the_same_find_the_same, patched=True)
ROOM = small(test_filing.test_what_is_filed_later_is_put_into_the_drawer_that_has_room)

TABLES: dict[str, tuple[Edit, Callable[[], None]]] = {
    "what changed while it was filed is filed as it was": (
        Edit(Filing.into, "loose.get(one.operation_id) is one", "one.operation_id in loose"),
        MOVES,
    ),
    "what left the drawer before is in the one that takes it over": (
        Edit(Filing.into, "(self._left_since(state, part.made) | new)", "new"),
        MOVES,
    ),
    "a later part is there before its turn": (
        Edit(
            Filing.into,
            "new = part.made.bits(one.serial for one in part.made.operations)",
            "new = 0",
        ),
        MOVES,
    ),
    "what left a drawer stays in it": (
        Edit(Filed.without, "self.gone.get(drawer, 0) | 1 << row", "self.gone.get(drawer, 0)"),
        GOES,
    ),
    "a drawer stays when all of it left": (
        Edit(
            Filed.marked, "if one is not drawer", "", "0 < gone.bit_count() <", "gone.bit_count() <"
        ),
        GOES,
    ),
    "a row that left is found": (
        Edit(Filed._named, "self.stands(*one)", "one"),
        GOES,
    ),
    "what is loose again keeps its row": (
        Edit(put._loosened, "filed.without(one)", "filed"),
        FOLLOWED,
    ),
    "what is loose again goes to the end of the line": (
        Edit(
            put._loosened,
            "state.loose_finished.returned(one, place)",
            "state.loose_finished.joined(one)",
        ),
        FOLLOWED,
    ),
    "the calls of what is loose again are not found": (
        Edit(put._loosened, "dict.fromkeys(card.calls, one)", "{}"),
        FOLLOWED,
    ),
    "the filed ones come after the loose ones": (
        Edit(
            InLine.places,
            "heapq.merge(self.loose.items(), self.filed.in_line())",
            "iter([*self.filed.in_line(), *self.loose.items()])",
        ),
        FOLLOWED,
    ),
    "a place that was left is taken": (
        Edit(Line.left, "self.taken.left(place)", "self.taken"),
        FOLLOWED,
    ),
    "a name's print is believed": (
        Edit(Filed._by_card, "if fits(_card(drawer.packed_at(row)))", "if drawer"),
        ALIKE,
    ),
    "an id's print is believed": (
        Edit(Filed._found, " if drawer.id_at(row) == one", ""),
        ALIKE,
    ),
    "all are as old as the first": (
        Edit(Filed.updated_at, "found[0].updated[found[1]]", "found[0].updated[0]"),
        ALIKE,
    ),
    "a drawer is asked for another end of a print than it has": (
        Edit(Drawer.may_have, "bit & 7", "bit >> 3 & 7"),
        FOLLOWED,
    ),
    "every drawer is one that has room": (
        Edit(Filing._open_drawer, "drawers and not drawers[-1].full", "drawers"),
        ROOM,
    ),
    "an evicted one is found by its message": (
        Edit(retention.evicted, "if isinstance(held, Operation)", "if False"),
        small(test_filing.test_what_is_evicted_loose_is_found_by_nothing),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_its_test_fails(name: str) -> None:
    edit, test = TABLES[name]
    test()
    with planted([edit]), pytest.raises(NOTICED):
        test()
