"""How the catalogue follows the operations, one at a time or all at once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from typing import NamedTuple

from immutables import Map

from supervisor.core.catalogue import ALL, Catalogue, Facet
from supervisor.core.changed import changed
from supervisor.core.ids import OperationId
from supervisor.core.ordered import Ordered, ordered
from supervisor.core.standing import operation_state
from supervisor.core.state import Operation, Said

_OUTCOMES = tuple(one.value for one in Said)


def catalogued(
    catalogue: Catalogue, before: Operation | None, after: Operation | None
) -> Catalogue:
    """The catalogue when one operation became another, came or went."""
    known = before or after
    assert known is not None
    stood, stands = _standing(before), _standing(after)
    if stood == stands:
        return catalogue
    was, now = _facets(before, stood), _facets(after, stands)
    serial, facets = known.serial, catalogue.facets
    for facet in was - now:
        left = facets[facet].left(serial)
        facets = facets.set(facet, left) if left else facets.delete(facet)
    for facet in now - was:
        facets = facets.set(facet, facets.get(facet, Ordered()).joined(serial))
    ids = catalogue.ids
    if before is None:
        ids = ids.set(serial, known.operation_id)
    elif after is None:
        ids = ids.delete(serial)
    counts = _recounted(catalogue.counts, known.by.uid, stood, stands)
    return changed(catalogue, ids=ids, facets=facets, counts=counts)


def catalogue_of(operations: Iterable[Operation]) -> Catalogue:
    """The catalogue of operations that are there whole."""
    ids: dict[int, OperationId] = {}
    numbers: dict[Facet, list[int]] = {}
    counts: dict[tuple[int, str], int] = {}
    for one in operations:
        stands = _standing(one)
        ids[one.serial] = one.operation_id
        for facet in _facets(one, stands):
            numbers.setdefault(facet, []).append(one.serial)
        key = (one.by.uid, stands.state)
        counts[key] = counts.get(key, 0) + 1
    facets_ = Map((facet, ordered(given)) for facet, given in numbers.items())
    return Catalogue(Map(ids), facets_, Map(counts))


class _Standing(NamedTuple):
    """What an operation is found by, and ever changes; the defaults are those of none."""

    state: str = ""
    handlers: tuple[str, ...] = ()
    outcomes: tuple[bool, ...] = ()


def _standing(operation: Operation | None) -> _Standing:
    if operation is None:
        return _Standing()
    outcomes = tuple(getattr(operation.tally, one) > 0 for one in _OUTCOMES)
    return _Standing(operation_state(operation).value, operation.tally.handlers, outcomes)


def _facets(operation: Operation | None, stands: _Standing) -> frozenset[Facet]:
    if operation is None:
        return frozenset()
    return frozenset(
        {
            ALL,
            ("owner", operation.by.uid),
            ("session", operation.session_id),
            ("state", stands.state),
            *(("outcome", one) for one in compress(_OUTCOMES, stands.outcomes)),
            *(("handler", one) for one in stands.handlers),
        }
    )


def _recounted(
    counts: Map[tuple[int, str], int], uid: int, stood: _Standing, stands: _Standing
) -> Map[tuple[int, str], int]:
    was, now = stood.state, stands.state
    if was == now:
        return counts
    if was:
        left = counts[uid, was] - 1
        counts = counts.set((uid, was), left) if left else counts.delete((uid, was))
    return counts.set((uid, now), counts.get((uid, now), 0) + 1) if now else counts
