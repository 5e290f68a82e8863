"""`effectctl journal replay`: what the records add up to, now or at any earlier moment."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from supervisor.cli.exits import Exit
from supervisor.cli.offline import Source, configured
from supervisor.cli.output import Shared, shared
from supervisor.cli.place import DIRECTORY, cannot_go_on, place_of

if TYPE_CHECKING:
    from supervisor.cli.past import Past


@click.command()
@DIRECTORY
@click.option("--operation", metavar="ID", help="Only this operation, whole, with its recovery.")
@click.option(
    "--at",
    metavar="TIME|POSITION",
    help="As it was known then: a position, an ISO time, 14:05 (today, UTC), -2h.",
)
@shared
@configured
def replay(
    given: Shared,
    source: Source,
    /,
    *,
    directory: Path | None,
    operation: str | None,
    at: str | None,
) -> int:
    """Fold the records into operations, as the daemon would; nothing outside is touched.

    Each comes with its recovery: what is allowed, and what is not and why. (Exit 2:
    damaged; what is proven was folded.)
    """
    from sandbox.census import boot_id
    from supervisor.cli.past import past
    from supervisor.cli.when import spot
    from supervisor.core.moment import Moment

    place = place_of(source, directory)
    now = Moment(time.time_ns(), time.monotonic_ns(), boot_id())
    seen = past(place, None if at is None else spot(at, "--at", now.wall), now)
    if operation is None:
        _all(given, seen)
    else:
        _one(given, seen, place, operation)
    if seen.problem is None:
        return Exit.DONE
    return cannot_go_on(given, seen.problem, damaged=True)


def _all(given: Shared, seen: Past) -> None:
    from supervisor.api.wire import time_text
    from supervisor.cli.past import newest_first, told
    from supervisor.cli.render_past import head, operation_list

    shown = [told(seen, one) for one in newest_first(seen.state)]
    items = [{**one.operation, "recovery": one.recovery} for one in shown]
    as_of, newest = time_text(seen.now.wall), time_text(seen.state.latest or None)
    given.emit(
        {"position": seen.position, "as_of": as_of, "newest_at": newest, "items": items},
        lambda look: f"{head(seen.position, as_of, newest)}\n\n{operation_list(items, look)}",
        [str(one["operation_id"]) for one in items],
    )


def _one(given: Shared, seen: Past, place: Path, text: str) -> None:
    from supervisor.api.wire import time_text
    from supervisor.cli.ids import among
    from supervisor.cli.past import history, told
    from supervisor.cli.render_past import head, whole
    from supervisor.core.ids import OperationId

    operation_id = among("operation", text, lambda: list(seen.state.operations))
    known = seen.state.operations.get(OperationId(operation_id))
    if known is None:
        raise _not_yet(operation_id, seen.position)
    one = told(seen, known)
    document = {**one.operation, "recovery": one.recovery}
    as_of, newest = time_text(seen.now.wall), time_text(seen.state.latest or None)
    given.emit(
        document,
        lambda look: (
            f"{head(seen.position, as_of, newest)}\n\n"
            + whole(document, one.calls, history(place, operation_id, seen.position), look)
        ),
        [operation_id],
    )


def _not_yet(operation_id: str, position: int) -> Exception:
    from supervisor.cli.talk import CommandError

    return CommandError(
        f"no operation {operation_id} at position {position}",
        f"`effectctl journal dump --operation {operation_id}` shows where it begins.",
        Exit.NOT_FOUND,
    )
