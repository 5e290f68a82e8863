"""Time budgets: a reservation is charged whole before a handler starts.

When the handler is seen to end the charge shrinks to the time it took. When nobody
saw it end, nobody knows how long it ran, so the charge stays. Time during which
the daemon was down costs nothing. All values are milliseconds.
"""

from __future__ import annotations

from frozen import frozen
from supervisor.core.changed import changed
from supervisor.core.errors import Refusal


@frozen
class Budget:
    max_run_ms: int
    confirmed_ms: int = 0
    reserved_ms: int = 0

    @property
    def charged_ms(self) -> int:
        return self.confirmed_ms + self.reserved_ms

    @property
    def remaining_ms(self) -> int:
        return self.max_run_ms - self.charged_ms

    def admits(self, reservation_ms: int, margin_ms: int = 0) -> bool:
        # Strictly below: an operation that would spend its last millisecond has no
        # room left in which to say so.
        return self.charged_ms + reservation_ms + margin_ms < self.max_run_ms

    def reserve(self, reservation_ms: int) -> Budget:
        assert reservation_ms > 0
        return changed(self, reserved_ms=self.reserved_ms + reservation_ms)

    def settle(self, reservation_ms: int, active_ms: int) -> Budget:
        """Replace a reservation by what was seen, which is at most what was promised."""
        assert 0 < reservation_ms <= self.reserved_ms
        assert active_ms >= 0
        return changed(
            self,
            reserved_ms=self.reserved_ms - reservation_ms,
            confirmed_ms=self.confirmed_ms + min(active_ms, reservation_ms),
        )

    def extend(self, max_run_ms: int) -> Budget:
        assert max_run_ms > self.max_run_ms
        return changed(self, max_run_ms=max_run_ms)

    def refusal(self, reservation_ms: int, call_id: str) -> Refusal:
        """Say no with the numbers, in both spellings that clients know."""
        return Refusal(
            "RunTimeBudgetExceeded",
            f"{self.charged_ms} ms charged + {reservation_ms} ms to reserve is not below "
            f"the limit of {self.max_run_ms} ms",
            call_id=call_id,
            extra={
                "activeElapsedMs": self.charged_ms,
                "reservationMs": reservation_ms,
                "remainingMs": self.remaining_ms,
                "active_elapsed_ms": self.charged_ms,
                "reservation_ms": reservation_ms,
                "remaining_ms": self.remaining_ms,
                "limit_value": self.max_run_ms,
            },
        )
