"""The whole fold as JSON types, and back: fold(all) is fold(state_from(whole(prefix)), rest).

A whole is a list of parts, so that it can be made and written a slice at a time while the
state moves on (a `State` never changes): a head; then every session, oldest first; every
operation in the order of acceptance; the blocks of tombstones, then the other tombstones,
oldest first. What can be found in those is not in it a second time: indexes are made again, by
the rules that made them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeVar, cast

import attrs
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override
from immutables import Map

from supervisor.core.cataloguing import catalogue_of
from supervisor.core.changed import changed
from supervisor.core.counting import tally_of
from supervisor.core.errors import SupervisorError
from supervisor.core.ids import AttemptKey, CallId, EffectId, OperationId, SessionId
from supervisor.core.line import line_of
from supervisor.core.record import Kind
from supervisor.core.session_state import Session, Tombstone
from supervisor.core.standing import Waits, waits_for
from supervisor.core.state import Operation, Said, State
from supervisor.core.strict import exactly, strict_converter
from supervisor.core.tombstones import Block, Tombstones, tombstones_of

VERSION = 1

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


class UnknownWhole(SupervisorError):  # noqa: N818  # says what was met, as trio names them
    """Not a whole that this version can read: altered, incomplete, or a newer one's."""


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


_CONVERTER = strict_converter()
_Part = TypeVar("_Part", Head, Session, Kept)


def _made_out(cls: type[Any], **members: Any) -> Any:
    return make_dict_unstructure_fn(cls, _CONVERTER, _cattrs_omit_if_default=True, **members)


def _made_in(cls: type[Any], **members: Any) -> Any:
    return make_dict_structure_fn(
        cls,
        _CONVERTER,
        _cattrs_forbid_extra_keys=True,
        _cattrs_detailed_validation=False,
        **members,
    )


def _operation_out(cls: type[Operation]) -> Any:
    return _made_out(cls, tally=override(omit=True))


def _operation_in(cls: type[Operation]) -> Callable[[Any, Any], Operation]:
    untallied = _made_in(cls, tally=override(omit=True))

    def structure(value: Any, _: Any) -> Operation:
        operation: Operation = untallied(value, cls)
        return changed(operation, tally=tally_of(operation))

    return structure


def _is_operation(cls: Any) -> bool:
    return cls is Operation


_CONVERTER.register_unstructure_hook_factory(_is_operation, _operation_out)
_CONVERTER.register_structure_hook_factory(_is_operation, _operation_in)
# Made when they are first needed: many a start reads no snapshot, and makes none for long.
_OUT: dict[type[Any], Any] = {}
_IN: dict[type[Any], Any] = {}


def _out_of(cls: type[Any]) -> Any:
    if cls not in _OUT:
        _OUT[cls] = _made_out(cls)
    return _OUT[cls]


def _in_of(cls: type[Any]) -> Any:
    if cls not in _IN:
        _IN[cls] = _made_in(cls)
    return _IN[cls]


ROWS = 256
_COLUMNS = ("operations", "messages", "rest")
_MEMBERS = attrgetter(*(one.name for one in attrs.fields(Tombstone)))
_TYPES = (str, str, str, str, int, int)


def whole(state: State) -> list[Any]:
    """All parts at once."""
    return list(parts(state))


def parts(state: State) -> Iterator[Any]:
    """The parts, made one at a time. Equal states give equal parts, in any process."""
    yield _out_of(Head)(_head(state))
    for session in sorted(state.sessions.values(), key=attrgetter("at", "session_id")):
        yield _out_of(Session)(session)
    lines = (state.finished.places, state.interrupted.places)
    for operation in sorted(state.operations.values(), key=attrgetter("serial")):
        one = operation.operation_id
        place = next((places[one] for places in lines if one in places), -1)
        yield _out_of(Kept)(Kept(operation, place))
    yield from map(_columns_of, state.tombstones.blocks)
    yield from _rows_of(state.tombstones.behind_blocks())


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


