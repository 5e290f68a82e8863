"""`effectctl journal dump` and `tail`: the records, chosen and in order."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import click

from supervisor.cli.exits import Exit
from supervisor.cli.offline import Source, configured
from supervisor.cli.output import Shared, shared
from supervisor.cli.place import DIRECTORY, cannot_go_on, place_of
from supervisor.cli.talk import CommandError

if TYPE_CHECKING:
    from supervisor.cli.ids import Kind
    from supervisor.journal.read import Entry
    from supervisor.journal.select import Selection

P = ParamSpec("P")
R = TypeVar("R")
GIVEN = TypeVar("GIVEN")
Chosen = tuple["Entry", list[Any]]

_OPTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--operation", {"metavar": "ID", "help": "Only records of this operation."}),
    ("--call", {"metavar": "ID", "help": "Only records of this call."}),
    ("--effect", {"metavar": "ID", "help": "Only records of this effect."}),
    ("--kind", {"metavar": "KIND", "multiple": True, "help": "Only this kind; may be repeated."}),
    ("--since", {"metavar": "TIME", "help": "From this time on: ISO, 14:05 (today, UTC), -2h."}),
    ("--until", {"metavar": "TIME", "help": "Before this time."}),
    ("--from", {"metavar": "POSITION", "type": click.IntRange(min=0), "help": "From here on."}),
    ("--to", {"metavar": "POSITION", "type": click.IntRange(min=0), "help": "Up to here."}),
)


def chosen(
    function: Callable[Concatenate[GIVEN, dict[str, Any], P], R],
) -> Callable[Concatenate[GIVEN, P], R]:
    """Give a command the filters, and pass it what they were given."""
    names = [flag[2:] for flag, _ in _OPTIONS]

    @wraps(function)
    def wrapper(given: GIVEN, /, *args: P.args, **kwargs: P.kwargs) -> R:
        wanted = {name: kwargs.pop(f"wanted_{name}") for name in names}
        return function(given, wanted, *args, **kwargs)

    for flag, settings in reversed(_OPTIONS):
        wrapper = click.option(flag, f"wanted_{flag[2:]}", **settings)(wrapper)
    return wrapper


@click.command()
@DIRECTORY
@click.option("-f", "--follow", is_flag=True, help="Go on as records become durable.")
@shared
@configured
@chosen
def dump(
    given: Shared,
    wanted: dict[str, Any],
    source: Source,
    /,
    *,
    directory: Path | None,
    follow: bool,
) -> int:
    """Every record, oldest first (exit 2: damaged, printed what is proven).

    A stream: -o json prints one document a line, as jsonl does, each a line of the journal
    as it is on disk, with file and offset. Times are UTC.
    """
    return _print(given, wanted, place_of(source, directory), follow=follow, last=None)


@click.command()
@DIRECTORY
@click.option("-n", "--lines", type=click.IntRange(min=0), default=10, show_default=True)
@click.option("-f", "--follow", is_flag=True, help="Go on as records become durable.")
@shared
@configured
@chosen
def tail(
    given: Shared,
    wanted: dict[str, Any],
    source: Source,
    /,
    *,
    directory: Path | None,
    lines: int,
    follow: bool,
) -> int:
    """The newest decisions; with -f also those that follow, until Ctrl-C."""
    return _print(given, wanted, place_of(source, directory), follow=follow, last=lines)


def _print(
    given: Shared, wanted: dict[str, Any], place: Path, *, follow: bool, last: int | None
) -> int:
    from supervisor.journal.errors import JournalCorrupt, JournalError

    shown = _Shown(given)
    try:
        selection = _selection(wanted, place, given.look.now_ns)
        if follow:
            _follow(place, selection, shown, last)
        else:
            shown.all(_take(_quietly(place), selection), last)
    except JournalError as error:
        shown.rest()
        return cannot_go_on(given, error, damaged=isinstance(error, JournalCorrupt))
    except KeyboardInterrupt:
        if not follow:
            return Exit.INTERRUPTED
    return Exit.DONE


def _quietly(place: Path) -> Iterator[Entry]:
    from supervisor.journal.dump import dump as lines

    return lines(place)


def _follow(place: Path, selection: Selection, shown: _Shown, last: int | None) -> None:
    from supervisor.journal.follow import Follower

    follower = Follower(place)
    shown.all(_take(follower.first(), selection), last)
    shown.all(_take(follower.added(), selection), None)


def _take(lines: Iterable[Entry], selection: Selection) -> Iterator[Chosen]:
    for entry in lines:
        if selection.ended(entry):
            return
        records = selection.takes(entry)
        if records is not None:
            yield entry, records


class _Shown:
    """Prints what was chosen; of the `last` few, when it is known which they are."""

    def __init__(self, given: Shared) -> None:
        self._given = given
        self._kept: deque[Chosen] = deque()

    def all(self, found: Iterable[Chosen], last: int | None) -> None:
        if last is None:
            for one in found:
                self._one(one)
            return
        self._kept = deque(maxlen=last)
        for one in found:
            if one[1]:
                self._kept.append(one)
        self.rest()

    def rest(self) -> None:
        """What is kept: after damage it is still the newest that is proven."""
        for one in self._kept:
            self._one(one)
        self._kept.clear()

    def _one(self, chosen_one: Chosen) -> None:
        entry, records = chosen_one
        if self._given.form == "text":
            self._given.emit(None, lambda look: _text(entry, records, look))
        elif self._given.form == "ids":
            self._given.emit(None, lambda _: "", [entry.position])
        else:
            self._given.line(_document(entry, records))


def _text(entry: Entry, records: list[Any], look: Any) -> str:
    from supervisor.cli.facts import fact
    from supervisor.cli.render_record import line_of_its_own, record

    if not records:
        payload = entry.payload.decode("utf-8", "backslashreplace")
        return line_of_its_own(entry.position, payload, entry.file, look)
    shown = (record(fact(entry.position, r), look, attested=entry.attested) for r in records)
    return "\n".join(shown)


def _document(entry: Entry, records: list[Any]) -> dict[str, Any]:
    return {
        "file": entry.file,
        "offset": entry.offset,
        "position": entry.position,
        "attested": entry.attested,
        "payload": records or json.loads(entry.payload),
    }


def _selection(wanted: dict[str, Any], place: Path, now_ns: int) -> Selection:
    """The filters as one value. Raises CommandError for what cannot be meant."""
    from supervisor.cli.when import time_ns
    from supervisor.core.record import KINDS
    from supervisor.journal.select import CALL, EFFECT, OPERATION, Selection

    for kind in wanted["kind"]:
        if kind not in KINDS:
            raise CommandError(f"--kind {kind}: no such kind", f"One of {', '.join(sorted(KINDS))}")
    members: dict[Kind, tuple[str, ...]] = {"operation": OPERATION, "call": CALL, "effect": EFFECT}
    about = tuple(
        (names, _whole(place, kind, names, cast("str", wanted[kind])))
        for kind, names in members.items()
        if wanted[kind] is not None
    )
    times = {
        name: None if wanted[name] is None else time_ns(wanted[name], f"--{name}", now_ns)
        for name in ("since", "until")
    }
    return Selection(
        wanted["from"] or 0, wanted["to"], times["since"], times["until"],
        frozenset(wanted["kind"]), about,
    )  # fmt: skip


def _whole(place: Path, kind: Kind, names: tuple[str, ...], text: str) -> str:
    from supervisor.cli.ids import among

    return among(kind, text, lambda: ids_in(place, names))


def ids_in(place: Path, names: tuple[str, ...]) -> Iterable[str]:
    """Every id that the proven part of a journal has in one of these members, each once."""
    from supervisor.journal.errors import JournalCorrupt
    from supervisor.journal.select import records_in

    found: dict[str, None] = {}
    try:
        for entry in _quietly(place):
            for record in records_in(entry):
                found.update((record[name], None) for name in names if record.get(name))
    except JournalCorrupt:
        pass  # the command itself reads as far, and says so
    return found
