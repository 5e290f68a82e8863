"""The world outside: what handlers really change, counted, with slow and forgetful providers.

A request that was sent arrives at once or later, within `SETTLE_MS`, whatever became of
its sender. A provider with keys makes a second request under a remembered key a
no-op; it forgets a key as soon as it may.
"""

from __future__ import annotations

from collections import Counter

import attrs

from supervisor.core.contract import Contract
from supervisor.core.ids import AttemptKey, EffectId

SETTLE_MS = 5_000
KEY_VALID_MS = 60_000
# `key_valid_ms` is what a manifest dares to promise: less than the provider remembers, by
# the time that a request may still be on its way.
REMEMBERED_MS = KEY_VALID_MS + SETTLE_MS
MS = 1_000_000


@attrs.define
class Request:
    """On its way; `latest` is when it must have arrived."""

    effect_id: EffectId
    contract: Contract
    sender: AttemptKey
    latest: int


class World:
    def __init__(self) -> None:
        self.now = 0  # the real time in ns, which no clock of the host's can set back
        self.changes: Counter[EffectId] = Counter()
        self.first: dict[EffectId, int] = {}
        self.flying: list[Request] = []
        self.answered: set[tuple[EffectId, AttemptKey]] = set()

    def wait(self, ms: int) -> None:
        """Time passes; what must have arrived meanwhile arrives at its last moment."""
        until = self.now + ms * MS
        due = [r for r in self.flying if r.latest <= until]
        for request in sorted(due, key=lambda r: r.latest):
            self.now = max(self.now, request.latest)
            self.arrive(request)
        self.now = until

    def send(self, effect_id: EffectId, contract: Contract, sender: AttemptKey) -> None:
        self.flying.append(Request(effect_id, contract, sender, self.now + SETTLE_MS * MS))

    def arrive(self, request: Request) -> None:
        self.flying.remove(request)
        effect_id = request.effect_id
        self.answered.add((effect_id, request.sender))
        if request.contract is Contract.IDEMPOTENCY_KEY:
            since = self.first.setdefault(effect_id, self.now)
            if self.changes[effect_id] and self.now - since < REMEMBERED_MS * MS:
                return
        self.changes[effect_id] += 1

    def on_its_way(self, effect_id: EffectId) -> bool:
        return any(request.effect_id == effect_id for request in self.flying)

    def made(self, effect_id: EffectId) -> bool:
        return self.changes[effect_id] > 0
