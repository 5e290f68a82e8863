"""The whole fold as lines of JSON, and back: fold(all) is fold(state_from(lines(prefix)), rest).

It is made a line at a time, so that it can be written while the state moves on (a `State` never
changes): a head; then every session, oldest first; every operation in the order of acceptance;
the blocks of tombstones, then the other tombstones, oldest first. What can be found in those is
not in it a second time: indexes are made again, by the rules that made them.

An operation that is `packable` is two lines, of which a start reads the first: a card with all
that indexes need, then the rest.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, cast

import attrs
import orjson
from immutables import Map

from supervisor.core.card import Card, card_of
from supervisor.core.cataloguing import catalogue_of
from supervisor.core.ids import AttemptKey, CallId, EffectId, OperationId, SessionId
from supervisor.core.line import line_of
from supervisor.core.operations import Operations, Packed
from supervisor.core.packing import Packer, asked, leaves, packable, texts
from supervisor.core.session_state import Session, Tombstone
from supervisor.core.standing import Waits, waits_for
from supervisor.core.state import Operation, State
from supervisor.core.strict import exactly
from supervisor.core.text import UnknownWhole, line, read, text_of
from supervisor.core.tombstones import Block, Tombstones, tombstones_of

VERSION = 2
# The first version has no cards: each operation is one line.
READ = frozenset({1, VERSION})

# Every field of State is one or the other; a test holds this against the class.
CARRIED = (
    *("epoch", "boot_id", "position", "latest", "accepted", "forgotten"),
    *("sessions", "operations", "tombstones"),
)
DERIVED = (
    "messages",
    "calls",
    "effects",
    "moving",
    "leaves",
    "reconciling",
    "undead",
    "continued",
    "newest_open",
    "approvals",
    "unfinished",
    "blobs",
    "finished",
    "interrupted",
    "catalogue",
)


class NewerWhole(UnknownWhole):
    """A newer version's."""


@attrs.frozen
class Head:
    """The first part. `next_*` are the places that the lines will give next; of the first
    block of tombstones so many are `gone`."""

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


@attrs.frozen
class Kept:
    """One operation, and its place in the line that it waits in (-1: in none)."""

    operation: Operation
    place: int = -1


@attrs.frozen
class Filed:
    """The card of one that is packed, and its place in the line of those to be evicted. The
    operation is the line behind it."""

    card: Card
    place: int


class _Read(NamedTuple):
    """One operation as it was read."""

    card: Card
    held: Operation | Packed
    waits: Waits | None
    place: int


ROWS = 256
_COLUMNS = ("operations", "messages", "rest")
_MEMBERS = attrgetter(*(one.name for one in attrs.fields(Tombstone)))
_TYPES = (str, str, str, str, int, int)


Packs = Callable[[Operation, Packed], object]
"""Takes an operation, and what it was packed into."""


def lines(state: State, made: Packs = lambda _operation, _pack: None) -> Iterator[bytes]:
    """The whole, made a line at a time. Equal states give equal lines, in any process.

    `made` is given each operation that was packed for it.
    """
    yield text_of(_head(state))
    for session in sorted(state.sessions.values(), key=attrgetter("at", "session_id")):
        yield text_of(session)
    packer = Packer()
    for held in sorted(state.operations.held(), key=attrgetter("serial")):
        if isinstance(held, Operation) and not packable(held):
            yield text_of(Kept(held, _place(state, held.operation_id)))
        else:
            yield from _filed(state, held, packer, made)
    yield from map(line, map(_columns_of, state.tombstones.blocks))
    yield from map(line, _rows_of(state.tombstones.behind_blocks()))


def _place(state: State, one: OperationId) -> int:
    places = (state.finished.places, state.interrupted.places)
    return next((line[one] for line in places if one in line), -1)


def _filed(state: State, held: Operation | Packed, packer: Packer, made: Packs) -> Iterator[bytes]:
    """The two lines of one that is packed, or is now."""
    if isinstance(held, Operation):
        operation, held = held, packer.pack(held)
        made(operation, held)
    card, text = texts(held)
    yield b'{"card":%b,"place":%d}' % (card, state.finished.places[held.operation_id])
    yield text


def _head(state: State) -> Head:
    return Head(
        whole=VERSION,
        epoch=state.epoch,
        boot_id=state.boot_id,
        position=state.position,
        latest=state.latest,
        accepted=state.accepted,
        operations=len(state.operations),
        tombstones=len(state.tombstones),
        next_finished=state.finished.next,
        next_interrupted=state.interrupted.next,
        next_buried=state.tombstones.next,
        sessions=len(state.sessions),
        forgotten=tuple(sorted((*message, first) for message, first in state.forgotten.items())),
        blocks=len(state.tombstones.blocks),
        gone=state.tombstones.gone,
    )


