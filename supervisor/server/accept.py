"""The front door: accepts, identifies, counts; never spins and never falls over."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Iterable

import trio

from supervisor.server import problem
from supervisor.server.connection import Connection, refuse
from supervisor.server.hangup import HangUps
from supervisor.server.listen import Listener
from supervisor.server.messages import App, Response, ServerLimits
from supervisor.server.peer import Peer, UnidentifiedError, identify
from supervisor.server.sending import complain

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_BACK_OFF_S = 0.1
# Refused clients that are given time to read why, beside `limits.connections`.
_REFUSALS_MAX = 64

PeerCheck = Callable[[Peer], str | None]


async def serve(
    listeners: Iterable[Listener],
    app: App,
    *,
    limits: ServerLimits | None = None,
    peer_check: PeerCheck,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve `app` until cancelled; `task_status` starts once all listeners are served.

    `peer_check` runs at each accept and says why a process may not connect, or
    None; it must not block. The application is cancelled when its client goes
    (it shields what must not be), and never sees a request that is not whole,
    within `limits`, and from the living process that connected. Cancelling cuts
    all connections. The listeners stay open: they are the caller's.
    """
    with HangUps() as hang_ups:
        door = _Door(app, limits or ServerLimits(), peer_check, hang_ups)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang_ups.run)
            for listener in listeners:
                sock = trio.socket.from_stdlib_socket(listener.socket)
                nursery.start_soon(door.accept, trio.SocketListener(sock), nursery)
            task_status.started()


class _Door:
    def __init__(
        self, app: App, limits: ServerLimits, peer_check: PeerCheck, hang_ups: HangUps
    ) -> None:
        self._hang_ups = hang_ups
        self._app = app
        self._limits = limits
        self._peer_check = peer_check
        self._open: Counter[int] = Counter()  # connections by uid
        self._refusals = 0

    async def accept(self, listener: trio.SocketListener, nursery: trio.Nursery) -> None:
        exhausted = False
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                if not exhausted:  # once for each time it happens, not ten times a second
                    complain(f"cannot accept connections for the moment: {error.strerror}")
                exhausted = True
                await trio.sleep(_BACK_OFF_S)
                continue
            exhausted = False
            self._admit(stream, nursery)

    def _admit(self, stream: trio.SocketStream, nursery: trio.Nursery) -> None:
        """Identify the peer now, while it most likely lives, and start serving or refusing it."""
        peer = self._identified(stream)
        if isinstance(peer, Response):
            nursery.start_soon(self._refuse, stream, peer)
            return
        self._open[peer.uid] += 1
        nursery.start_soon(self._serve, stream, peer)

    def _identified(self, stream: trio.SocketStream) -> Peer | Response:
        limits = self._limits
        if self._open.total() >= limits.connections:
            return problem.too_many_connections("The daemon has", limits.connections)
        try:
            peer = identify(stream)
        except UnidentifiedError as error:
            return problem.denied(
                f"Not identified: {error}.", "Connect from a process that lives on and can be seen."
            )
        except OSError:
            return problem.out_of_files()
        refusal = self._refusal(peer)
        if refusal is not None:
            peer.close()
            return refusal
        return peer

    def _refusal(self, peer: Peer) -> Response | None:
        most = self._limits.connections_per_uid
        if self._open[peer.uid] >= most:
            return problem.too_many_connections(f"The user with uid {peer.uid} has", most)
        try:
            reason = self._peer_check(peer)
        except Exception as error:  # noqa: BLE001 -- who cannot be checked is not let in
            complain(f"process {peer.pid} could not be checked:", error)
            reason = f"Process {peer.pid} could not be checked; the daemon's log says why."
        if reason is not None:
            return problem.denied(reason, "Connect from outside the sandboxes that effectd makes.")
        # If it died meanwhile, another process with its number may have been
        # checked. Each request asks again whether it lives, so nothing comes of it.
        return None

    async def _serve(self, stream: trio.SocketStream, peer: Peer) -> None:
        try:
            connection = Connection(stream, peer, self._app, self._limits, self._hang_ups)
            await connection.run()
        finally:
            stream.socket.close()
            peer.close()
            self._open[peer.uid] -= 1

    async def _refuse(self, stream: trio.SocketStream, answer: Response) -> None:
        self._refusals += 1
        try:
            if self._refusals <= _REFUSALS_MAX:
                await refuse(stream, answer, self._limits)
        finally:
            stream.socket.close()
            self._refusals -= 1
