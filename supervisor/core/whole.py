"""The whole fold as lines of JSON, and back: fold(all) is fold(state_from(lines(prefix)), rest).

It is made a line at a time, so that it can be written while the state moves on (a `State` never
changes): a head; then every session, oldest first; every operation that is not filed, in the
order of acceptance; a catalogue of all, filed or not; the drawers of those that are filed; the
blocks of tombstones, then the other tombstones, oldest first. A drawer is carried as it is, and a
start looks at none of its operations.

What finds the operations that are not filed is made again, by the rules that made it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, cast

import attrs
import orjson
from immutables import Map

from frozen import frozen
from supervisor.core.block import Block, block_in, block_line
from supervisor.core.card import Card, card_of
from supervisor.core.catalogue import ALL, Catalogue, Facet
from supervisor.core.cataloguing import catalogue_of
from supervisor.core.contents import Put, away, in_memory
from supervisor.core.drawer import Drawer, drawer_in, drawer_text
from supervisor.core.filed import NONE_FILED, Filed
from supervisor.core.filing import Filing, Filler, filing_of
from supervisor.core.ids import AttemptKey, CallId, EffectId, OperationId, SessionId
from supervisor.core.line import line_of
from supervisor.core.operations import Operations
from supervisor.core.ordered import Ordered
from supervisor.core.packing import asked, leaves, unpacked
from supervisor.core.session_state import Session, Tombstone
from supervisor.core.standing import Waits, waits_for
from supervisor.core.state import Operation, State
from supervisor.core.strict import exactly
from supervisor.core.text import UnknownWhole, line, read, text_of
from supervisor.core.tombstones import Tombstones, tombstones_of

VERSION = 3
# The first has an operation in each line. In the second a finished one is two lines: a card with
# all that finds it, and the rest.
READ = frozenset({1, 2, VERSION})

# Every field of State is one or the other; a test holds this against the class.
CARRIED = (
    *("epoch", "boot_id", "position", "latest", "accepted", "forgotten"),
    *("sessions", "operations", "tombstones"),
    *("newest_open", "blobs", "catalogue"),
)
DERIVED = (
    *("loose_messages", "loose_calls", "loose_effects", "loose_numbers", "loose_finished"),
    *("interrupted", "moving", "leaves", "reconciling", "undead"),
    *("continued", "approvals", "unfinished"),
)


class NewerWhole(UnknownWhole):
    """A newer version's."""


@frozen
class Head:
    """The first part. `next_*` are the places that the lines will give next; of the first
    block of tombstones so many are `gone`. `operations` counts those that are not filed; `left`
    has a text for each drawer: which of its rows are gone, the first being the least bit of a
    hexadecimal number."""

    whole: int
    epoch: int
    boot_id: str
    position: int
    latest: int
    accepted: int
    operations: int
    tombstones: int
    next_finished: int
    next_interrupted: int
    next_buried: int
    sessions: int = 0
    forgotten: tuple[tuple[SessionId, str, int], ...] = ()
    blocks: int = 0
    gone: int = 0
    left: tuple[str, ...] = ()


@frozen
class Kept:
    """One operation, and its place in the line that it waits in (-1: in none)."""

    operation: Operation
    place: int = -1


@frozen
class Carded:
    """In the second version: the card of a finished operation, and its place in the line of those
    to be evicted. The operation is the line behind it."""

    card: Card
    place: int


@frozen
class FacetSet:
    """The serials of the operations with one facet, as `Ordered` has them: each node's key, and
    its bits as a hexadecimal number."""

    kind: str
    value: str
    size: int
    nodes: tuple[tuple[int, str], ...]


@frozen
class Index:
    """What finds the operations, filed or not, as long as it is not to be made again."""

    facets: tuple[FacetSet, ...]
    counts: tuple[tuple[int, str, int], ...]
    newest_open: Mapping[SessionId, OperationId]
    blobs: Mapping[str, int]


class _Read(NamedTuple):
    """One operation that is not filed, as it was read."""

    card: Card
    operation: Operation
    waits: Waits | None
    place: int


