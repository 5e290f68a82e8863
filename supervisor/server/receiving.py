"""Requests on their way in: bounds, read timeouts, and faults that say what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import h11
import trio

from supervisor.server import problem, target
from supervisor.server.messages import Request, Response, ServerLimits
from supervisor.server.peer import Peer
from supervisor.server.problem import Fault
from supervisor.server.sending import Sender

_RECEIVE_BYTES = 16_384
_PROGRESS_BYTES = 16_384
# One-byte chunks cost a hundred times their bytes in parsing.
_CHUNKS_MAX = 4_096


class Receiver:
    """The reading half of one connection."""

    def __init__(
        self,
        stream: trio.SocketStream,
        http: h11.Connection,
        limits: ServerLimits,
        sender: Sender,
    ) -> None:
        self._stream = stream
        self._http = http
        self._limits = limits
        self._sender = sender
        self.method = ""
        """The method of the newest request line, for a fault's answer: HEAD has no body."""

    async def request(self, peer: Peer, *, first: bool) -> Request | None:
        """Receive a whole request; None when the client has no more of them.

        Raises `Fault`, and `sending.GoneError` when the client is not there any more.
        """
        self.method = ""
        try:
            head = await self._head(first=first)
            if head is None:
                return None
            self.method = head.method.decode("ascii")
            path, query = self._check(head)
            return Request(
                method=self.method,
                path=path,
                query=query,
                headers=_joined(head.headers),
                body=await self._body(),
                peer=peer,
            )
        except target.BadTargetError as error:
            raise Fault(problem.bad_request(f"{error}.")) from None
        except h11.RemoteProtocolError as error:
            raise Fault(self._unreadable(error)) from error
        except trio.BrokenResourceError:
            return None

    async def _head(self, *, first: bool) -> h11.Request | None:
        limits = self._limits
        begun = first or bool(self._http.trailing_data[0])
        wait_ms = limits.header_timeout_ms if begun else limits.idle_timeout_ms
        arrived = bool(self._http.trailing_data[0])
        with trio.move_on_after(wait_ms / 1000) as waiting:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                data = await self._stream.receive_some(_RECEIVE_BYTES)
                if data and not begun:
                    begun = True
                    waiting.deadline = trio.current_time() + limits.header_timeout_ms / 1000
                arrived = arrived or bool(data)
                self._http.receive_data(data)
            return event if isinstance(event, h11.Request) else None
        if not arrived:
            return None  # it connected or stayed, and never asked for anything
        raise Fault(problem.too_slow("The request's headers", limits.header_timeout_ms))

    def _check(self, head: h11.Request) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]:
        limits = self._limits
        if head.http_version not in {b"1.0", b"1.1"}:
            version = head.http_version.decode("ascii")
            raise Fault(
                problem.bad_request(
                    f"HTTP/{version} is not spoken here.", "Use HTTP/1.1 (curl --http1.1)."
                )
            )
        size = len(head.target) + sum(len(name) + len(value) + 4 for name, value in head.headers)
        if len(head.headers) > limits.header_count or size > limits.header_bytes:
            raise Fault(self._header_too_large())
        lengths = [value for name, value in head.headers if name == b"content-length"]
        if lengths and int(lengths[0]) > limits.body_bytes:
            raise Fault(problem.body_too_large(limits.body_bytes))
        return target.parse(head.target.decode("ascii"))

    async def _body(self) -> bytes:
        limits = self._limits
        if self._http.they_are_waiting_for_100_continue:
            await self._sender.proceed()
        body = bytearray()
        chunks = 0
        goal = _PROGRESS_BYTES
        timeout = limits.body_timeout_ms / 1000
        with trio.move_on_after(timeout) as waiting:
            while True:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    self._http.receive_data(await self._stream.receive_some(_RECEIVE_BYTES))
                elif isinstance(event, h11.Data):
                    body += event.data
                    chunks += event.chunk_start
                    if len(body) > limits.body_bytes or chunks > _CHUNKS_MAX:
                        raise Fault(problem.body_too_large(limits.body_bytes))
                    if len(body) >= goal:
                        goal = len(body) + _PROGRESS_BYTES
                        waiting.deadline = trio.current_time() + timeout
                else:
                    return bytes(body)
        raise Fault(
            problem.too_slow(f"{_PROGRESS_BYTES} bytes of the body", limits.body_timeout_ms)
        )

    def _unreadable(self, error: h11.RemoteProtocolError) -> Response:
        if error.error_status_hint == 431:
            return self._header_too_large()
        return problem.bad_request(f"The bytes received are not a request: {error}.")

    def _header_too_large(self) -> Response:
        limits = self._limits
        return problem.header_too_large(
            f"A request may have {limits.header_count} headers and {limits.header_bytes} bytes "
            "of them, its target included; nothing of it was done."
        )


def _joined(headers: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return MappingProxyType(joined)
