"""Lists: newest first, filtered, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from supervisor.api.routes import ListEffects, ListOperations
from supervisor.api.views import effect_view, operation_view
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
