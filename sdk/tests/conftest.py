"""The server, and both clients behind one face, so that every test is about both."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

import pytest

from effectd.client import AsyncClient, Client
from sdk.tests.fake_daemon import Server


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory whose path is short enough for a socket in it."""
    path = tempfile.mkdtemp(prefix="effectd-sdk-")
    yield Path(path)
    shutil.rmtree(path)


@pytest.fixture
def server(directory: Path) -> Iterator[Server]:
    made = Server(str(directory / "effectd.sock"))
    made.start()
    yield made
    made.stop()
    made.join()


class Face:
    """A client whose methods return values and lists, blocking or not."""

    def __init__(self, client: Any, loop: Optional[asyncio.AbstractEventLoop]) -> None:
        self.client = client
        self.loop = loop

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            found = method(*args, **kwargs)
            if self.loop is None:
                return list(found) if hasattr(found, "__next__") else found
            if hasattr(found, "__anext__"):
                return self.loop.run_until_complete(_collect(found))
            return self.loop.run_until_complete(found)

        return call

    def first_events(self, count: int, after: int = 0) -> list[Any]:
        """The first events of an endless stream, and then its end."""
        if self.loop is None:
            stream = self.client.events(after, follow=True)
            with contextlib.closing(stream):
                return [next(stream) for _ in range(count)]

        async def some() -> list[Any]:
            stream = self.client.events(after, follow=True)
            found = [await stream.__anext__() for _ in range(count)]
            await stream.aclose()
            return found

        return self.loop.run_until_complete(some())


async def _collect(stream: Any) -> list[Any]:
    return [item async for item in stream]


@pytest.fixture(params=["blocking", "asyncio"])
def make_client(request: pytest.FixtureRequest) -> Iterator[Callable[..., Face]]:
    with contextlib.ExitStack() as stack:
        loop = None
        if request.param == "asyncio":
            loop = asyncio.new_event_loop()
            stack.callback(loop.close)

        def make(path: Any, **settings: Any) -> Face:
            if loop is None:
                return Face(stack.enter_context(Client(path, **settings)), None)
            client = AsyncClient(path, **settings)
            stack.callback(lambda: loop.run_until_complete(client.aclose()))
            return Face(client, loop)

        yield make


@pytest.fixture
def client(server: Server, make_client: Callable[..., Face]) -> Face:
    return make_client(server.path, patience_ms=5_000)
