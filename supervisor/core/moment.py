"""When something is decided: given to the core, never read by it."""

from __future__ import annotations

from frozen import frozen


@frozen
class Moment:
    """Wall time and the boot's monotonic time, both in integer nanoseconds."""

    wall: int
    mono: int
    boot_id: str
