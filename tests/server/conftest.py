"""A real server on a real socket in a directory of its own, and clients made of bytes."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from supervisor.server import App, Peer, Request, Response, ServerLimits, bind, serve


@attrs.frozen
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, object]:
        return json.loads(self.body)

    @property
    def code(self) -> object:
        assert self.headers["content-type"] == "application/problem+json"
        assert set(self.document) == {"type", "code", "title", "detail", "fix", "retryable"}
        assert self.document["type"] == f"urn:effectd:{self.document['code']}"
        return self.document["code"]


class Client:
    """Speaks bytes, reads answers strictly."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def answer(self, *, head: bool = False) -> Answer:
        while b"\r\n\r\n" not in self._buffer:
            await self._more()
        raw, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        line, *fields = raw.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (f.split(": ", 1) for f in fields)}
        assert line.startswith("HTTP/1.1 ")
        length = 0 if head else int(headers.get("content-length", 0))
        while len(self._buffer) < length:
            await self._more()
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return Answer(int(line.split()[1]), headers, body)

    async def get(self, target: str = "/") -> Answer:
        await self.send(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return await self.answer()

    async def ended(self) -> bytes:
        """What still comes, up to the end of the connection."""
        try:
            while data := await self.stream.receive_some(65_536):
                self._buffer += data
        except trio.BrokenResourceError:
            pass
        return self._buffer

    async def until(self, text: bytes) -> bytes:
        while text not in self._buffer:
            await self._more()
        return self._buffer

    async def _more(self) -> None:
        data = await self.stream.receive_some(65_536)
        assert data, f"the connection ended after {self._buffer!r}"
        self._buffer += data


@attrs.frozen
class Server:
    path: Path
    scope: trio.CancelScope

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        async with await trio.open_unix_socket(str(self.path)) as stream:
            yield Client(stream)

    async def get(self, target: str = "/") -> Answer:
        async with self.client() as client:
            return await client.get(target)


def anybody(_peer: Peer) -> str | None:
    return None


async def echo(request: Request) -> Response:
    """Say what arrived."""
    seen = {
        "method": request.method,
        "path": request.path,
        "query": dict(request.query),
        "headers": dict(request.headers),
        "body": request.body.decode("latin-1"),
    }
    return Response(200, {"content-type": "application/json"}, json.dumps(seen).encode())


Served = Callable[..., AbstractAsyncContextManager[Server]]


@pytest.fixture
def directory() -> Iterator[Path]:
    # Short on purpose: a Unix socket's path has 107 bytes.
    path = Path(tempfile.mkdtemp(prefix="efd-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def autojump_clock() -> MockClock:
    """Time passes only when every task waits, and then at once."""
    return MockClock(autojump_threshold=0)


@pytest.fixture
def served(directory: Path) -> Served:
    @asynccontextmanager
    async def start(
        app: App = echo,
        *,
        peer_check: Callable[[Peer], str | None] = anybody,
        **limits: int,
    ) -> AsyncIterator[Server]:
        path = directory / "s"
        with bind(path) as listener:
            async with trio.open_nursery() as nursery:

                async def run(task_status: trio.TaskStatus[None]) -> None:
                    bounds = ServerLimits(**limits)
                    await serve(
                        [listener],
                        app,
                        limits=bounds,
                        peer_check=peer_check,
                        task_status=task_status,
                    )

                await nursery.start(run)
                yield Server(path, nursery.cancel_scope)
                nursery.cancel_scope.cancel()

    return start
