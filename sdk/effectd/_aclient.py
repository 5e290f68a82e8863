"""The asyncio client. Its methods and promises are those of `effectd.client.Client`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Optional, TypeVar, Union

from effectd import _api, _dispatch, _flow, _open, _programs
from effectd._api import PATIENCE_MS, Filter, Settings
from effectd._atransport import Asyncio, closing
from effectd._document import Document
from effectd._flow import Events, Flow, Pages, Pause
from effectd._transport import Send
from effectd._wire import MAX_ANSWER_BYTES, Response
from effectd.errors import AnswerLost, EffectdError, Refused, Unreachable

T = TypeVar("T")


class AsyncClient(Settings):
    """The client for asyncio; the methods and their promises are Client's.

    Cancelling the task that awaits `dispatch` leaves the operation running.
    """

    def __init__(
        self,
        socket: Union[str, "os.PathLike[str]", None] = None,
        *,
        patience_ms: int = PATIENCE_MS,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        super().__init__(socket, patience_ms=patience_ms, max_answer_bytes=max_answer_bytes)
        self._transport = Asyncio(self._paths, max_answer_bytes)

    async def __aenter__(self) -> AsyncClient:  # noqa: PYI034  # Self is Python 3.11's
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections that are kept for the next request."""
        self._transport.close()

    async def _run(self, flow: Flow[T]) -> T:
        try:
            step = next(flow)
            while True:
                reply: Optional[Response] = None
                try:
                    if isinstance(step, Pause):
                        await asyncio.sleep(step.seconds)
                    else:
                        reply = await self._transport.exchange(step)
                except EffectdError as fault:
                    step = flow.throw(fault)
                else:
                    step = flow.send(reply)
        except StopIteration as done:
            value: T = done.value
            return value

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        timeout: Optional[float] = None,  # noqa: ASYNC109  # as the blocking client has it
    ) -> Response:
        """See Client.request."""
        return await self._transport.exchange(_flow.once(method, path, body, timeout=timeout))

    async def status(self) -> Document:
        """See Client.status."""
        return await self._run(_flow.get("status", patience=self._patience()))

    async def handlers(self) -> list[Document]:
        """See Client.handlers."""
        return await self._run(_flow.all_items("handlers", self._patience()))

    async def dispatch(  # noqa: PLR0913  # one for each field of the request
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
        """See Client.dispatch."""
        wanted = self._wanted(
            handler, input, request_id, timeout_ms, max_run_ms, labels, resume, patience_ms
        )
        return await self._run(_dispatch.result(wanted) if wait else _dispatch.accept(wanted))

    async def operation(self, operation_id: str, *, wait_ms: Optional[int] = None) -> Document:
        """See Client.operation."""
        return await self._run(
            _flow.get("operations", operation_id, wait_ms=wait_ms, patience=self._patience())
        )

    def operations(self, **filters: Filter) -> AsyncIterator[Document]:
        """See Client.operations."""
        return self._pages("operations", filters)

    async def call(self, call_id: str, *, wait_ms: Optional[int] = None) -> Document:
        """See Client.call."""
        return await self._run(
            _flow.get("calls", call_id, wait_ms=wait_ms, patience=self._patience())
        )

    async def recovery(self, operation_id: str) -> Document:
        """See Client.recovery."""
        return await self._run(
            _flow.get("operations", operation_id, "recovery", patience=self._patience())
        )

    async def resume(
        self,
        operation_id: str,
        *,
        resume_request_id: Optional[str] = None,
        checkpoint: Optional[Mapping[str, Any]] = None,
    ) -> Document:
        """See Client.resume."""
        return await self._run(
            _dispatch.resume(
                operation_id,
                self._patience(),
                resume_request_id=resume_request_id,
                checkpoint=checkpoint,
            )
        )

    async def cancel(self, operation_id: str, reason: str) -> Document:
        """See Client.cancel."""
        return await self._run(_api.cancel(operation_id, reason, self._patience()))

    async def extend(self, operation_id: str, max_run_ms: int, reason: str) -> Document:
        """See Client.extend."""
        return await self._run(_api.extend(operation_id, max_run_ms, reason, self._patience()))

    async def send_program(
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
        """See Client.send_program."""
        asked = (program, program_input, inputs, message_id, max_run_ms, session_id, labels)
        return await self._run(_programs.send(*asked, self._patience()))

    async def approvals(self) -> list[Document]:
        """See Client.approvals."""
        return await self._run(_flow.all_items("approvals", self._patience()))

    async def answer(
        self, operation_id: str, occurrence: str, choice: str, *, comment: str = ""
    ) -> Document:
        """See Client.answer."""
        flow = _programs.answer(operation_id, occurrence, choice, comment, self._patience())
        return await self._run(flow)

    async def open(
        self,
        message_id: str,
        *,
        max_run_ms: int,
        session_id: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
    ) -> Document:
        """See Client.open."""
        return await self._run(
            _open.begin(message_id, max_run_ms, session_id, labels, self._patience())
        )

    async def invoke(
        self,
        operation_id: str,
        handler: str,
        input: object,  # noqa: A002  # the wire's word
        *,
        request_id: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        continuation: Optional[int] = None,
    ) -> Any:
        """See Client.invoke."""
        body = self._asked(handler, input, request_id, timeout_ms, continuation)
        return await self._run(_open.call(operation_id, body, self._patience()))

    async def note(self, operation_id: str) -> str:
        """See Client.note."""
        return await self._run(_open.note(operation_id, self._patience()))

    async def continue_(
        self,
        operation_id: str,
        *,
        after: int,
        trigger: str = "manual",
        request_id: Optional[str] = None,
    ) -> Document:
        """See Client.continue_."""
        return await self._run(
            _open.go_on(operation_id, after, trigger, request_id, self._patience())
        )

    async def end(self, operation_id: str, n: int, reason: str) -> Document:
        """See Client.end."""
        return await self._run(_open.end(operation_id, n, reason, self._patience()))

    def effects(self, **filters: Filter) -> AsyncIterator[Document]:
        """See Client.effects."""
        return self._pages("effects", filters)

    async def effect(self, effect_id: str) -> Document:
        """See Client.effect."""
        return await self._run(_flow.get("effects", effect_id, patience=self._patience()))

    async def resolve(  # one for each field of the request
        self,
        effect_id: str,
        outcome: str,
        evidence: str,
        *,
        result: object = _api.NO_RESULT,
        if_revision: Optional[int] = None,
    ) -> Document:
        """See Client.resolve."""
        return await self._run(
            _api.resolve(effect_id, outcome, evidence, result, if_revision, self._patience())
        )

    async def reconcile(self, effect_id: str) -> Document:
        """See Client.reconcile."""
        return await self._run(_api.reconcile(effect_id, self._patience()))

    async def events(self, after: int = 0, *, follow: bool = False) -> AsyncIterator[Document]:
        """See Client.events."""
        events = Events(after, follow)
        patience = self._patience()
        while True:
            try:
                async with closing(self._event_bytes(events.request())) as pieces:
                    async for data in pieces:
                        patience.answered()
                        for event in events.feed(data):
                            yield event
                if not follow:
                    return
                fault: EffectdError = AnswerLost("the stream of events ended")
            except (Unreachable, Refused) as error:
                fault = error
            await asyncio.sleep(_api.again(fault, patience).seconds)

    async def _event_bytes(self, send: Send) -> AsyncGenerator[bytes, None]:
        refusal = _api.RefusalText(self._max_answer)
        async with closing(self._transport.stream(send)) as pieces:
            async for head, data in pieces:
                if head.status >= 300:
                    refusal.add(head, data)
                elif data:
                    yield data
        refusal.raise_for_it()

    async def _pages(self, noun: str, filters: Mapping[str, Filter]) -> AsyncIterator[Document]:
        pages = Pages(noun, filters, self._patience())
        while pages.more:
            for item in await self._run(pages.page()):
                yield item