class _Whole(NamedTuple):
    """What all of it is made of."""

    head: Head
    loose: list[_Read]
    filed: Filed
    catalogue: Catalogue
    newest_open: Map[SessionId, OperationId]
    blobs: Map[str, int]


ROWS = 256
_MEMBERS = attrgetter(*(one.name for one in attrs.fields(Tombstone)))
_TYPES = (str, str, str, str, int, int)


def lines(state: State, filing: Filing | None = None) -> Iterator[bytes]:
    """The whole, made a line at a time. The same state gives the same lines, in any process.

    `filing` is that of the state, done; without it, it is made first.
    """
    if filing is None:
        filing = filing_of(state)
    loose, filed = filing.loose(), filing.filed
    yield text_of(_head(state, len(loose), filed))
    for session in sorted(state.sessions.values(), key=attrgetter("at", "session_id")):
        yield text_of(session)
    for operation in sorted(loose, key=attrgetter("serial")):
        yield text_of(Kept(operation, _place(state, operation.operation_id)))
    yield text_of(_index(state))
    yield from map(drawer_text, filed.drawers)
    yield from map(line, map(block_line, state.tombstones.blocks))
    yield from map(line, _rows_of(state.tombstones.behind_blocks()))


def _place(state: State, one: OperationId) -> int:
    places = (state.loose_finished.places, state.interrupted.places)
    return next((line[one] for line in places if one in line), -1)


def _index(state: State) -> Index:
    facets = sorted(state.catalogue.facets.items(), key=lambda item: (item[0][0], str(item[0][1])))
    return Index(
        tuple(_facet_set(facet, serials) for facet, serials in facets),
        tuple(sorted((*key, count) for key, count in state.catalogue.counts.items())),
        state.newest_open,
        state.blobs,
    )


def _facet_set(facet: Facet, serials: Ordered) -> FacetSet:
    kind, value = facet
    nodes = tuple((key, f"{bits:x}") for key, bits in sorted(serials.nodes.items()))
    return FacetSet(kind, str(value), len(serials), nodes)


def _head(state: State, loose: int, filed: Filed) -> Head:
    return Head(
        whole=VERSION,
        epoch=state.epoch,
        boot_id=state.boot_id,
        position=state.position,
        latest=state.latest,
        accepted=state.accepted,
        operations=loose,
        tombstones=len(state.tombstones),
        next_finished=state.loose_finished.next,
        next_interrupted=state.interrupted.next,
        next_buried=state.tombstones.next,
        sessions=len(state.sessions),
        forgotten=tuple(sorted((*message, first) for message, first in state.forgotten.items())),
        blocks=len(state.tombstones.blocks),
        gone=state.tombstones.gone,
        left=tuple(f"{filed.gone.get(one, 0):x}" for one in filed.drawers),
    )


def state_from(given: Iterable[bytes], put: Put = in_memory) -> State:
    """The state whose lines these are; what need not be in memory is put elsewhere as it is read.
    Raises UnknownWhole."""
    text = iter(given)
    values = _values(text)
    head = _head_from(next(values, None))
    sessions = [read(Session, next(values, None)) for _ in range(head.sessions)]
    if head.whole == VERSION:
        whole = _operations(head, values, put)
    else:
        whole = _older(head, values, text, put)
    tombstones = _tombstones(values, head, put)
    if next(text, None) is not None:
        raise UnknownWhole("there is more than the head says")
    state = _indexed(whole, tombstones)
    if len(state.operations) != len(state.catalogue.of(*ALL)) or len(state.operations.loose) != len(
        whole.loose
    ):
        raise UnknownWhole("an operation is in it twice, or not in its catalogue")
    by_id = Map((one.session_id, one) for one in sessions)
    if len(by_id) != len(sessions):
        raise UnknownWhole("a session is in it twice")
    return attrs.evolve(state, sessions=by_id)


