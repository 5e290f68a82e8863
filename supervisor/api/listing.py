"""Lists: newest first, filtered, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from supervisor.api.command import Page
from supervisor.api.routes import ListEffects, ListOperations
from supervisor.api.views import effect_view, operation_view
from supervisor.api.wire import time_text
from supervisor.core.catalogue import UNRESOLVED
from supervisor.core.ids import OperationId, SessionId
from supervisor.core.lineage import Needs, needs_of
from supervisor.core.moment import Moment
from supervisor.core.ordered import END, Ordered, ordered
from supervisor.core.standing import operation_state
from supervisor.core.state import Effect, Operation, State

Groups = list[list[Ordered]]
# More effects than an operation can have.
_PLACE_BITS = 32


def operations(
    state: State, command: ListOperations, owner: int | None, now: Moment
) -> dict[str, Any]:
    """A page of operations: of that owner, None for everybody's. The cursor is the serial of
    the last one shown."""
    since, limit = _since(command.since), command.page.limit
    chosen: list[Operation] = []
    for one in state.newest(_wanted(state, command, owner), command.page.cursor):
        operation = state.operations[one]
        if operation.at < since:
            break  # so are all that were accepted before it
        if _needed(operation, command.needs, now):
            chosen.append(operation)
            if len(chosen) > limit:
                break
    shown = chosen[:limit]
    return {
        "items": [operation_view(operation, now) for operation in shown],
        "next_cursor": str(shown[-1].serial) if len(chosen) > limit else None,
    }


def _wanted(state: State, command: ListOperations, owner: int | None) -> Groups:
    catalogue = state.catalogue
    groups: Groups = catalogue.owned(owner)
    if command.session is not None:
        groups.append([catalogue.of("session", command.session)])
    if command.handler is not None:
        groups.append([catalogue.of("handler", command.handler)])
    if command.state is not None:
        groups.append([catalogue.of("state", one) for one in command.state.split(",")])
    if command.request_id is not None:
        groups.append([_of_message(state, command.request_id)])
    groups += _needing(state, command.needs)
    return groups


def _needing(state: State, needs: str | None) -> Groups:
    """Where effects that need this can be: only an unresolved one waits for anybody."""
    if needs in {None, Needs.NOTHING.value}:
        return []
    known = any(needs == one.value for one in Needs)
    return [[state.catalogue.of("outcome", UNRESOLVED)] if known else []]


def _of_message(state: State, message_id: str) -> Ordered:
    """The operations of this message, in whichever session."""
    found = (
        state.messages.get((SessionId(str(session)), message_id))
        for kind, session in state.catalogue.facets
        if kind == "session"
    )
    kept = (state.operations.get(one) for one in found if one is not None)
    return ordered(one.serial for one in kept if one is not None)


def _since(text: str | None) -> int:
    """Nanoseconds of an RFC 3339 time; what is none reads as the beginning."""
    if text is None:
        return 0
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1_000) * 1_000_000
    except ValueError:
        return 0


def _needed(operation: Operation, needs: str | None, now: Moment) -> bool:
    return needs is None or any(
        needs_of(operation, effect, now).value == needs for effect in operation.effects.values()
    )


# --- sessions ---------------------------------------------------------------------------


def session_page(state: State, page: Page, sees: Callable[[int], bool]) -> dict[str, Any]:
    """A page of created sessions, newest first, without their messages."""
    newest = sorted(state.sessions.values(), key=lambda s: (-s.at, s.session_id))
    chosen = [one for one in newest if sees(one.by.uid)]
    start = page.cursor or 0
    shown = chosen[start : start + page.limit]
    more = len(chosen) > start + page.limit
    return {
        "items": [_session(state, one.session_id) for one in shown],
        "next_cursor": str(start + page.limit) if more else None,
    }


def session_view(state: State, session_id: SessionId, page: Page | None = None) -> dict[str, Any]:
    """A session with a page of its messages, newest first; evicted ones stand behind."""
    page = page or Page(100, None)
    found = list(islice(_messages(state, session_id, page.cursor), page.limit + 1))
    shown = found[: page.limit]
    return {
        **_session(state, session_id),
        "messages": [message for _, message in shown],
        "next_cursor": str(shown[-1][0]) if len(found) > page.limit else None,
    }


def _messages(
    state: State, session_id: SessionId, cursor: int | None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each with the cursor of what stands behind it: a kept operation's serial; above all of
    these, how many evicted ones stand before."""
    if cursor is None or cursor < END:
        kept = state.newest([[state.catalogue.of("session", session_id)]], cursor)
        for operation in (state.operations[one] for one in kept):
            kind = operation.kind.value
            message = _message(operation.request_id, operation.operation_id, kind, operation)
            yield operation.serial, message
    gone = (one for one in reversed(state.tombstones) if one.session_id == session_id)
    past = len(state.tombstones)
    start = min(cursor - END, past) if cursor is not None and cursor >= END else 0
    for n, one in enumerate(islice(gone, start, None), start + 1):
        yield END + n, _message(one.request_id, one.operation_id, None, None)


