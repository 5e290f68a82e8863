"""How long the event loop stands still while the disk does: how late ticks of 1 ms come."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio

from bench.commits import ALIGN, SEGMENT_BYTES, payload
from supervisor.journal.file import Os
from supervisor.journal.log import Journal

if TYPE_CHECKING:
    from typing_extensions import override
else:  # typing.override is 3.12's

    def override(method: object) -> object:
        return method


HANG_MS = 500
_TICK_MS = 1
_APPENDERS = 8
_REST_MS = 200


class HangingDisk(Os):
    """A real disk whose next sync takes `HANG_MS` longer, once `armed` is set."""

    def __init__(self) -> None:
        self.armed = threading.Event()

    @override
    def fdatasync(self, fd: int) -> None:
        if self.armed.is_set():
            self.armed.clear()
            time.sleep(HANG_MS / 1000)
        super().fdatasync(fd)


@attrs.frozen
class Stall:
    """The latest tick of each run, in ns: with a disk that hangs, and with none at all."""

    hanging: tuple[int, ...]
    idle: tuple[int, ...]


async def measure(directory: Path, runs: int) -> Stall:
    hanging: list[int] = []
    idle: list[int] = []
    disk = HangingDisk()
    journal = Journal.open(
        directory, lambda _frame: None, segment_bytes=SEGMENT_BYTES, align=ALIGN, os_=disk
    )
    journal.start()
    try:
        for _ in range(runs):
            idle.append(await _latest_tick())
            hanging.append(await _while_it_hangs(journal, disk))
    finally:
        await journal.close()
    return Stall(tuple(hanging), tuple(idle))


async def _while_it_hangs(journal: Journal, disk: HangingDisk) -> int:
    """`_APPENDERS` tasks go on appending as fast as the disk lets them; one sync hangs."""
    async with trio.open_nursery() as nursery:
        for _ in range(_APPENDERS):
            nursery.start_soon(_append, journal)
        await trio.sleep(_REST_MS / 1000)
        disk.armed.set()
        found = await _latest_tick()
        nursery.cancel_scope.cancel()
    return found


async def _append(journal: Journal) -> None:
    number = 0
    while True:
        number += 1
        await journal.ready(len(payload(number)))
        await journal.durable(journal.append(payload(number)))


async def _latest_tick() -> int:
    """How much later than asked for the latest of the ticks of `HANG_MS` came, in ns."""
    latest = 0
    for _ in range(HANG_MS // _TICK_MS):
        begin = time.perf_counter_ns()
        await trio.sleep(_TICK_MS / 1000)
        latest = max(latest, time.perf_counter_ns() - begin - _TICK_MS * 1_000_000)
    return latest
