"""What answers cost among many operations, against what they cost among ten."""

from __future__ import annotations

import gc
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import attrs

from bench import facts
from bench.crowd import TEN, Crowd, crowd
from bench.deciding import BY, SESSION
from bench.figures import Series, us
from bench.report import table
from supervisor.api import counts, listing
from supervisor.api.command import Page
from supervisor.api.recovery_view import recovery_view
from supervisor.api.routes import ListEffects, ListOperations
from supervisor.api.wire import dumps
from supervisor.core.cataloguing import catalogue_of
from supervisor.core.checkpoint import checkpoint_digest
from supervisor.core.ids import CallId
from supervisor.core.operations import Operations
from supervisor.core.packing import card_in
from supervisor.core.projection import project
from supervisor.core.record import Kind
from supervisor.core.standing import OperationState, operation_state
from supervisor.core.state import Operation, State
from supervisor.core.step import CancelAsked, ResumeAsked
from supervisor.core.whole import lines, state_from
from supervisor.scratch import Scratch

TITLE = "# What many operations cost"
MOST = 3.0
"""Times what it costs among ten."""
_PAGE = 4
_FILTERS = ("state", "handler", "session", "request_id", "needs", "since")


@attrs.frozen
class Room:
    """What a finished operation takes, in bytes: of memory whole, and when it is filed; and of
    the scratch file then."""

    calls: float
    whole: int
    filed: int
    file: int


@attrs.frozen
class Report:
    operations: int
    few: Mapping[str, Series]
    many: Mapping[str, Series]
    room: Room
    loads: tuple[float, float]

    def ratio(self, name: str) -> float:
        return self.many[name].median_over(self.few[name])


def measure(operations: int, count: int, runs: int) -> Report:
    load = facts.load()
    scratch = Scratch(Path(tempfile.gettempdir()))
    few = _Answers(crowd(TEN, scratch.put))
    made = crowd(operations, scratch.put)
    room = _room(made.state)
    many = _Answers(made)
    gc.freeze()  # what is kept is nobody's garbage
    times: dict[str, tuple[list[tuple[int, ...]], ...]] = {n: ([], []) for n in few.rows()}
    for _ in range(runs):
        for name, found in times.items():
            for where, answers in zip(found, (few, many), strict=True):
                where.append(_timed(answers.rows()[name], count))
    of_few, of_many = ({n: Series(tuple(t[i])) for n, t in times.items()} for i in (0, 1))
    return Report(operations, of_few, of_many, room, (load, facts.load()))


