"""Handler protocol 1, without I/O: bytes in, messages out; answers in, bytes out.

One JSON object a line. A line that is not one of the messages below is a fault that
names what was wrong; the attempt goes on, and the fault is kept with its output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import attrs
import orjson

from frozen import frozen
from supervisor.core.errors import Refusal
from supervisor.core.record import Result
from supervisor.core.step import AnswerApplied, GiveLeave, RefuseAnnouncement, SayRecorded

REQUEST_MAX = 65_536
# A confirmation or result may carry the largest result; the rest of a line is small.
LINE_OVERHEAD = 4_096
# How much of a line that is too long is looked at for what it confirms.
HEAD_BYTES = 1_024
_PROGRESS = re.compile(rb'\s*\{\s*"type"\s*:\s*"progress"')


@frozen
class Announce:
    name: str
    request: Any


@frozen
class Confirm:
    ordinal: int
    applied: bool
    result: Result | None
    reason: str


@frozen
class Progress:
    """`fraction` in thousandths, so that no float leaves the protocol."""

    thousandths: int | None
    message: str


@frozen
class ResultGiven:
    result: Result


@frozen
class Fault:
    """What the handler said that is not in the protocol."""

    detail: str


Message = Announce | Confirm | Progress | ResultGiven | Fault


class Channel:
    """The daemon's end of one attempt's fd 3.

    `feed` takes what was read and returns the messages that are complete; memory is
    bounded by one line of at most `result_max_bytes` and some overhead. Of the progress in one
    read only the newest is looked at: reporting it often costs a handler and us next to nothing.
    """

    def __init__(self, result_max_bytes: int) -> None:
        self._result_max = result_max_bytes
        self._line_max = max(result_max_bytes, REQUEST_MAX) + LINE_OVERHEAD
        self._line = bytearray()
        self._skipping = False
        self.only_confirmations = False
        """From now on: of one that is ended for what it said, only what it did matters."""
        self.progressed = 0
        """How many lines of progress came; of those of one read only the newest is told."""

    def feed(self, data: bytes) -> Iterator[Message]:
        """To be iterated to its end before the next: one by one, since a read may hold as many
        lines as bytes."""
        newest: bytes | None = None
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._take(data[start:end])
            start = end + 1
            line, skipped = bytes(self._line), self._skipping
            self._line, self._skipping = bytearray(), False
            if skipped:
                yield _too_long(line, self._line_max)
            elif self.only_confirmations and b'"confirm"' not in line:
                continue
            elif _PROGRESS.match(line):
                newest = line
                self.progressed += 1
            else:
                yield parse(line, self._result_max)
        self._take(data[start:])
        if newest is not None:
            yield parse(newest, self._result_max)

    def _take(self, piece: bytes) -> None:
        """A part of the present line; of one that becomes too long only the head is kept."""
        if self._skipping:
            return
        self._line += piece
        if len(self._line) > self._line_max:
            self._skipping = True
            self._line = self._line[:HEAD_BYTES]


def parse(line: bytes, result_max_bytes: int) -> Message:
    try:
        value = json.loads(line, parse_constant=_no_constant)
        orjson.dumps(value)  # what the journal's encoder does not take is no message
    except (ValueError, TypeError, RecursionError):
        return Fault(f"not JSON that can be kept: {line[:200]!r}")
    if not isinstance(value, dict):
        return Fault(f"not an object: {line[:200]!r}")
    said = cast("dict[str, Any]", value)
    found = _message(said, line, result_max_bytes)
    return found if found is not None else Fault(f"not a message of protocol 1: {line[:200]!r}")


def _too_long(head: bytes, line_max: int) -> Message:
    """A confirmation of an effect counts however long its result is: the result alone is lost."""
    before = head.partition(b'"result"')[0].rstrip().rstrip(b",") + b"}"
    if before != head + b"}":
        said = parse(before, line_max)
        if isinstance(said, Confirm) and said.applied:
            return attrs.evolve(said, result=Result(unavailable="too_large"))
    return Fault(f"a line of more than {line_max} bytes")


def _message(said: dict[str, Any], line: bytes, result_max_bytes: int) -> Message | None:
    match said.get("type"):
        case "announce":
            name = said.get("effect")
            return _announce(name, said.get("request")) if isinstance(name, str) else None
        case "confirm":
            return _confirm(said, line, result_max_bytes)
        case "progress":
            return _progress(said)
        case "result" if "value" in said:
            return ResultGiven(_result(said, "value", line, result_max_bytes) or Result())
        case _:
            return None


def _confirm(said: dict[str, Any], line: bytes, result_max_bytes: int) -> Message | None:
    ordinal, outcome = said.get("ordinal"), said.get("outcome")
    if type(ordinal) is not int or outcome not in {"applied", "not_applied"}:
        return None
    if outcome == "applied":
        return Confirm(ordinal, True, _result(said, "result", line, result_max_bytes), "")
    return Confirm(ordinal, False, None, str(said.get("reason", ""))[:1_000])


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _announce(name: str, request: Any) -> Message:
    if len(json.dumps(request, ensure_ascii=False).encode("utf-8", "replace")) > REQUEST_MAX:
        return Fault(f"the request of {name[:64]!r} is larger than {REQUEST_MAX} bytes")
    return Announce(name, request)


def _result(said: dict[str, Any], key: str, line: bytes, result_max_bytes: int) -> Result | None:
    if key not in said:
        return None
    if len(line) > result_max_bytes:
        return Result(unavailable="too_large")
    return Result(said[key])


def _progress(rest: dict[str, Any]) -> Message:
    fraction, message = rest.get("fraction"), rest.get("message", "")
    if isinstance(fraction, bool) or not isinstance(fraction, int | float | None):
        return Fault("progress: fraction is a number from 0 to 1")
    thousandths = None if fraction is None else round(min(max(fraction, 0), 1) * 1_000)
    return Progress(thousandths, str(message)[:200])


# --- answers ------------------------------------------------------------------------------


def answer(directive: GiveLeave | AnswerApplied | RefuseAnnouncement | SayRecorded) -> bytes:
    match directive:
        case GiveLeave(ordinal, effect_id):
            return _line(
                type="leave", ordinal=ordinal, effect_id=effect_id, idempotency_key=effect_id
            )
        case AnswerApplied(ordinal, result):
            if result.available:
                return _line(type="applied", ordinal=ordinal, result=result.value)
            return _line(type="applied", ordinal=ordinal, result_unavailable=result.unavailable)
        case RefuseAnnouncement(refusal):
            return refused(refusal)
        case SayRecorded(ordinal):
            return _line(type="recorded", ordinal=ordinal)


def refused(refusal: Refusal, ordinal: int | None = None) -> bytes:
    """`ordinal` when it answers a confirmation: a handler with threads can tell which."""
    where = {} if ordinal is None else {"ordinal": ordinal}
    return _line(type="refused", **where, code=refusal.code, detail=refusal.detail)


def _line(**members: Any) -> bytes:
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