def state_from(given: Iterable[bytes]) -> State:
    """The state whose lines these are. Raises UnknownWhole."""
    text = iter(given)
    values = _values(text)
    head = _head_from(next(values, None))
    sessions = [read(Session, next(values, None)) for _ in range(head.sessions)]
    packer = Packer()
    kept = [_kept_in(next(values, None), text, packer) for _ in range(head.operations)]
    tombstones = _tombstones(values, head)
    if next(text, None) is not None:
        raise UnknownWhole("there is more than the head says")
    state = _indexed(head, kept, tombstones)
    if len(state.operations) != len(kept):
        raise UnknownWhole("an operation is in it twice")
    by_id = Map((one.session_id, one) for one in sessions)
    if len(by_id) != len(sessions):
        raise UnknownWhole("a session is in it twice")
    return attrs.evolve(state, sessions=by_id)


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


def _kept_in(value: Any, text: Iterator[bytes], packer: Packer) -> _Read:
    """The next operation. The line behind a card stays text, whatever it says."""
    if type(value) is dict and "card" in value:
        filed = read(Filed, cast("dict[str, Any]", value))
        operation = next(text, None)
        if operation is None:
            raise UnknownWhole("a card with no operation behind it")
        held: Operation | Packed = packer.packed(filed.card, operation)
        waits: Waits | None = Waits.EVICTION
        card, place = filed.card, filed.place
    else:
        kept = read(Kept, value)
        held, card, place = kept.operation, card_of(kept.operation), kept.place
        waits = waits_for(held)
    if (waits is None) is (place >= 0):
        raise UnknownWhole("an operation stands in a line that it does not belong to, or in none")
    return _Read(card, held, waits, place)


def _columns_of(block: Block) -> dict[str, Sequence[str]]:
    return {name: getattr(block, name) for name in _COLUMNS}


def _rows_of(tombstones: Iterator[Tombstone]) -> Iterator[list[list[Any]]]:
    """Many in one part, each an array of its members: there are as many as there was work
    in a year, and a start reads them all."""
    while rows := [[*_MEMBERS(one)] for one in itertools.islice(tombstones, ROWS)]:
        yield rows


def _tombstones(given: Iterator[Any], head: Head) -> Tombstones:
    blocks = tuple(_block(next(given, None)) for _ in range(head.blocks))
    first = head.next_buried - head.tombstones
    try:
        rows = _rows(given, head.tombstones + head.gone - sum(map(len, blocks)))
        return tombstones_of(first, head.gone, blocks, rows)
    except ValueError as error:
        raise UnknownWhole(str(error)) from error


def _block(part: Any) -> Block:
    """One whose columns are texts; what they say is read when somebody asks for it."""
    columns = cast("dict[str, Any]", part) if type(part) is dict else {}
    if columns.keys() != {*_COLUMNS}:
        raise UnknownWhole("no block of tombstones")
    for name, column in columns.items():
        if type(column) is not list or {*map(type, cast("list[object]", column))} != {str}:
            raise UnknownWhole(f"no column of tombstones: {name}")
    return Block(**{name: tuple(column) for name, column in columns.items()})


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


def _indexed(head: Head, kept: list[_Read], tombstones: Tombstones) -> State:
    cards = [one.card for one in kept]
    loose = [one.held for one in kept if isinstance(one.held, Operation)]
    messages = {(one.session_id, one.request_id): one.operation_id for one in cards}
    return State(
        epoch=head.epoch,
        boot_id=head.boot_id,
        position=head.position,
        latest=head.latest,
        accepted=head.accepted,
        forgotten=Map(((session, message), first) for session, message, first in head.forgotten),
        operations=Operations(Map((one.card.operation_id, one.held) for one in kept)),
        messages=Map(messages),
        calls=Map((call, one.operation_id) for one in cards for call in one.calls),
        effects=Map((effect, one.operation_id) for one in cards for effect in one.effects),
        moving=Map(_moving(loose)),
        leaves=sum(leaves(one) for one in loose),
        reconciling=Map(_reconciling(loose)),
        undead=Map(_undead(loose)),
        continued=Map((one.operation_id, one.continuation.n) for one in loose if one.continuation),
        newest_open=Map((one.session_id, one.operation_id) for one in cards if one.newest),
        approvals=Map(_approvals(loose)),
        unfinished=Map(Counter(one.session_id for one in loose if not one.finished)),
        blobs=Map(Counter(digest for one in cards for digest in one.blobs)),
        finished=line_of(_places(kept, Waits.EVICTION), head.next_finished),
        interrupted=line_of(_places(kept, Waits.ABANDONMENT), head.next_interrupted),
        tombstones=tombstones,
        catalogue=catalogue_of(cards),
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
