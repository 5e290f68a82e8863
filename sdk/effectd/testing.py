"""Test a handler without a daemon: `run_handler` really starts it and plays the daemon's half.

    def test_a_charge_that_was_made_is_not_made_again():
        first = run_handler("charge.py", {"amount": 100}, kill_at_confirmation=0)
        again = run_handler("charge.py", {"amount": 100}, answers=[applied({"id": "ch_1"})])
        assert again.result == {"id": "ch_1"}

The handler runs without a sandbox, with only PATH, LANG and the protocol's own variables in
its environment. `effectctl handlers try` runs it in the real one.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional, Union

from effectd._channel import MAX_ANNOUNCE_BYTES
from effectd._document import Document, as_object, text
from effectd._play import Answer, started

__all__ = [
    "Announcement",
    "Answer",
    "Conversation",
    "applied",
    "hang_up",
    "leave",
    "raw",
    "refused",
    "run_handler",
    "silence",
]

Handler = Union[str, "os.PathLike[str]", Sequence[str], Callable[..., Any]]


def leave(effect_id: Optional[str] = None) -> Answer:
    """Permit the effect (what happens to an announcement that no answer is given for)."""
    return Answer("leave", {} if effect_id is None else {"effect_id": effect_id})


def applied(result: object = None) -> Answer:
    """The effect was made on an earlier attempt; this was its result."""
    return Answer("applied", {"result": result})


def refused(code: str, detail: str = "") -> Answer:
    """No leave, for this reason."""
    return Answer("refused", {"code": code, "detail": detail})


def silence() -> Answer:
    """No answer at all, as after the deadline. The handler is killed at `timeout_ms`."""
    return Answer("silence")


def hang_up() -> Answer:
    """Close fd 3, as when the daemon dies."""
    return Answer("hang_up")


def raw(data: bytes) -> Answer:
    """Send these bytes, whatever they are."""
    return Answer("raw", data=data)


@dataclass
class Announcement:
    """One announced effect. `outcome` is announced, applied, not_applied, refused or unknown."""

    ordinal: int
    effect: str
    request: Any
    effect_id: str
    answer: Answer
    outcome: str = "announced"
    result: Any = None
    reason: str = ""


@dataclass
class Conversation:
    """What happened. `exit_status` is the exit code, or minus the signal that ended it.

    `result` is what the call's result would be: the value sent, else stdout (JSON, or text).
    `sent` is every message of the handler's in order, and `problems` what in them is against
    the protocol.
    """

    announcements: list[Announcement] = field(default_factory=list[Announcement])
    sent: list[Document] = field(default_factory=list[Document])
    progress: list[Document] = field(default_factory=list[Document])
    problems: list[str] = field(default_factory=list[str])
    exit_status: int = 0
    timed_out: bool = False
    stdout: str = ""
    stderr: str = ""

    @property
    def result(self) -> Any:
        for message in reversed(self.sent):
            if message.get("type") == "result":
                return message.get("value")
        try:
            return json.loads(self.stdout)
        except ValueError:
            return self.stdout

    @property
    def unknown(self) -> list[Announcement]:
        """Effects that had leave and were not confirmed: nobody can know about these."""
        return [one for one in self.announcements if one.outcome == "unknown"]

    def next_answers(self) -> list[Answer]:
        """What a relaunch is answered: `applied` for what was, else leave under the same id."""
        return [
            applied(one.result) if one.outcome == "applied" else leave(one.effect_id)
            for one in self.announcements
            if one.outcome != "refused"
        ]


def run_handler(  # each stands for one thing that can be different in a test
    handler: Handler,
    input: object,  # noqa: A002  # the protocol's word
    *,
    answers: Sequence[Answer] = (),
    confirmations: Sequence[Answer] = (),
    kill_at: Optional[int] = None,
    kill_at_confirmation: Optional[int] = None,
    env: Optional[Mapping[str, str]] = None,
    timeout_ms: int = 30_000,
) -> Conversation:
    """Start the handler, talk to it until it ends, and tell what it said.

    `handler`: a program's path (a .py file runs under this Python), a command, or a function
    at the top level of a file (which is imported, not run as a program).
    `answers`: to the announcements in their order; beyond its end each gets leave.
    `confirmations`: instead of `recorded`, to the confirmations in their order.
    `kill_at=n`: SIGKILL when announcement n arrives (nothing of it was made).
    `kill_at_confirmation=n`: SIGKILL when confirmation n arrives, before it is recorded: the
    worst moment, for the effect was made and nobody knows.
    At `timeout_ms` it is killed, and `timed_out` is set.
    """
    command, extra = _command(handler)
    played = _Daemon(answers, confirmations, kill_at, kill_at_confirmation)
    with started(command, input, {**extra, **(env or {})}) as process:
        status, played.talk.timed_out = process.talk(
            played.line, time.monotonic() + timeout_ms / 1000
        )
        played.settle()
        played.talk.exit_status = status
        played.talk.stdout = process.output()
        played.talk.stderr = process.errors()
    return played.talk


def _command(handler: Handler) -> tuple[list[str], dict[str, str]]:
    if callable(handler):
        return _function_command(handler)
    if isinstance(handler, (str, os.PathLike)):
        path = Path(handler)
        if not path.is_file():
            raise FileNotFoundError(f"no handler at {path}")
        python = [sys.executable] if path.suffix == ".py" else []
        return [*python, str(path.absolute())], {}
    return list(handler), {}


def _function_command(function: Callable[..., Any]) -> tuple[list[str], dict[str, str]]:
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", "")
    if code is None or not name.isidentifier() or not Path(code.co_filename).is_file():
        raise ValueError(f"not a function at the top level of a file: {function!r}")
    # What the test can import, the handler can.
    paths = os.pathsep.join(part for part in sys.path if part)
    program = [sys.executable, "-m", "effectd._run_function", code.co_filename, name]
    return program, {"PYTHONPATH": paths}


class _Daemon:
    """The daemon's half: a line in, what to do in return out. No I/O."""

    def __init__(
        self,
        answers: Sequence[Answer],
        confirmations: Sequence[Answer],
        kill_at: Optional[int],
        kill_at_confirmation: Optional[int],
    ) -> None:
        self.talk = Conversation()
        self._answers = answers
        self._confirmations = confirmations
        self._kill_at = kill_at
        self._kill_at_confirmation = kill_at_confirmation
        self._confirmed = 0

    def line(self, line: bytes) -> Answer:
        """One line of the handler's; what the daemon does about it."""
        try:
            message = as_object(json.loads(line))
        except ValueError:
            message = None
        kind = text(message, "type") if message is not None else ""
        if message is not None:
            self.talk.sent.append(message)
            if kind == "announce":
                return self._announced(message, len(line) + 1)
            if kind == "confirm":
                return self._confirm(message)
            if kind == "progress":
                self.talk.progress.append(message)
                return silence()
            if kind == "result":
                return silence()
        self.talk.problems.append(f"not a message of handler protocol 1: {line[:80]!r}")
        return silence()

    def _announced(self, message: Document, size: int) -> Answer:
        ordinal = len(self.talk.announcements)
        answer = self._answers[ordinal] if ordinal < len(self._answers) else leave()
        effect_id = answer.fields.get("effect_id") or "eff_" + secrets.token_hex(10)
        one = Announcement(
            ordinal, text(message, "effect"), message.get("request"), effect_id, answer
        )
        self.talk.announcements.append(one)
        if size > MAX_ANNOUNCE_BYTES:
            self.talk.problems.append(f"announcement {ordinal} is {size} bytes")
        if self._kill_at == ordinal:
            return Answer("kill")
        if answer.kind == "leave":
            one.outcome = "unknown"
            return _line(
                type="leave", ordinal=ordinal, effect_id=effect_id, idempotency_key=effect_id
            )
        if answer.kind in {"applied", "refused"}:
            one.outcome = answer.kind
            one.result = answer.fields.get("result")
            place = {"ordinal": ordinal} if answer.kind == "applied" else {}
            return _line(type=answer.kind, **place, **answer.fields)
        return answer

    def _confirm(self, message: Document) -> Answer:
        number, self._confirmed = self._confirmed, self._confirmed + 1
        if self._kill_at_confirmation == number:
            return Answer("kill")
        ordinal = message.get("ordinal")
        known = isinstance(ordinal, int) and 0 <= ordinal < len(self.talk.announcements)
        outcome = message.get("outcome")
        if not known or outcome not in {"applied", "not_applied"}:
            self.talk.problems.append(f"a confirmation of nothing: {message!r:.80}")
            return silence()
        assert isinstance(ordinal, int)
        one = self.talk.announcements[ordinal]
        if one.outcome != "unknown":
            self.talk.problems.append(f"effect {ordinal} was confirmed, and it is {one.outcome}")
        answer = self._confirmations[number] if number < len(self._confirmations) else None
        if answer is not None and answer.kind != "raw":
            return _line(type="refused", **answer.fields) if answer.fields else answer
        one.outcome, one.result = str(outcome), message.get("result")
        one.reason = text(message, "reason")
        return answer or _line(type="recorded", ordinal=ordinal)

    def settle(self) -> None:
        """The handler is dead: what it announced and got no leave for was not made."""
        for one in self.talk.announcements:
            if one.outcome == "announced" and one.answer.kind != "raw":
                one.outcome = "not_applied"


def _line(**fields: Any) -> Answer:
    return Answer("raw", data=json.dumps(fields, separators=(",", ":")).encode() + b"\n")
