"""What `journal repair` says and does: the loss first, and only then, and only that, given up."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from supervisor.cli.exits import Exit
from supervisor.cli.look import Look, escape
from supervisor.cli.output import Shared
from supervisor.cli.text import fields, plural
from supervisor.core.errors import IllegalTransition
from supervisor.core.evolve import fold
from supervisor.core.ids import SessionId
from supervisor.core.record import By, JournalRepaired, OperationAccepted, Record
from supervisor.core.state import State
from supervisor.journal.codec import Frame, TooNew
from supervisor.journal.content import state_in
from supervisor.journal.records import UnknownRecord, decode
from supervisor.journal.repair import Loss, examine, repair
from supervisor.journal.snapshot import BadSnapshot

DAMAGED = 2
REASON_MAX = 500
_SHOWN = 20


def look_at(given: Shared, directory: Path) -> int:
    """The dry run: what is lost and whom it touches. Changes nothing."""
    loss = examine(directory)
    if loss is None:
        given.emit(
            {"directory": str(directory), "damage": None}, lambda _: "nothing is damaged", []
        )
        return Exit.DONE
    made = document(loss, directory)
    given.emit(made, lambda look: shown(loss, made, look), made["calls"])
    return DAMAGED


def repair_it(given: Shared, directory: Path, loss: tuple[int, int], reason: str) -> int:
    """Give up exactly `loss`, in the name of who runs this."""
    found = examine(directory)
    requests = () if found is None else tuple(messages_behind(found))
    by = By(uid=os.getuid(), pid=os.getpid())
    act = JournalRepaired(time.time_ns(), *loss, by, reason[:REASON_MAX], requests)
    done = repair(directory, act)
    kept = str(directory / done.kept)
    given.emit(
        {"directory": str(directory), "segment": done.segment, "kept": kept},
        lambda look: (
            f"{look.mark('ok')} positions {loss[0]}..{loss[1]} are given up\n"
            f"  What was found is in {escape(kept)}.\n"
            "  Start the daemon; `effectctl status` says what is unknown."
        ),
        [done.segment],
    )
    return Exit.DONE


def document(loss: Loss, directory: Path) -> dict[str, Any]:
    """The loss as JSON values.

    `calls` and `effects` are those that become unknown; `requests` were accepted behind the
    damage and are forgotten, but for being refused. All as far as it can be read.
    """
    state = _folded(loss)
    unfinished = [one for one in state.operations.loose.values() if not one.finished]
    beyond = [record for frame in loss.beyond for record in _records(frame)]
    return {
        "directory": str(directory),
        "damage": dict(loss.damage._asdict()),
        "first": loss.first,
        "last": loss.last,
        "files": [one.name for one in loss.files],
        "calls": sorted({c for one in unfinished for c in one.calls} | _named(beyond, "call_id")),
        "effects": sorted(
            {e for one in unfinished for e in one.effects} | _named(beyond, "effect_id")
        ),
        "requests": sorted(request_id for _, request_id in messages_behind(loss)),
    }


def messages_behind(loss: Loss) -> Iterator[tuple[SessionId, str]]:
    """Every message that was accepted behind the damage, as far as it can be read there; and what
    an earlier repair whose record is given up too had said of those that it gave up."""
    for frame in loss.beyond:
        for record in _records(frame):
            if isinstance(record, OperationAccepted):
                yield record.session_id, record.request_id
            if isinstance(record, JournalRepaired):
                yield from record.requests


def shown(loss: Loss, made: dict[str, Any], look: Look) -> str:
    """The loss for people, and the command that accepts it."""
    pairs = [
        ("proven", f"everything up to position {loss.first - 1}; it stays"),
        ("lost", f"positions {loss.first}..{loss.last}, at least"),
        ("copied", ", ".join(made["files"])),
        ("unknown calls", _some(made["calls"])),
        ("effects", _some(made["effects"])),
        ("forgotten", _some(made["requests"])),
    ]
    lines = [
        f"{look.mark('wrong')} {escape(loss.damage.describe())}",
        *("  " + line for line in fields(pairs).split("\n")),
        f"  Restore {loss.damage.file} from a backup if there is one: that loses nothing.",
        "  Else the calls above become unknown and are not run again. A forgotten request is",
        "  refused when it is sent again; one that cannot be read any more would be a new one.",
    ]
    accept = f"--accept-loss {loss.first}..{loss.last} --reason TEXT"
    lines.append(f"  effectctl journal repair {escape(made['directory'])} {accept}")
    return "\n".join(lines)


def _some(names: list[str]) -> str:
    if not names:
        return "none that can be read"
    more = len(names) - _SHOWN
    text = ", ".join(map(escape, names[:_SHOWN]))
    return f"{text} and {plural(more, 'more', 'more')}" if more > 0 else text


def _folded(loss: Loss) -> State:
    try:
        state = State() if loss.began is None else state_in(loss.began.content)
    except (BadSnapshot, TooNew):
        return State()
    for frame in loss.proven:
        if frame.position <= state.position:
            continue
        try:
            state = fold(state, frame.position, decode(frame.payload))
        except (UnknownRecord, IllegalTransition):
            return state  # the daemon will say so; here it is one more thing not known
    return state


def _records(frame: Frame) -> tuple[Record, ...]:
    """Of a frame behind the damage; what cannot be read names nobody."""
    try:
        return decode(frame.payload)
    except UnknownRecord:
        return ()


def _named(records: Iterable[Record], field: str) -> set[str]:
    return {str(getattr(one, field)) for one in records if hasattr(one, field)}