def _room(state: State) -> Room:
    finished = list(_finished(lines(state)))
    with tempfile.TemporaryDirectory() as directory:
        scratch = Scratch(Path(directory))
        tracemalloc.start()
        kept = state_from(finished, scratch.put)
        filed = _traced()
        whole = dict(kept.operations.items())
        added, count = _traced() - filed, len(whole)
        tracemalloc.stop()
        return Room(len(kept.calls) / count, added // count, filed // count, scratch.used // count)


def _traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _finished(whole: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of the same state with nothing but the filed operations."""
    filed = state_from(whole).operations.filed
    catalogue = catalogue_of(map(card_in, filed))
    yield from lines(attrs.evolve(State(), operations=Operations(filed=filed), catalogue=catalogue))


def _timed(answer: Callable[[], object], count: int) -> tuple[int, ...]:
    taken: list[int] = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        answer()
        taken.append(time.perf_counter_ns() - begin)
    return tuple(taken)


class _Answers:
    """One crowd, and what is asked of it: the state is the same before each."""

    def __init__(self, made: Crowd) -> None:
        self._made = made
        self._state = made.state
        operations = sorted(made.state.operations.values(), key=lambda one: -one.serial)
        self._middle = operations[len(operations) // 2].serial
        self._some = operations[len(operations) // 2]
        self._stuck = next(one for one in operations if _is(one, OperationState.UNKNOWN))
        self._runs = next(one for one in operations if _is(one, OperationState.RUNNING))

    def rows(self) -> dict[str, Callable[[], object]]:
        hour_ago = datetime.fromtimestamp(self._made.at / 1e9 - 3_600, UTC).isoformat()
        lists: dict[str, dict[str, str]] = {
            "operations": {},
            "operations, state=unknown": {"state": "unknown"},
            "operations, handler": {"handler": "charge"},
            "operations, session": {"session": SESSION},
            "operations, request_id": {"request_id": self._some.request_id},
            "operations, needs=client": {"needs": "client"},
            "operations, since an hour ago": {"since": hour_ago},
        }
        return {
            **{name: self._listed(asked, None) for name, asked in lists.items()},
            "operations, a later page": self._listed({}, self._middle),
            "effects": self._effects(None),
            "effects, needs=client": self._effects("client"),
            "a session's messages": self._messages,
            "counts of a status": self._counts,
            "recovery projection": self._recovery,
            "a resume, decided and folded": self._resume,
            "a cancel, decided and folded": self._cancel,
            "a dispatch, decided and folded": self._dispatch,
        }

    def _listed(self, asked: Mapping[str, str], cursor: int | None) -> Callable[[], object]:
        command = ListOperations(Page(_PAGE, cursor), *(asked.get(one) for one in _FILTERS))
        return lambda: dumps(listing.operations(self._state, command, None, self._made.now))

    def _effects(self, needs: str | None) -> Callable[[], object]:
        command = ListEffects(Page(_PAGE, None), None, needs, None)
        return lambda: dumps(listing.effects(self._state, command, None, self._made.now))

    def _messages(self) -> object:
        return dumps(listing.session_view(self._state, SESSION, Page(_PAGE, None)))

    def _counts(self) -> object:
        by_state = counts.operations_by_state(self._state, BY.uid)
        return by_state, counts.effects_by_need(self._state, BY.uid, self._made.now)

    def _recovery(self) -> object:
        now = self._made.now
        digests = {"charge": "d" * 64}
        projection = project(self._stuck, now, margin_ms=0, digests=digests)
        return dumps(recovery_view(self._stuck, projection, now))

    def _resume(self) -> None:
        one = self._stuck
        digest = checkpoint_digest(one)
        made = self._again()
        call = CallId(made.name("call"))
        made.do(ResumeAsked(made.now, one.operation_id, BY, "again", one.revision, digest, call, 0))

    def _cancel(self) -> None:
        made = self._again()
        made.do(CancelAsked(made.now, self._runs.operation_id, BY, "no more"))

    def _dispatch(self) -> None:
        made = self._again()
        made.finished(made.submitted())

    def _again(self) -> Crowd:
        return Crowd(self._state, named=3 * 10**18)


def _is(operation: Operation, state: OperationState) -> bool:
    return operation.kind is Kind.DISPATCH and operation_state(operation) is state


def page(report: Report) -> str:
    before, after = report.loads
    busy = "" if max(before, after) < facts.BUSY_LOAD else ": something else was measured along"
    rows = [*facts.machine().items(), ("load average", f"{before:.2f}, {after:.2f}{busy}")]
    intro = f"""\
Written by `./dev bench operations` on {time.strftime("%Y-%m-%d", time.gmtime())}. Each row is one
answer, without HTTP and disk, among 10 operations with 100 calls and among {report.operations} with
{10 * report.operations}, in turn; lists show {_PAGE} a page. A ratio is taken run by run, of
medians; the median over the runs is shown, and at most {MOST:.0f} is wanted."""
    return (
        "\n\n".join((TITLE, intro, table(("", ""), rows), answers(report), _memory(report))) + "\n"
    )


def answers(report: Report) -> str:
    rows = [
        (
            name,
            us(few.median_ns),
            us(report.many[name].median_ns),
            f"{report.ratio(name):.2f}",
            word,
        )
        for name, few in report.few.items()
        for word in ["met" if report.ratio(name) <= MOST else "**missed**"]
    ]
    return table(("answer", "among 10, us", f"among {report.operations}, us", "x", ""), rows)


def _memory(report: Report) -> str:
    room = report.room
    return (
        f"In memory an operation with {room.calls:.0f} calls takes {room.whole / 1024:.0f} KiB. "
        f"When it is finished and filed, from the next snapshot on until it is evicted, it takes "
        f"{room.filed} bytes, and {room.file / 1024:.1f} KiB of a scratch file."
    )
