"""Clients of the daemon: `Client` blocks, `AsyncClient` runs under asyncio; the same methods.

    async with AsyncClient() as effectd:
        try:
            receipt = await effectd.dispatch("charge", {"amount": 100}, request_id=message_id)
        except OutcomeUnknown as unknown:
            return unknown.for_model

Both reconnect by themselves. A request is sent again only under the same id, or where twice
is the same as once; `patience_ms` bounds how long a client goes on while the daemon is away
(two seconds when it was never reached). Documents are what the API answers, as dicts.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from effectd import _api, _dispatch, _flow, _open, _programs
from effectd._api import PATIENCE_MS, Filter, Settings
from effectd._document import Document
from effectd._flow import Events, Flow, Pages, Pause
from effectd._transport import Blocking, Send
from effectd._wire import MAX_ANSWER_BYTES, Response
from effectd.errors import (
    AccessDenied,
    AnswerLost,
    BadAnswer,
    CallCancelled,
    CallEnded,
    CallFailed,
    CallInterrupted,
    CallTimedOut,
    Conflict,
    EffectdError,
    Expired,
    InvalidInput,
    LimitExceeded,
    NotFound,
    OutcomeUnknown,
    PartlyApplied,
    Refused,
    ResultUnavailable,
    Unavailable,
    UnknownHandler,
    Unreachable,
)

if TYPE_CHECKING:
    from effectd._aclient import AsyncClient

__all__ = [
    "AccessDenied",
    "AnswerLost",
    "AsyncClient",
    "BadAnswer",
    "CallCancelled",
    "CallEnded",
    "CallFailed",
    "CallInterrupted",
    "CallTimedOut",
    "Client",
    "Conflict",
    "EffectdError",
    "Expired",
    "InvalidInput",
    "LimitExceeded",
    "NotFound",
    "OutcomeUnknown",
    "PartlyApplied",
    "Refused",
    "Response",
    "ResultUnavailable",
    "Unavailable",
    "UnknownHandler",
    "Unreachable",
]

T = TypeVar("T")


def __getattr__(name: str) -> Any:
    # asyncio takes longer to import than a blocking program takes to ask its question.
    if name == "AsyncClient":
        from effectd._aclient import AsyncClient as found  # noqa: PLC0415, N813

        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Client(Settings):
    """The blocking client. It connects when it is first used; threads may share it.

    `socket`: a path; without one EFFECTD_SOCKET, the system's socket, the user's.
    `max_answer_bytes` bounds one answer (BadAnswer beyond it).
    """

    def __init__(
        self,
        socket: Union[str, "os.PathLike[str]", None] = None,
        *,
        patience_ms: int = PATIENCE_MS,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        super().__init__(socket, patience_ms=patience_ms, max_answer_bytes=max_answer_bytes)
        self._transport = Blocking(self._paths, max_answer_bytes)

    def __enter__(self) -> Client:  # noqa: PYI034  # Self is Python 3.11's
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept for the next request."""
        self._transport.close()

    def _run(self, flow: Flow[T]) -> T:
        try:
            step = next(flow)
            while True:
                reply: Optional[Response] = None
                try:
                    if isinstance(step, Pause):
                        time.sleep(step.seconds)
                    else:
                        reply = self._transport.exchange(step)
                except EffectdError as fault:
                    step = flow.throw(fault)
                else:
                    step = flow.send(reply)
        except StopIteration as done:
            value: T = done.value
            return value

    def request(
        self, method: str, path: str, body: object = None, *, timeout: Optional[float] = None
    ) -> Response:
        """One request, sent once; every status is an answer. `timeout` is in seconds (60).

        Raises Unreachable (nothing was sent), AnswerLost, BadAnswer. `document` is parsed JSON,
        or text.
        """
        return self._transport.exchange(_flow.once(method, path, body, timeout=timeout))

    def status(self) -> Document:
        """The daemon's version, health, and what needs whom."""
        return self._run(_flow.get("status", patience=self._patience()))

    def handlers(self) -> list[Document]:
        """The handlers as loaded."""
        return self._run(_flow.all_items("handlers", self._patience()))

    def dispatch(  # noqa: PLR0913  # one for each field of the request
        self,
        handler: str,
        input: object,  # noqa: A002  # the wire's word
        *,
        request_id: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        max_run_ms: Optional[int] = None,
        labels: Optional[Mapping[str, str]] = None,
        resume: Optional[str] = "if_safe",
        wait: bool = True,
        patience_ms: Optional[int] = None,
    ) -> Any:
        """Run a handler once, and return its result.

        The same `request_id` always means the same operation: sending it again, from another
        process or after any crash, returns what became of it. Without one a fresh id is made,
        which another process cannot know: give your own where that matters.
        `resume="if_safe"`: an interrupted operation is resumed as long as recovery allows it,
        `patience_ms` has not passed since the first interruption, and the handler did not exit
        by itself. "never" (or None) leaves that to the caller.
        `wait=False` returns the accepted operation instead, as a document.
        Interrupting this call leaves the operation running.

        Raises CallFailed, CallTimedOut, CallCancelled, CallInterrupted (nothing applied),
        PartlyApplied, OutcomeUnknown, and the daemon's refusals. Each has `.request_id`.
        """
        wanted = self._wanted(
            handler, input, request_id, timeout_ms, max_run_ms, labels, resume, patience_ms
        )
        return self._run(_dispatch.result(wanted) if wait else _dispatch.accept(wanted))

    def operation(self, operation_id: str, *, wait_ms: Optional[int] = None) -> Document:
        """One operation; with `wait_ms` (at most 60,000) when it is final or the time is up."""
        return self._run(
            _flow.get("operations", operation_id, wait_ms=wait_ms, patience=self._patience())
        )

    def operations(self, **filters: Filter) -> Iterator[Document]:
        """Operations, newest first.

        Filters: `state`, `handler`, `session`, `request_id`, `needs`, `since`.
        """
        return self._pages("operations", filters)

    def call(self, call_id: str, *, wait_ms: Optional[int] = None) -> Document:
        """One call, with its attempts and effects."""
        return self._run(_flow.get("calls", call_id, wait_ms=wait_ms, patience=self._patience()))

    def recovery(self, operation_id: str) -> Document:
        """What may be done about an operation, and why the rest may not."""
        return self._run(
            _flow.get("operations", operation_id, "recovery", patience=self._patience())
        )

    def resume(
        self,
        operation_id: str,
        *,
        resume_request_id: Optional[str] = None,
        checkpoint: Optional[Mapping[str, Any]] = None,
    ) -> Document:
        """Resume an operation from its present checkpoint; the operation as it is then.

        To repeat a resume from another process, keep `recovery(...)["checkpoint"]` and give
        both it and the same `resume_request_id`. Raises NotResumable's and the others' Refused.
        """
        return self._run(
            _dispatch.resume(
                operation_id,
                self._patience(),
                resume_request_id=resume_request_id,
                checkpoint=checkpoint,
            )
        )

    def cancel(self, operation_id: str, reason: str) -> Document:
        """Ask for its end; the operation as it is then. What is finished stays as it is."""
        return self._run(_api.cancel(operation_id, reason, self._patience()))

    def extend(self, operation_id: str, max_run_ms: int, reason: str) -> Document:
        """Raise the operation's limit to `max_run_ms`."""
        return self._run(_api.extend(operation_id, max_run_ms, reason, self._patience()))

    def send_program(
        self,
        program: Mapping[str, object],
        *,
        message_id: str,
        max_run_ms: int,
        program_input: object = None,
        inputs: Optional[Mapping[str, object]] = None,
        session_id: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
    ) -> Document:
        """Run a program (effectd-program-v1); the operation as it is accepted.

        `message_id` and `session_id` are as in `open`; `operation(..., wait_ms=N)` waits for it.
        `inputs` are raw: the daemon writes them nowhere, and cannot resume the program.
        """
        asked = (program, program_input, inputs, message_id, max_run_ms, session_id, labels)
        return self._run(_programs.send(*asked, self._patience()))

    def approvals(self) -> list[Document]:
        """The approvals that wait: those of your programs, and those you may answer."""
        return self._run(_flow.all_items("approvals", self._patience()))

    def answer(
        self, operation_id: str, occurrence: str, choice: str, *, comment: str = ""
    ) -> Document:
        """Answer an approval, once; Conflict when it was answered otherwise before."""
        flow = _programs.answer(operation_id, occurrence, choice, comment, self._patience())
        return self._run(flow)

    def open(
        self,
        message_id: str,
        *,
        max_run_ms: int,
        session_id: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
    ) -> Document:
        """Open an operation whose calls you decide one by one; continuation 0 is open.

        The same `message_id` always means the same operation. Without a `session_id` it is in
        your default session.
        """
        return self._run(_open.begin(message_id, max_run_ms, session_id, labels, self._patience()))

    def invoke(
        self,
        operation_id: str,
        handler: str,
        input: object,  # noqa: A002  # the wire's word
        *,
        request_id: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        continuation: Optional[int] = None,
    ) -> Any:
        """Run a handler for an open operation, and return its result.

        Give the model's own id of the call as `request_id`: the same one always means the same
        call, after a lost answer too. A write that equals an earlier one is not simply made
        again: it is answered by that one, as far as its contracts allow.

        Raises what `dispatch` raises, and Refused (ContinuationRefused) when no continuation is
        open: after a restart of the daemon, say.
        """
        body = self._asked(handler, input, request_id, timeout_ms, continuation)
        return self._run(_open.call(operation_id, body, self._patience()))

    def note(self, operation_id: str) -> str:
        """What was done before, as text for the model's prompt; "" when there is nothing.

        It never raises: an agent goes on without a note.
        """
        return self._run(_open.note(operation_id, self._patience()))

    def continue_(
        self,
        operation_id: str,
        *,
        after: int,
        trigger: str = "manual",
        request_id: Optional[str] = None,
    ) -> Document:
        """Open the continuation after continuation `after`; the operation as it is then.

        trigger="auto" is for an agent that goes on by itself: after a `time_limit` only, and
        three times at most. Raises Conflict when somebody else has opened the next one.
        """
        return self._run(_open.go_on(operation_id, after, trigger, request_id, self._patience()))

    def end(self, operation_id: str, n: int, reason: str) -> Document:
        """End continuation `n`: "done", "time_limit", "error", "stop" (ends what runs),
        "credential" or "rate_limit"."""
        return self._run(_open.end(operation_id, n, reason, self._patience()))

    def effects(self, **filters: Filter) -> Iterator[Document]:
        """Effects, newest first: `outcome`, `needs`."""
        return self._pages("effects", filters)

    def effect(self, effect_id: str) -> Document:
        """One effect, with its tries."""
        return self._run(_flow.get("effects", effect_id, patience=self._patience()))

    def resolve(  # one for each field of the request
        self,
        effect_id: str,
        outcome: str,
        evidence: str,
        *,
        result: object = _api.NO_RESULT,
        if_revision: Optional[int] = None,
    ) -> Document:
        """State what became of an unknown effect: "applied" or "not_applied", and how you know.

        `if_revision` is that of the effect you looked at: give it when you looked earlier, so
        that news since then is not overruled. Without it the present one is used.
        `result` (of an applied effect) is what a relaunched handler will be given.
        """
        return self._run(
            _api.resolve(effect_id, outcome, evidence, result, if_revision, self._patience())
        )

    def reconcile(self, effect_id: str) -> Document:
        """Run the recorded reconciler once, now."""
        return self._run(_api.reconcile(effect_id, self._patience()))

    def events(self, after: int = 0, *, follow: bool = False) -> Iterator[Document]:
        """Each event behind position `after`, once. With `follow` it goes on for ever."""
        events = Events(after, follow)
        patience = self._patience()
        while True:
            try:
                with contextlib.closing(self._event_bytes(events.request())) as pieces:
                    for data in pieces:
                        patience.answered()
                        yield from events.feed(data)
                if not follow:
                    return
                fault: EffectdError = AnswerLost("the stream of events ended")
            except (Unreachable, Refused) as error:
                fault = error
            time.sleep(_api.again(fault, patience).seconds)

    def _event_bytes(self, send: Send) -> Generator[bytes, None, None]:
        refusal = _api.RefusalText(self._max_answer)
        with contextlib.closing(self._transport.stream(send)) as pieces:
            for head, data in pieces:
                if head.status >= 300:
                    refusal.add(head, data)
                elif data:
                    yield data
        refusal.raise_for_it()

    def _pages(self, noun: str, filters: Mapping[str, Filter]) -> Iterator[Document]:
        pages = Pages(noun, filters, self._patience())
        while pages.more:
            yield from self._run(pages.page())
