"""How the catalogue follows the operations, one at a time or all at once."""

from __future__ import annotations

from collections.abc import Iterable

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
    if before is not None and after is not None and _moving(before) == _moving(after):
        return catalogue
    known = before or after
    assert known is not None
    was, now = _facets(before), _facets(after)
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
    counts = _recounted(catalogue.counts, known.by.uid, _state(was), _state(now))
    return changed(catalogue, ids=ids, facets=facets, counts=counts)


def catalogue_of(operations: Iterable[Operation]) -> Catalogue:
    """The catalogue of operations that are there whole."""
    ids: dict[int, OperationId] = {}
    numbers: dict[Facet, list[int]] = {}
    counts: dict[tuple[int, str], int] = {}
    for one in operations:
        facets = _facets(one)
        ids[one.serial] = one.operation_id
        for facet in facets:
            numbers.setdefault(facet, []).append(one.serial)
        key = (one.by.uid, _state(facets))
        counts[key] = counts.get(key, 0) + 1
    facets_ = Map((facet, ordered(given)) for facet, given in numbers.items())
    return Catalogue(Map(ids), facets_, Map(counts))


def _moving(operation: Operation) -> tuple[object, ...]:
    """All of its facets that ever change, in short."""
    tally = operation.tally
    known = (tally.announced > 0, tally.applied > 0, tally.not_applied > 0, tally.unknown > 0)
    return (operation_state(operation), tally.handlers, *known)


def _facets(operation: Operation | None) -> frozenset[Facet]:
    if operation is None:
        return frozenset()
    tally = operation.tally
    outcomes = [("outcome", one) for one in _OUTCOMES if getattr(tally, one)]
    handlers = [("handler", one) for one in tally.handlers]
    return frozenset(
        {
            ALL,
            ("owner", operation.by.uid),
            ("session", operation.session_id),
            ("state", operation_state(operation).value),
            *outcomes,
            *handlers,
        }
    )


def _state(facets: frozenset[Facet]) -> str:
    """The state among them; the empty string when there are none."""
    return next((str(value) for kind, value in facets if kind == "state"), "")


def _recounted(
    counts: Map[tuple[int, str], int], uid: int, was: str, now: str
) -> Map[tuple[int, str], int]:
    if was == now:
        return counts
    if was:
        left = counts[uid, was] - 1
        counts = counts.set((uid, was), left) if left else counts.delete((uid, was))
    return counts.set((uid, now), counts.get((uid, now), 0) + 1) if now else counts
