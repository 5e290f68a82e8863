"""Write a handler: a function that announces each effect before it makes it.

    from effectd.handler import handler, NotApplied

    @handler
    def charge(input, effects):
        def make(effect):                               # runs only if it was not made before
            try:
                return stripe.charge(..., idempotency_key=effect.idempotency_key)
            except stripe.CardError as declined:        # the provider said no: known
                raise NotApplied(str(declined)) from declined
        return effects.perform("charge", input, make)   # any other exception: unknown

`@handler` runs the function then and there when its file is the program that was started,
and ends the program; so it stands last, and says so when something follows it. In a module
that is imported, in a test say, it leaves the function as it is.

Exit status: 0 the function returned, and its value is the call's result; 1 it raised, with
the traceback on stderr; 2 not started by effectd, or the file is not in order; 74 the daemon
has gone. sys.exit() in the function is respected, and no result is sent then.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any, Callable, NamedTuple, NoReturn, Optional, TypeVar, cast

from effectd._channel import (
    MAX_ANNOUNCE_BYTES,
    MAX_MESSAGE_CHARS,
    Channel,
    ProtocolError,
    encode,
)
from effectd._document import Document, text
from effectd.errors import Refused

__all__ = [
    "Effect",
    "Effects",
    "NotApplied",
    "ProtocolError",
    "Refused",
    "handler",
    "run",
]

Function = TypeVar("Function", bound=Callable[[Any, "Effects"], Any])
Result = TypeVar("Result")
_IS_ASYNC = 0x80  # CO_COROUTINE; `inspect` takes longer to import than most handlers take to run


class NotApplied(Exception):  # noqa: N818  # the name says what happened
    """Raise it in `make` when it is *certain* that the effect did not happen: the provider said
    no, or nothing was sent. A timeout is not certain; neither is a broken connection."""


class Effect(NamedTuple):
    """An effect that has leave. Give `idempotency_key` to the provider where it takes one."""

    name: str
    ordinal: int
    effect_id: str
    idempotency_key: str


class Effects:
    """What a handler makes its effects with. Threads may share it.

    The n-th announcement of a relaunched handler must be the n-th of before (name and request),
    so threads must not race for the order of theirs.
    """

    def __init__(self, channel: Channel, environ: Mapping[str, str]) -> None:
        self._channel = channel
        self.operation_id = environ.get("EFFECTD_OPERATION_ID", "")
        self.call_id = environ.get("EFFECTD_CALL_ID", "")
        self.attempt = int(environ.get("EFFECTD_ATTEMPT") or 0)
        effect_id = environ.get("EFFECTD_EFFECT_ID")
        key = environ.get("EFFECTD_IDEMPOTENCY_KEY") or effect_id or ""
        # With `scope = "call"` the whole call is the effect, announced before the handler runs.
        self.whole_call = Effect("", 0, effect_id, key) if effect_id else None

    def perform(self, name: str, request: object, make: Callable[[Effect], Result]) -> Result:
        """Announce the effect, make it if it was not made before, and report what came of it.

        `make(effect)` runs only with leave; its return value (JSON) is the effect's result, and
        what a relaunch gets back without running it. `request` (JSON, 64 KiB with the name) says
        what is about to be done: the same on every attempt, and without secrets.

        Raises Refused (`.code`) when there is no leave; what `make` raises: NotApplied is
        reported as *not applied*, anything else leaves the effect *unknown*. A result that the
        daemon cannot keep is returned all the same, with a word on stderr. A result that is
        not JSON raises TypeError or ValueError after the effect was reported as applied. When the
        daemon has gone, SystemExit.
        """
        line = encode({"type": "announce", "effect": name, "request": request}, "the request")
        if len(line) > MAX_ANNOUNCE_BYTES:
            raise ValueError(
                f"the announcement of {name!r} is {len(line)} bytes, "
                f"and at most {MAX_ANNOUNCE_BYTES} are taken: announce a digest of it instead"
            )
        answer = self._channel.announce(line)
        if answer["type"] == "refused":
            raise _refusal(answer, f"no leave for effect {name!r}")
        if answer["type"] == "applied":
            return cast("Result", answer.get("result"))
        effect = _effect(name, answer)
        try:
            result = make(effect)
        except NotApplied as known:
            self._confirm(effect, {"outcome": "not_applied", "reason": str(known)})
            raise
        self._confirm_result(effect, result)
        return result

    def progress(self, fraction: float, message: str = "") -> None:
        """Tell how far it is, from 0 to 1. Never fails the handler."""
        shown = {"fraction": min(1.0, max(0.0, float(fraction)))}
        clean = message[:MAX_MESSAGE_CHARS].encode("utf-8", "replace").decode()
        self._channel.send(encode({"type": "progress", **shown, "message": clean}, "progress"))

    def _confirm_result(self, effect: Effect, result: object) -> None:
        applied: Document = {"outcome": "applied"}
        try:
            encode({"result": result}, "")
        except (TypeError, ValueError) as fault:
            # It happened. Say so first, and complain about its result afterwards.
            self._confirm(effect, applied)
            message = f"effect {effect.name!r} was applied, and its result is not JSON: {fault}"
            raise type(fault)(message) from fault
        try:
            self._confirm(effect, {**applied, "result": result})
        except Refused as refusal:
            if refusal.code != "InvalidInput":
                raise
            # The result is too large to be kept, or a number in it is. The effect is applied
            # all the same, and must not become unknown for the sake of its result.
            self._confirm(effect, applied)
            sys.stderr.write(f"effectd: the result is not kept: {refusal.detail}\n")

    def _confirm(self, effect: Effect, outcome: Mapping[str, Any]) -> None:
        message = {"type": "confirm", "ordinal": effect.ordinal, **outcome}
        answer = self._channel.confirm(effect.ordinal, encode(message, "the confirmation"))
        if answer["type"] == "refused":
            raise _refusal(answer, f"the confirmation of effect {effect.name!r} was refused")


def _refusal(answer: Document, what: str) -> Refused:
    detail = text(answer, "detail")
    return Refused(
        text(answer, "code") or "Refused",
        f"{what}: {detail}" if detail else what,
        fix=text(answer, "fix"),
        document=answer,
    )


def _effect(name: str, answer: Document) -> Effect:
    ordinal = answer.get("ordinal")
    effect_id = text(answer, "effect_id")
    if not isinstance(ordinal, int) or not effect_id:
        raise ProtocolError(f"a leave without ordinal or effect_id: {answer!r:.200}")
    return Effect(name, ordinal, effect_id, text(answer, "idempotency_key") or effect_id)


def handler(function: Function) -> Function:
    """Make the function a handler: run it now if its file is the program, else leave it as it is.

    Nothing may follow the function in the file; code that is needed stands above it, or in
    another module. To run it from elsewhere, leave the decorator out and call `run`.
    """
    if function.__module__ != "__main__" or hasattr(sys, "ps1"):  # ps1: somebody is typing
        return function
    frame = cast("Optional[FrameType]", getattr(sys, "_getframe")(1))  # noqa: B009  # CPython's own
    line = _what_follows(function, frame)
    if line is not None:
        _stop(
            f"line {line} comes after the function marked @handler, and would never be reached: "
            "move it above, or leave @handler out and call effectd.handler.run at the end"
        )
    return run(function)


def run(function: Callable[[Any, Effects], Any]) -> NoReturn:
    """Be the handler: read the input, call the function, send its result, end the program."""
    if not os.environ.get("EFFECTD_FD"):
        _stop("not started by effectd: use effectctl handlers try NAME")
    code: Optional[CodeType] = getattr(function, "__code__", None)
    if code is not None and code.co_flags & _IS_ASYNC:
        _stop("the handler is an async function: call asyncio.run() in a plain one")
    fd = int(os.environ["EFFECTD_FD"])
    try:
        os.set_inheritable(fd, False)  # what this handler starts is not the handler
    except OSError:
        _stop(f"file descriptor {fd} is not open: only effectd can start this program")
    channel = Channel(fd)
    value = function(_read_input(), Effects(channel, os.environ))
    channel.send(encode({"type": "result", "value": value}, "the handler's result"))
    sys.exit(0)


def _read_input() -> Any:
    data = sys.stdin.buffer.read()
    try:
        return json.loads(data)
    except ValueError as error:
        _stop(f"the input is not JSON: {error}")


def _stop(message: str) -> NoReturn:
    sys.stderr.write(f"effectd: {message}\n")
    sys.exit(2)


def _what_follows(function: Callable[..., Any], frame: Optional[FrameType]) -> Optional[int]:
    """The first line that the module would go on with after the decorated function."""
    inner: Any = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code: Optional[CodeType] = getattr(inner, "__code__", None)
    if frame is None or code is None or frame.f_code.co_name != "<module>":
        return None
    end = max((line for _, line in _lines(code)), default=code.co_firstlineno)
    after = [line for start, line in _lines(frame.f_code) if start > frame.f_lasti and line > end]
    return min(after, default=None)


def _lines(code: CodeType) -> list[tuple[int, int]]:
    """(offset, line) of the code's instructions, in order."""
    if hasattr(code, "co_lines"):
        return [(start, line) for start, _, line in code.co_lines() if line is not None]
    import dis  # noqa: PLC0415  # only Python 3.9 needs it

    return list(dis.findlinestarts(code))
