"""How the catalogue follows the operations, one at a time or all at once."""

from __future__ import annotations

from collections.abc import Iterable

from immutables import Map

from supervisor.core.card import Card, Standing, standing_of
from supervisor.core.catalogue import ALL, Catalogue, Facet
from supervisor.core.changed import changed
from supervisor.core.ids import SessionId
from supervisor.core.ordered import Ordered, ordered
from supervisor.core.state import Operation

_NONE = Standing()


def catalogued(
    catalogue: Catalogue, before: Operation | Card | None, after: Operation | None
) -> Catalogue:
    """The catalogue when one operation, or the one of that card, became another, came or went."""
    known = before or after
    assert known is not None
    stood, stands = _standing(before), _standing(after)
    if stood == stands:
        return catalogue
    uid = known.uid if isinstance(known, Card) else known.by.uid
    was, now = (_facets(uid, known.session_id, one) for one in (stood, stands))
    serial, facets = known.serial, catalogue.facets
    for facet in was - now:
        left = facets[facet].left(serial)
        facets = facets.set(facet, left) if left else facets.delete(facet)
    for facet in now - was:
        facets = facets.set(facet, facets.get(facet, Ordered()).joined(serial))
    counts = _recounted(catalogue.counts, uid, stood, stands)
    return changed(catalogue, facets=facets, counts=counts)


def catalogue_of(operations: Iterable[Card]) -> Catalogue:
    """The catalogue of the operations that these are the cards of."""
    numbers: dict[Facet, list[int]] = {}
    counts: dict[tuple[int, str], int] = {}
    for one in operations:
        for facet in _facets(one.uid, one.session_id, one.standing):
            numbers.setdefault(facet, []).append(one.serial)
        key = (one.uid, one.standing.state)
        counts[key] = counts.get(key, 0) + 1
    facets_ = Map((facet, ordered(given)) for facet, given in numbers.items())
    return Catalogue(facets_, Map(counts))


def _standing(known: Operation | Card | None) -> Standing:
    if known is None:
        return _NONE
    return known.standing if isinstance(known, Card) else standing_of(known)


def _facets(uid: int, session_id: SessionId, standing: Standing) -> frozenset[Facet]:
    if standing is _NONE:
        return frozenset()
    return frozenset(
        {
            ALL,
            ("owner", uid),
            ("session", session_id),
            ("state", standing.state),
            *(("outcome", one) for one in standing.outcomes),
            *(("handler", one) for one in standing.handlers),
        }
    )


def _recounted(
    counts: Map[tuple[int, str], int], uid: int, stood: Standing, stands: Standing
) -> Map[tuple[int, str], int]:
    was, now = stood.state, stands.state
    if was == now:
        return counts
    if was:
        left = counts[uid, was] - 1
        counts = counts.set((uid, was), left) if left else counts.delete((uid, was))
    return counts.set((uid, now), counts.get((uid, now), 0) + 1) if now else counts
