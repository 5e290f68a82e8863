"""Wholes as older versions wrote them."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import orjson

from supervisor.core.card import card_of
from supervisor.core.filing import filing_of
from supervisor.core.packing import packable
from supervisor.core.state import State
from supervisor.core.text import text_of
from supervisor.core.whole import Kept, lines


def whole_of_version(version: int, state: State) -> list[Any]:
    """The values of the lines: in the first an operation in each line, finished ones too; in the
    second a card for each of these, and the operation behind it."""
    assert not state.tombstones
    assert not state.operations.filed
    whole = [orjson.loads(line) for line in lines(state)]
    head = {**whole[0], "whole": version, "operations": len(state.operations)}
    del head["left"]
    operations: list[Any] = []
    for one in sorted(state.operations.loose.values(), key=attrgetter("serial")):
        places = {**state.interrupted.places, **state.loose_finished.places}
        place, text = places.get(one.operation_id, -1), orjson.loads(text_of(one))
        if version > 1 and packable(one):
            operations += {"card": orjson.loads(text_of(card_of(one))), "place": place}, text
        else:
            operations.append(orjson.loads(text_of(Kept(one, place))))
    return [head, *whole[1 : 1 + head.get("sessions", 0)], *operations]


def is_filed(state: State) -> bool:
    """Whether nothing of it is left to be filed."""
    return not filing_of(state).made