def state_from(values: Iterable[Any]) -> State:
    """The state whose parts these are, as JSON gives them back. Raises UnknownWhole."""
    given = iter(values)
    head = _head_from(next(given, None))
    sessions = [_part(Session, next(given, None)) for _ in range(head.sessions)]
    kept = [_part(Kept, next(given, None)) for _ in range(head.operations)]
    tombstones = _tombstones(given, head)
    if next(given, None) is not None:
        raise UnknownWhole("there is more than the head says")
    state = _indexed(head, kept, tombstones)
    if len(state.operations) != len(kept):
        raise UnknownWhole("an operation is in it twice")
    by_id = Map((one.session_id, one) for one in sessions)
    if len(by_id) != len(sessions):
        raise UnknownWhole("a session is in it twice")
    return attrs.evolve(state, sessions=by_id)


def _head_from(value: Any) -> Head:
    """The version comes first: of a newer one nothing else is looked at."""
    try:
        version = exactly(int)(exactly(dict)(value, None).get("whole"), None)
    except TypeError as error:
        raise UnknownWhole(f"it does not begin with a head: {error}") from error
    if version != VERSION:
        raise NewerWhole(f"version {version} is not known to this version, which knows {VERSION}")
    return _part(Head, value)


def _part(cls: type[_Part], value: Any) -> _Part:
    try:
        part: _Part = _in_of(cls)(exactly(dict)(value, None), cls)
    except Exception as error:
        raise UnknownWhole(f"a part ({cls.__name__}) does not read back: {error}") from error
    return part


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


def _indexed(head: Head, kept: list[Kept], tombstones: Tombstones) -> State:
    operations = [one.operation for one in kept]
    waiting = [(waits_for(one.operation), one) for one in kept]
    if any((waits is None) is (one.place >= 0) for waits, one in waiting):
        raise UnknownWhole("an operation stands in a line that it does not belong to, or in none")
    unfinished: dict[SessionId, int] = {}
    for one in operations:
        if not one.finished:
            unfinished[one.session_id] = unfinished.get(one.session_id, 0) + 1
    messages = {(one.session_id, one.request_id): one.operation_id for one in operations}
    return State(
        epoch=head.epoch,
        boot_id=head.boot_id,
        position=head.position,
        latest=head.latest,
        accepted=head.accepted,
        forgotten=Map(((session, message), first) for session, message, first in head.forgotten),
        operations=Map((one.operation_id, one) for one in operations),
        messages=Map(messages),
        calls=Map((call, o.operation_id) for o in operations for call in o.call_order),
        effects=Map((effect, o.operation_id) for o in operations for effect in o.effects),
        moving=Map(_moving(operations)),
        leaves=sum(_leaves(one) for one in operations),
        reconciling=Map(_reconciling(operations)),
        undead=Map(_undead(operations)),
        continued=Map(
            (one.operation_id, one.continuation.n) for one in operations if one.continuation
        ),
        newest_open=Map(
            (one.session_id, one.operation_id)
            for one in operations
            if one.kind is Kind.OPEN and one.followed_by is None
        ),
        approvals=Map(_approvals(operations)),
        unfinished=Map(unfinished),
        blobs=Map(Counter(blob.digest for one in operations for blob in one.blobs())),
        finished=line_of(_places(waiting, Waits.EVICTION), head.next_finished),
        interrupted=line_of(_places(waiting, Waits.ABANDONMENT), head.next_interrupted),
        tombstones=tombstones,
        catalogue=catalogue_of(operations),
    )


def _places(
    waiting: Iterable[tuple[Waits | None, Kept]], line: Waits
) -> Iterator[tuple[int, OperationId]]:
    return ((one.place, one.operation.operation_id) for waits, one in waiting if waits is line)


def _moving(operations: Iterable[Operation]) -> Iterator[tuple[CallId, OperationId]]:
    for operation in operations:
        for call in operation.ordered_calls():
            if call.moves:
                yield call.call_id, operation.operation_id


def _approvals(operations: Iterable[Operation]) -> Iterator[tuple[OperationId, str]]:
    for operation in operations:
        pending = operation.program.pending if operation.program is not None else None
        if pending is not None and not operation.cancel_requested and not operation.lost:
            yield operation.operation_id, pending.node


def _leaves(operation: Operation) -> int:
    tries = (one for effect in operation.effects.values() for one in effect.tries)
    return sum(one.outcome is Said.ANNOUNCED for one in tries)


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