def _operations(head: Head, values: Iterator[Any], put: Put) -> _Whole:
    loose = [_kept(read(Kept, next(values, None))) for _ in range(head.operations)]
    index = read(Index, next(values, None))
    filed = NONE_FILED
    for left in head.left:
        drawer, gone = _drawer(next(values, None), left)
        filed = filed.replaced(None, away(drawer, put), gone)
    catalogue = Catalogue(
        Map(_facet(one) for one in index.facets),
        Map(((uid, state), count) for uid, state, count in index.counts),
    )
    return _Whole(head, loose, filed, catalogue, Map(index.newest_open), Map(index.blobs))


def _drawer(value: Any, left: str) -> tuple[Drawer, int]:
    try:
        drawer, gone = drawer_in(value, unpacked), int(left, 16)
    except ValueError as error:
        raise UnknownWhole(f"a drawer does not read back: {error}") from error
    if not 0 <= gone < (1 << len(drawer)) - 1:
        raise UnknownWhole("more left a drawer than was in it, or all")
    return drawer, gone


def _facet(given: FacetSet) -> tuple[Facet, Ordered]:
    try:
        value = int(given.value) if given.kind == "owner" else given.value
        nodes = Map((key, int(bits, 16)) for key, bits in given.nodes)
    except ValueError as error:
        raise UnknownWhole(f"a facet does not read back: {error}") from error
    return (given.kind, value), Ordered(nodes, given.size)


def _older(head: Head, values: Iterator[Any], text: Iterator[bytes], put: Put) -> _Whole:
    """Of an older version: a finished operation in two lines, or in one as the others."""
    loose: list[_Read] = []
    filler, drawers, cards = Filler(), list[Drawer](), list[Card]()
    for _ in range(head.operations):
        value = next(values, None)
        if type(value) is not dict or "card" not in value:
            loose.append(_kept(read(Kept, value)))
            continue
        one = read(Carded, cast("dict[str, Any]", value))
        operation = next(text, None)
        if operation is None:
            raise UnknownWhole("a card with no operation behind it")
        if one.place < 0:
            raise _out_of_line()
        cards.append(one.card)
        filler.add(one.card, operation, one.place)
        if filler.full:
            drawers.append(away(filler.drawer(), put))
            filler = Filler()
    if not filler.empty:
        drawers.append(away(filler.drawer(), put))
    filed = NONE_FILED
    for drawer in drawers:
        filed = filed.replaced(None, drawer, 0)
    cards += (one.card for one in loose)
    newest = Map((one.session_id, one.operation_id) for one in cards if one.newest)
    blobs = Map(Counter(digest for one in cards for digest in one.blobs))
    return _Whole(head, loose, filed, catalogue_of(cards), newest, blobs)


def _values(text: Iterator[bytes]) -> Iterator[Any]:
    for one in text:
        try:
            yield orjson.loads(one)
        except orjson.JSONDecodeError as error:
            raise UnknownWhole(f"a line is no JSON: {error}") from error


def _head_from(value: Any) -> Head:
    """The version comes first: of a newer one nothing else is looked at."""
    try:
        version = exactly(int)(exactly(dict)(value, None).get("whole"), None)
    except TypeError as error:
        raise UnknownWhole(f"it does not begin with a head: {error}") from error
    if version not in READ:
        raise NewerWhole(f"version {version} is not known to this version, which knows {VERSION}")
    return read(Head, value)


def _kept(kept: Kept) -> _Read:
    waits = waits_for(kept.operation)
    if (waits is None) is (kept.place >= 0):
        raise _out_of_line()
    return _Read(card_of(kept.operation), kept.operation, waits, kept.place)


def _out_of_line() -> UnknownWhole:
    return UnknownWhole("an operation stands in a line that it does not belong to, or in none")


def _rows_of(tombstones: Iterator[Tombstone]) -> Iterator[list[list[Any]]]:
    """Many in one part, each an array of its members: there are as many as there was work
    in a year, and a start reads them all."""
    while rows := [[*_MEMBERS(one)] for one in itertools.islice(tombstones, ROWS)]:
        yield rows


