"""Results that are too large for their records: written before, read back when asked for.

All of it happens in threads: the loop never waits for the disk.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Container
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import trio

from frozen import frozen
from sandbox import scarce
from supervisor.core.record import Blob, Result
from supervisor.journal import blobs
from supervisor.journal.blobs import Loss

# A file costs two syncs more and most of a millisecond; a value of this size costs every
# snapshot and each second of the daemon's life as much memory as a whole small operation.
LARGE_BYTES = 16_384
# One thread removes so many at a time.
_BATCH = 64


@frozen
class Value:
    """What was in a blob."""

    value: Any


class Blobs:
    """One state directory's blobs. Nothing of them is in memory but what is on its way."""

    def __init__(self, state_dir: Path) -> None:
        self.directory = state_dir / blobs.DIRECTORY
        # Written or asked for since the last look at what nobody names: not to be removed.
        self._fresh: set[str] = set()
        self._writing: dict[str, int] = {}
        self._leaving: frozenset[str] = frozenset()
        self._left = trio.lowlevel.ParkingLot()

    async def keep(self, result: Result) -> Result:
        """The result as its record is to carry it: a large value is in its blob on return.

        Without room, or when the disk fails, the value is lost and the outcome is not; without
        a thread or a descriptor to write with, it stays as it is.
        """
        content = _content(result)
        if content is None or len(content) <= LARGE_BYTES:
            return result
        digest = blobs.digest_of(content)
        try:
            async with self._held(digest):
                await scarce.in_thread(blobs.put, self.directory, digest, content)
        except OSError as error:
            if error.errno in scarce.ERRORS:
                return result
            _say(f"a result of {len(content)} bytes was not kept: {error}")
            return Result(unavailable="no_space")
        return Result(blob=Blob(digest, len(content)))

    @asynccontextmanager
    async def _held(self, digest: str) -> AsyncGenerator[None]:
        """Nobody removes the file meanwhile, nor before the next look at what is named."""
        while digest in self._leaving:
            await self._left.park()
        self._fresh.add(digest)
        self._writing[digest] = self._writing.get(digest, 0) + 1
        try:
            yield
        finally:
            self._writing[digest] -= 1
            if not self._writing[digest]:
                del self._writing[digest]

    async def load(self, blob: Blob) -> Value | Loss:
        """The value, or why it is lost. OSError when nobody can tell just now."""
        content = await scarce.in_thread(blobs.read, self.directory, blob.digest, blob.bytes)
        return content if isinstance(content, Loss) else Value(orjson.loads(content))

    async def sweep(
        self, named: Callable[[], Container[str]], durable: Callable[[], Awaitable[None]]
    ) -> int:
        """Remove what nothing names any more, and say how many that were.

        `durable` returns when what `named` says now is on disk: a file goes only after the
        record by which its last name went. What is named later was put here meanwhile.
        """
        self._fresh = set(self._writing)
        found = await scarce.in_thread(blobs.stored, self.directory)
        unnamed = [digest for digest in found if digest not in named()]
        if unnamed:
            await durable()
        gone = 0
        for start in range(0, len(unnamed), _BATCH):
            batch = frozenset(unnamed[start : start + _BATCH]) - self._fresh
            gone += await self._remove(frozenset(one for one in batch if one not in named()))
        return gone

    async def _remove(self, digests: frozenset[str]) -> int:
        self._leaving, gone = digests, 0
        try:
            # To its end: a thread that was left behind would remove what is put here later.
            with trio.CancelScope(shield=True):
                gone = await scarce.in_thread(blobs.remove, self.directory, digests)
        finally:
            self._leaving = frozenset()
            self._left.unpark_all()
        return gone


def _content(result: Result) -> bytes | None:
    """The value's JSON; None where there is none."""
    if not result.available or result.blob is not None or result.value is None:
        return None
    try:
        return orjson.dumps(result.value, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):
        return None  # the journal's encoder says what is wrong with it


def _say(text: str) -> None:
    print(f"effectd: {text}", file=sys.stderr, flush=True)  # noqa: T201  # the service manager's log