def _session(state: State, session_id: SessionId) -> dict[str, Any]:
    known = state.sessions.get(session_id)
    return {
        "session_id": session_id,
        "request_id": known.request_id if known is not None else None,
        "uid": known.by.uid if known is not None else int(session_id.removeprefix("uid:")),
        "created_at": time_text(known.at) if known is not None else None,
        "labels": dict(known.labels) if known is not None else {},
        "last_message_at": time_text(known.message_at or None) if known is not None else None,
        "kept": known.kept if known is not None else None,
        "unfinished": state.unfinished.get(session_id, 0),
    }


def _message(
    message_id: str, operation_id: OperationId, kind: str | None, operation: Operation | None
) -> dict[str, Any]:
    """One message and its operation; of an evicted one only the names are left."""
    return {
        "message_id": message_id,
        "operation_id": operation_id,
        "kind": kind,
        "state": operation_state(operation).value if operation is not None else "expired",
    }


# --- effects ----------------------------------------------------------------------------


def effects(state: State, command: ListEffects, owner: int | None, now: Moment) -> dict[str, Any]:
    """A page of effects, as of operations; the cursor is the place of the last one shown."""
    chosen: list[tuple[int, dict[str, Any]]] = []
    for place, operation, effect in _effects(state, command, owner):
        if _effect_fits(operation, effect, command, now):
            chosen.append((place, effect_view(operation, effect, now)))
            if len(chosen) > command.page.limit:
                break
    shown = chosen[: command.page.limit]
    return {
        "items": [view for _, view in shown],
        "next_cursor": str(shown[-1][0]) if len(chosen) > command.page.limit else None,
    }


def _effects(
    state: State, command: ListEffects, owner: int | None
) -> Iterator[tuple[int, Operation, Effect]]:
    """Those behind the cursor, each with its place: its operation's serial, and how many of
    that operation's come after it."""
    catalogue, cursor = state.catalogue, command.page.cursor
    groups = catalogue.owned(owner)
    if command.outcome is not None:
        groups.append([catalogue.of("outcome", command.outcome)])
    if command.handler is not None:
        groups.append([catalogue.of("handler", command.handler)])
    groups += _needing(state, command.needs)
    below = None if cursor is None else (cursor >> _PLACE_BITS) + 1
    for one in state.newest(groups, below):
        operation = state.operations[one]
        newest = sorted(operation.ordered_effects(), key=lambda e: -e.first_at)
        for n, effect in enumerate(newest, 1):
            place = operation.serial << _PLACE_BITS | (len(newest) - n)
            if cursor is None or place < cursor:
                yield place, operation, effect


def _effect_fits(operation: Operation, effect: Effect, command: ListEffects, now: Moment) -> bool:
    if command.outcome is not None and effect.outcome.value != command.outcome:
        return False
    call = operation.calls[effect.newest.call_id]
    if command.handler is not None and call.terms.handler != command.handler:
        return False
    return command.needs is None or needs_of(operation, effect, now).value == command.needs
