"""What a journal says of itself: what opening it found, and how it does."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from frozen import frozen


@frozen
class Recovered:
    """What opening found. `verdict` is `clean` or `torn-tail`, whose bytes are `discarded`.

    The replay began behind position `started_from`, or with the first decision when 0.
    `refused` says of each snapshot that was put into quarantine what is wrong with it.

    `blemishes` name damaged bytes that touch no frame; nothing is lost by them.
    """

    verdict: str
    discarded: int
    frames: int
    position: int
    segments: int
    blemishes: tuple[str, ...]
    took_ms: int
    started_from: int = 0
    refused: Mapping[str, str] = attrs.field(factory=dict[str, str])


@frozen
class Pin:
    """A position that a batch ends at."""

    position: int


@frozen
class JournalStats:
    """Counts since `start`, and how the disk is doing now.

    `in_flight_us` is how long a write that has not returned yet has taken up to now.
    `room` is the guaranteed bytes; `degraded` why no further spare can be made, or None.
    `snapshot` is the position of the newest one, or 0; `snapshot_failed` why the last one
    could not be made, or None.
    """

    syncs: int
    frames: int
    bytes: int
    last_sync_us: int
    in_flight_us: int
    queued_bytes: int
    room: int
    spares: int
    degraded: str | None
    snapshot: int = 0
    snapshot_failed: str | None = None
