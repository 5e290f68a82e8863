"""Lists: newest first, filtered, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from supervisor.api.command import Page
from supervisor.api.routes import ListEffects, ListOperations
from supervisor.api.views import effect_view, operation_view
from supervisor.api.wire import time_text
from supervisor.core.ids import OperationId, SessionId
from supervisor.core.lineage import needs_of
from supervisor.core.moment import Moment
from supervisor.core.standing import operation_state
from supervisor.core.state import Effect, Operation, State

Visible = Callable[[Operation], bool]


def operations(
    state: State, command: ListOperations, visible: Visible, now: Moment
) -> dict[str, Any]:
    """A page of operations; the cursor is the serial of the last one shown."""
    since = _since(command.since)
    chosen: list[Operation] = []
    for operation in _newest_first(state):
        if command.page.cursor is not None and operation.serial >= command.page.cursor:
            continue
        if visible(operation) and operation.at >= since and _fits(operation, command, now):
            chosen.append(operation)
            if len(chosen) > command.page.limit:
                break
    shown = chosen[: command.page.limit]
    more = len(chosen) > command.page.limit
    return {
        "items": [operation_view(operation, now) for operation in shown],
        "next_cursor": str(shown[-1].serial) if more else None,
    }


def _newest_first(state: State) -> list[Operation]:
    return sorted(state.operations.values(), key=lambda o: o.serial, reverse=True)


def _since(text: str | None) -> int:
    """Nanoseconds of an RFC 3339 time; what is none reads as the beginning."""
    if text is None:
        return 0
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1_000) * 1_000_000
    except ValueError:
        return 0


def _fits(operation: Operation, command: ListOperations, now: Moment) -> bool:
    if command.session is not None and operation.session_id != command.session:
        return False
    if command.request_id is not None and operation.request_id != command.request_id:
        return False
    if command.handler is not None and all(
        call.terms.handler != command.handler for call in operation.ordered_calls()
    ):
        return False
    if command.needs is not None and all(
        needs_of(operation, effect, now).value != command.needs
        for effect in operation.effects.values()
    ):
        return False
    return command.state is None or operation_state(operation).value in command.state.split(",")


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
    start = page.cursor or 0
    messages = [
        _message(operation.request_id, operation.operation_id, operation.kind.value, operation)
        for operation in _newest_first(state)
        if operation.session_id == session_id
    ] + [
        _message(gone.request_id, gone.operation_id, None, None)
        for gone in sorted(state.tombstones.values(), key=lambda t: -t.at)
        if gone.session_id == session_id
    ]
    more = len(messages) > start + page.limit
    return {
        **_session(state, session_id),
        "messages": messages[start : start + page.limit],
        "next_cursor": str(start + page.limit) if more else None,
    }


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


def effects(state: State, command: ListEffects, visible: Visible, now: Moment) -> dict[str, Any]:
    """A page of effects; the cursor counts those before it."""
    start = command.page.cursor or 0
    end = start + command.page.limit
    chosen: list[dict[str, Any]] = []
    seen = 0
    for operation, effect in _effects(state, visible):
        if not _effect_fits(operation, effect, command, now):
            continue
        if start <= seen < end:
            chosen.append(effect_view(operation, effect, now))
        seen += 1
        if seen > end:
            break
    return {"items": chosen, "next_cursor": str(end) if seen > end else None}


def _effects(state: State, visible: Visible) -> Iterator[tuple[Operation, Effect]]:
    for operation in _newest_first(state):
        if visible(operation):
            newest = sorted(operation.ordered_effects(), key=lambda e: -e.first_at)
            yield from ((operation, effect) for effect in newest)


def _effect_fits(operation: Operation, effect: Effect, command: ListEffects, now: Moment) -> bool:
    if command.outcome is not None and effect.outcome.value != command.outcome:
        return False
    call = operation.calls[effect.newest.call_id]
    if command.handler is not None and call.terms.handler != command.handler:
        return False
    return command.needs is None or needs_of(operation, effect, now).value == command.needs
