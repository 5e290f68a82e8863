"""What every command and its reader are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from frozen import frozen
from supervisor.api.fields import Fields, Invalid, Query

WAIT_MAX_MS = 60_000
# Digits; the largest is an effect's, a serial and 32 bits.
_CURSOR_MOST = 30


@frozen
class Command:
    """What is asked. `wait_ms` holds the answer until it is final or the time is up."""


@frozen
class Page:
    limit: int
    cursor: int | None


Reader = Callable[[Sequence[str], Query, Fields], Command]


def wait_of(fields: Fields) -> int:
    wait: int = fields.integer("wait_ms", 0, most=WAIT_MAX_MS)
    return wait


def query_wait(query: Query) -> int:
    return query.integer("wait_ms", 0, most=WAIT_MAX_MS)


def page_of(query: Query) -> Page:
    cursor = query.text("cursor")
    if cursor is not None and not (
        cursor.isascii() and cursor.isdigit() and len(cursor) <= _CURSOR_MOST
    ):
        raise Invalid("query parameter 'cursor' must be a next_cursor as it was given")
    return Page(
        query.integer("limit", 100, least=1, most=1_000),
        int(cursor) if cursor is not None else None,
    )
