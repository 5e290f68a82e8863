"""What a journal adds up to at one of its positions: the daemon's own fold, nothing outside.

A journal is folded from the newest snapshot before the spot, else from its beginning; what
an offline reader cannot know is taken as the records have it: handlers are as their calls
began with them, and there is no time margin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from supervisor.api.recovery_view import recovery_view
from supervisor.api.views import call_view, operation_view
from supervisor.cli.exits import Exit
from supervisor.cli.talk import CommandError, Document
from supervisor.cli.when import Spot
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve import fold
from supervisor.core.moment import Moment
from supervisor.core.projection import project
from supervisor.core.record import Record
from supervisor.core.state import Operation, State
from supervisor.journal.codec import TooNew
from supervisor.journal.content import state_in
from supervisor.journal.errors import JournalCorrupt, JournalError, JournalTooNew
from supervisor.journal.read import begins_late, read_frames, snapshots, vouched_for
from supervisor.journal.records import UnknownRecord, decode
from supervisor.journal.snapshot import BadSnapshot, Snapshot

NS_PER_MS = 1_000_000


class Past(NamedTuple):
    """`state` after `position`; `now` is the moment it is looked at from.

    `problem` is what stopped the reading before the spot that was asked for.
    """

    state: State
    position: int
    now: Moment
    problem: Exception | None


class Told(NamedTuple):
    """One operation with its calls and its recovery, in the API's shapes."""

    operation: Document
    calls: list[Document]
    recovery: Document


def past(directory: Path, at: Spot | None, now: Moment) -> Past:
    """The state at a spot, or at the end. Raises CommandError for a spot it does not hold.

    At a time means before the first decision that is later: what was known by then.
    """
    seen = _past(directory, at, now, snapshots)
    # A snapshot that the damage leaves unproven shows nothing.
    return seen if seen.problem is None else _past(directory, at, now, vouched_for)


def _past(
    directory: Path, at: Spot | None, now: Moment, among: Callable[[Path], Iterable[Snapshot]]
) -> Past:
    problem, ended = None, False
    try:
        state = _begun(directory, at, among)
    except JournalError as error:
        raise CommandError(str(error), error.fix, Exit.FAILED) from error
    try:
        for position, records in _frames(directory, state.position):
            if at is not None and _behind(at, position, records):
                ended = True
                break
            state = fold(state, position, records)
    except (JournalCorrupt, UnknownRecord, IllegalTransition) as error:
        problem = error
    except JournalError as error:
        raise CommandError(str(error), error.fix, Exit.FAILED) from error
    if at is not None and problem is None:
        _refuse_nowhere(state, ended=ended)
    return Past(state, state.position, _moment(state, at, now), problem)


def _begun(directory: Path, at: Spot | None, among: Callable[[Path], Iterable[Snapshot]]) -> State:
    """What to fold from: a snapshot, or nothing. One that does not read back is passed over."""
    for one in among(directory):
        if at is not None and at.position is not None and one.point.position > at.position:
            continue
        try:
            state = state_in(one.content)
        except BadSnapshot:
            continue
        except TooNew as error:
            raise JournalTooNew(one.name, str(error)) from error
        if at is None or at.at is None or state.latest // NS_PER_MS <= at.at // NS_PER_MS:
            return state
    if begins_late(directory):
        _refuse_nowhere(State(), ended=True)
    return State()


def _frames(directory: Path, after: int) -> Iterator[tuple[int, tuple[Record, ...]]]:
    # What a later line does not attest yet is kept by the next start: it counts.
    for frame in read_frames(directory, unattested=True):
        if frame.position <= after:
            continue
        yield frame.position, decode(frame.payload)


def _behind(at: Spot, position: int, records: tuple[Record, ...]) -> bool:
    if at.position is not None:
        return position > at.position
    assert at.at is not None
    # Times are printed in whole milliseconds: what is printed as this time is not later.
    return bool(records) and records[0].at // NS_PER_MS > at.at // NS_PER_MS


def _refuse_nowhere(state: State, *, ended: bool) -> None:
    if state.position == 0 and ended:
        raise CommandError(
            "the journal begins after that",
            "`effectctl journal dump` shows its first records.",
            Exit.NOT_FOUND,
        )


def _moment(state: State, at: Spot | None, now: Moment) -> Moment:
    """Now; of a past, its own time, on no boot's clock that anybody still has."""
    if at is None:
        return now
    return Moment(at.at if at.at is not None else state.latest, 0, "")


def told(seen: Past, operation: Operation) -> Told:
    """What the API would have answered then."""
    now = seen.now
    digests = {call.terms.handler: call.terms.digest for call in operation.ordered_calls()}
    projection = project(operation, now, margin_ms=0, digests=digests)
    calls = [call_view(operation, call, now) for call in operation.ordered_calls()]
    return Told(operation_view(operation, now), calls, recovery_view(operation, projection, now))


def newest_first(state: State) -> list[Operation]:
    """Its operations as lists show them."""
    return sorted(state.operations.values(), key=lambda one: one.serial, reverse=True)


def history(directory: Path, operation_id: str, last: int) -> list[dict[str, Any]]:
    """An operation's events up to a position, as the daemon's stream tells them."""
    from supervisor.cli.facts import fact
    from supervisor.journal.read import entries
    from supervisor.journal.select import OPERATION, Selection

    wanted = Selection(last=last, about=((OPERATION, operation_id),))
    found: list[dict[str, Any]] = []
    try:
        for entry in entries(directory):
            if wanted.ended(entry):
                break
            found += [fact(entry.position, record) for record in wanted.takes(entry) or ()]
    except JournalCorrupt:
        pass  # it was met before, and is told
    return found
