"""One client's connection: requests in, answers out, in order, until either side ends it."""

from __future__ import annotations

import h11
import trio

from supervisor.server import problem
from supervisor.server.hangup import HangUps
from supervisor.server.messages import App, Request, Response, ServerLimits
from supervisor.server.peer import Peer
from supervisor.server.problem import Fault
from supervisor.server.receiving import Receiver
from supervisor.server.sending import GoneError, Sender, complain, response_head


class Connection:
    """Serves one peer. Never raises for what a client or the application does."""

    def __init__(
        self,
        stream: trio.SocketStream,
        peer: Peer,
        app: App,
        limits: ServerLimits,
        hang_ups: HangUps,
    ) -> None:
        self._stream = stream
        self._peer = peer
        self._app = app
        self._hang_ups = hang_ups
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.header_bytes)
        self._sender = Sender(stream, self._http, limits)
        self._receiver = Receiver(stream, self._http, limits, self._sender)

    async def run(self) -> None:
        """Serve requests one after the other; pipelined ones wait in the socket."""
        try:
            await self._exchanges()
        except GoneError:
            pass
        except Exception as error:  # noqa: BLE001 -- one connection's failure is not the daemon's
            # The answer has begun, so the only honest end is a cut connection.
            complain(f"an answer to process {self._peer.pid} was cut off by a failure:", error)

    async def _exchanges(self) -> None:
        first = True
        try:
            while await self._exchange(first=first):
                first = False
        except Fault as fault:
            await self._sender.refuse(fault.answer, self._receiver.method)

    async def _exchange(self, *, first: bool) -> bool:
        """Serve one request; whether another may follow."""
        request = await self._receiver.request(self._peer, first=first)
        if request is None:
            return False
        self._check_peer()
        with self._hang_ups.cancelling(self._stream.socket.fileno()):
            head, answer = await self._answer(request)
            await self._sender.respond(head, answer.body, request.method)
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def _check_peer(self) -> None:
        try:
            alive = self._peer.is_alive()
        except OSError:
            raise Fault(problem.out_of_files()) from None
        if not alive:
            # Somebody else holds the connection: nobody knows who asks.
            raise Fault(problem.peer_ended(self._peer.pid))

    async def _answer(self, request: Request) -> tuple[h11.Response, Response]:
        try:
            answer = await self._app(request)
            return response_head(answer), answer
        except Exception as error:  # noqa: BLE001 -- one request's failure is not the daemon's
            where = f"{request.method} /{'/'.join(request.path)}"
            whose = f"process {request.peer.pid}, uid {request.peer.uid}"
            complain(f"{where!r} ({whose}) failed inside:", error)
            answer = problem.internal_error(request.method)
            return response_head(answer), answer


async def refuse(stream: trio.SocketStream, answer: Response, limits: ServerLimits) -> None:
    """Answer a connection whose requests are not read."""
    await Sender(stream, h11.Connection(h11.SERVER), limits).refuse(answer)
