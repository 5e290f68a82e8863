"""Events: each durable frame once, from wherever the client is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import trio

from supervisor.api import routes
from supervisor.api.wire import NDJSON, dumps, time_text
from supervisor.core.errors import Refusal
from supervisor.core.record import (
    KIND_OF,
    OperationEvicted,
    OperationRecord,
    Record,
    SessionEnded,
    TombstoneExpired,
    TombstoneRenewed,
)
from supervisor.journal.records import to_document
from supervisor.server import Response
from supervisor.service.context import Caller, Context, Denied

# So that a proxy or a client sees that the stream is alive.
_IDLE_S = 15
# Nobody's in particular: it may be about anybody's.
_HOUSEKEEPING = OperationEvicted | TombstoneExpired | TombstoneRenewed | SessionEnded


async def get_events(context: Context, command: routes.GetEvents, caller: Caller) -> Response:
    await context.read()
    events = context.engine.events
    if command.operation_id is not None:
        # Of one operation: as far back as is kept, which is what a timeline can use.
        context.operation(command.operation_id, caller)
    elif command.after < events.gone:
        extra = {"earliest": events.earliest}
        detail = f"events are kept from position {events.earliest}"
        raise Denied(Refusal("EventsExpired", detail, extra=extra))
    return Response(200, {"content-type": NDJSON}, _stream(context, command, context.whose(caller)))


async def _stream(
    context: Context, command: routes.GetEvents, uid: int | None
) -> AsyncIterator[bytes]:
    """Each frame's facts once; an empty line when nothing happens for a while."""
    only, events = command.operation_id, context.engine.events
    position = max(command.after, events.gone)
    while True:
        said = False
        for part in events.after(position):
            lines = bytearray()
            for event in part:
                position = event.position
                # What does not have the id in it need not be read: it is not about it.
                about_it = only is None or only.encode() in event.payload
                if about_it and (uid is None or event.owner in {uid, None}):
                    shown = event.records if uid is None else _of_clients(event.records)
                    lines += _event_lines(position, shown, only)
            if lines:
                said = True
                yield bytes(lines)
            await trio.lowlevel.checkpoint()
        # There may be more meanwhile; from here on to the wait nothing else happens.
        if said or events.latest > position:
            continue
        if not command.follow:
            return
        with trio.move_on_after(_IDLE_S) as idle:
            await events.changed()
        if idle.cancelled_caught:
            yield b"\n"


def _of_clients(records: Iterable[Record]) -> list[Record]:
    """Without the daemon's own housekeeping."""
    return [one for one in records if not isinstance(one, _HOUSEKEEPING)]


def _event_lines(position: int, records: Iterable[Record], only: str | None) -> bytes:
    lines: list[bytes] = []
    for record in records:
        about = record.operation_id if isinstance(record, OperationRecord) else None
        if only is not None and about != only:
            continue
        document = to_document(record)
        document.pop("k")
        at = document.pop("at")
        head = {"position": position, "at": time_text(at), "type": KIND_OF[type(record)]}
        lines.append(dumps({**head, "operation_id": about, **document}) + b"\n")
    return b"".join(lines)