def _tombstones(given: Iterator[Any], head: Head, put: Put) -> Tombstones:
    blocks = tuple(away(_block(next(given, None)), put) for _ in range(head.blocks))
    first = head.next_buried - head.tombstones
    try:
        rows = _rows(given, head.tombstones + head.gone - sum(map(len, blocks)))
        return tombstones_of(first, head.gone, blocks, rows)
    except ValueError as error:
        raise UnknownWhole(str(error)) from error


def _block(part: Any) -> Block:
    """What its texts say is read when somebody asks for it."""
    try:
        return block_in(part)
    except ValueError as error:
        raise UnknownWhole(str(error)) from error


def _rows(given: Iterator[Any], count: int) -> Iterator[Tombstone]:
    left = count
    while left > 0:
        part = next(given, None)
        rows = cast("list[Any]", part)
        if type(part) is not list or len(rows) != min(left, ROWS):
            raise UnknownWhole("a part of tombstones has another number of them")
        for row in rows:
            members = tuple(cast("Sequence[Any]", row)) if type(row) is list else ()
            if tuple(map(type, members)) != _TYPES:
                raise UnknownWhole(f"no tombstone: {row!r}")
            yield Tombstone(*members)
        left -= len(rows)


def _indexed(whole: _Whole, tombstones: Tombstones) -> State:
    head, kept = whole.head, whole.loose
    cards = [one.card for one in kept]
    loose = [one.operation for one in kept]
    return State(
        epoch=head.epoch,
        boot_id=head.boot_id,
        position=head.position,
        latest=head.latest,
        accepted=head.accepted,
        forgotten=Map(((session, message), first) for session, message, first in head.forgotten),
        operations=Operations(Map((one.operation_id, one) for one in loose), whole.filed),
        loose_messages=Map(((one.session_id, one.request_id), one.operation_id) for one in cards),
        loose_calls=Map((call, one.operation_id) for one in cards for call in one.calls),
        loose_effects=Map((effect, one.operation_id) for one in cards for effect in one.effects),
        loose_numbers=Map((one.serial, one.operation_id) for one in cards),
        moving=Map(_moving(loose)),
        leaves=sum(leaves(one) for one in loose),
        reconciling=Map(_reconciling(loose)),
        undead=Map(_undead(loose)),
        continued=Map((one.operation_id, one.continuation.n) for one in loose if one.continuation),
        newest_open=whole.newest_open,
        approvals=Map(_approvals(loose)),
        unfinished=Map(Counter(one.session_id for one in loose if not one.finished)),
        blobs=whole.blobs,
        loose_finished=line_of(_places(kept, Waits.EVICTION), head.next_finished),
        interrupted=line_of(_places(kept, Waits.ABANDONMENT), head.next_interrupted),
        tombstones=tombstones,
        catalogue=whole.catalogue,
    )


def _places(kept: Iterable[_Read], line: Waits) -> Iterator[tuple[int, OperationId]]:
    return ((one.place, one.card.operation_id) for one in kept if one.waits is line)


def _moving(operations: Iterable[Operation]) -> Iterator[tuple[CallId, OperationId]]:
    for operation in operations:
        for call in operation.ordered_calls():
            if call.moves:
                yield call.call_id, operation.operation_id


def _approvals(operations: Iterable[Operation]) -> Iterator[tuple[OperationId, str]]:
    for operation in operations:
        pending = asked(operation)
        if pending is not None:
            yield operation.operation_id, pending.node


def _reconciling(operations: Iterable[Operation]) -> Iterator[tuple[EffectId, OperationId]]:
    for operation in operations:
        for effect in operation.effects.values():
            if effect.reconciling is not None:
                yield effect.effect_id, operation.operation_id


def _undead(operations: Iterable[Operation]) -> Iterator[tuple[AttemptKey, OperationId]]:
    for operation in operations:
        for call in operation.ordered_calls():
            for attempt in call.attempts:
                if not attempt.live and not attempt.dead:
                    yield AttemptKey(call.call_id, attempt.number), operation.operation_id
