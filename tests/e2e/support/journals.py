"""Journals made by hand, as a daemon that was killed at some moment would have left them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import trio

from supervisor.core.record import Record
from supervisor.journal.log import Journal
from supervisor.journal.read import read_frames
from supervisor.journal.records import decode, encode

# Small segments are made and read faster; the daemon reads segments of any size.
SEGMENT_BYTES = 1 << 18

Frames = list[tuple[Record, ...]]


def read(directory: Path) -> Frames:
    """Every decision of a journal whose daemon is dead."""
    return [decode(frame.payload) for frame in read_frames(directory, unattested=True)]


def write(directory: Path, frames: Sequence[tuple[Record, ...]]) -> None:
    """Exactly these decisions, instead of whatever is there and of what a witness saw of it."""
    state = directory.parent
    for old in (directory, state.with_name(f"{state.name}-witness")):
        shutil.rmtree(old, ignore_errors=True)
    trio.run(_append, directory, frames)


async def _append(directory: Path, frames: Sequence[tuple[Record, ...]]) -> None:
    journal = Journal.open(directory, lambda _frame: None, segment_bytes=SEGMENT_BYTES)
    journal.start()
    position = 0
    for records in frames:
        position = journal.append(encode(records))
    await journal.durable(position)
    await journal.close()
