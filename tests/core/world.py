"""The world outside: what handlers really change, counted, with slow and forgetful providers.

A request that was sent arrives at once or later, at most `SETTLE_MS` after its sender's
tree is dead. A provider with keys makes a second request under a remembered key a
no-op; it forgets a key as soon as it may.
"""

from __future__ import annotations

from collections import Counter

import attrs

from supervisor.core.contract import Contract
from supervisor.core.ids import AttemptKey, EffectId

SETTLE_MS = 5_000
KEY_VALID_MS = 60_000
MS = 1_000_000


@attrs.define
class Request:
    """On its way; `latest` is when it must have arrived, None while its sender lives."""

    effect_id: EffectId
    contract: Contract
    sender: AttemptKey
    latest: int | None = None


class World:
    def __init__(self) -> None:
        self.now = 0  # the real time in ns, which no clock of the host's can set back
        self.changes: Counter[EffectId] = Counter()
        self.first: dict[EffectId, int] = {}
        self.flying: list[Request] = []
        self.answered: set[tuple[EffectId, AttemptKey]] = set()

    def wait(self, ms: int) -> None:
        self.now += ms * MS
        self._arrive_what_must()

    def send(self, effect_id: EffectId, contract: Contract, sender: AttemptKey) -> None:
        self.flying.append(Request(effect_id, contract, sender))

    def arrive(self, request: Request) -> None:
        self.flying.remove(request)
        effect_id = request.effect_id
        self.answered.add((effect_id, request.sender))
        if request.contract is Contract.IDEMPOTENCY_KEY:
            since = self.first.setdefault(effect_id, self.now)
            if self.changes[effect_id] and self.now - since < KEY_VALID_MS * MS:
                return
        self.changes[effect_id] += 1

    def died(self, sender: AttemptKey) -> None:
        for request in self.flying:
            if request.sender == sender and request.latest is None:
                request.latest = self.now + SETTLE_MS * MS

    def _arrive_what_must(self) -> None:
        for request in list(self.flying):
            if request.latest is not None and request.latest <= self.now:
                self.arrive(request)

    def on_its_way(self, effect_id: EffectId) -> bool:
        return any(request.effect_id == effect_id for request in self.flying)

    def made(self, effect_id: EffectId) -> bool:
        return self.changes[effect_id] > 0
