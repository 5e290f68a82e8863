"""Clients under load, of a daemon that is killed at any moment: they ask, and remember.

What a client heard is the truth that the journal is held to afterwards. What it did not hear, it
asks again under the same id.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable
from typing import Any

import attrs

from tests.e2e.support.api import Answer, Api, Document, NoAnswer
from tests.e2e.support.manifests import CONTRACTS
from tests.e2e.support.settle import TERMINAL, next_step, take
from tests.e2e.support.world import World

COUNT = 8
# One client never makes more of them before a kill: a slow daemon is killed with fewer.
REQUESTS_MAX = 40


@attrs.define
class Request:
    """One dispatch; `operation_id` when it was acknowledged."""

    handler: str
    body: Document
    operation_id: str | None = None


@attrs.define
class Heard:
    """What all clients together were told, and what they are not sure about."""

    requests: list[Request] = attrs.field(factory=list)
    unsure: list[Request] = attrs.field(factory=list)
    terminal: dict[str, str] = attrs.field(factory=dict)
    open: list[str] = attrs.field(factory=list)
    faults: list[str] = attrs.field(factory=list)
    lock: threading.Lock = attrs.field(factory=threading.Lock)

    def acknowledged(self, request: Request, operation: Document) -> None:
        """A 200 or 202: from now on this operation exists for ever, with this id."""
        one = operation["operation_id"]
        with self.lock:
            if request.operation_id not in {None, one}:
                self.faults.append(f"{request.body['request_id']}: {request.operation_id}, {one}")
            request.operation_id = one
        self.saw(operation)

    def saw(self, operation: Document) -> None:
        """A state that was answered: a terminal one never flips."""
        one, state = operation["operation_id"], operation["state"]
        with self.lock:
            before = self.terminal.get(one)
            if before is not None and before != state:
                self.faults.append(f"{one} was {before} and is {state}")
            if state in TERMINAL:
                self.terminal[one] = state
            elif one not in self.open:
                self.open.append(one)


class Clients:
    """`run` starts them all and returns when each has lost its daemon, or has done its share."""

    def __init__(self, api: Api, world: World, seed: int) -> None:
        self.api = api
        self.world = world
        self.heard = Heard()
        self._chance = random.Random(seed)
        self._serial = 0

    def run(self, kill: Callable[[], None]) -> None:
        """One round: everybody asks until `kill` has happened."""
        threads = [
            threading.Thread(target=self._one, args=(random.Random(self._chance.random()),))
            for _ in range(COUNT)
        ]
        for thread in threads:
            thread.start()
        kill()
        for thread in threads:
            thread.join()

    def _one(self, chance: random.Random) -> None:
        with contextlib.suppress(NoAnswer):
            while self._ask_again():
                pass
            for _ in range(REQUESTS_MAX):
                if chance.random() < 0.6:
                    self._go_on(chance)
                else:
                    self._dispatch(self._new(chance), wait_ms=chance.choice((0, 0, 400)))

    # --- dispatch ---------------------------------------------------------------------

    def _new(self, chance: random.Random) -> Request:
        handler = chance.choice([*CONTRACTS, *(f"{word}-call" for word in CONTRACTS), "mixed"])
        words = list(CONTRACTS) if handler == "mixed" else [handler.split("-")[0]]
        with self.heard.lock:
            self._serial += 1
            request_id = f"load-{self._serial}"
        chosen = chance.sample(words, chance.randint(1, len(words)))
        given = {"tag": request_id, "effects": chosen, "note": True}
        request = Request(handler, {"request_id": request_id, "handler": handler, "input": given})
        with self.heard.lock:
            self.heard.requests.append(request)
        return request

    def _dispatch(self, request: Request, wait_ms: int) -> None:
        try:
            answer = self.api.post("dispatch", {**request.body, "wait_ms": wait_ms})
        except NoAnswer:
            with self.heard.lock:
                self.heard.unsure.append(request)
            raise
        if not self._no_fault(answer):
            return
        self.heard.acknowledged(request, answer.ok())

    def _ask_again(self) -> bool:
        """The same request under the same id; whether there was one."""
        with self.heard.lock:
            request = self.heard.unsure.pop() if self.heard.unsure else None
        if request is not None:
            self._dispatch(request, wait_ms=0)
        return request is not None

    def settle_doubts(self) -> None:
        """Send again whatever was not answered, so that nothing is left in doubt."""
        while self._ask_again():
            pass

    # --- resume, reconcile, resolve ------------------------------------------------------

    def _go_on(self, chance: random.Random) -> None:
        """One step of somebody's operation. Others do the same: a refusal is no fault."""
        with self.heard.lock:
            known = list(self.heard.open)
        if not known:
            return
        one = chance.choice(known)
        recovery = self.api.recovery(one)
        offer = next_step(recovery)
        if offer is not None:
            answer = take(self.api, self.world, recovery, offer)
            if self._no_fault(answer):
                self.heard.saw(answer.ok())
        elif recovery["state"] in TERMINAL:
            with self.heard.lock, contextlib.suppress(ValueError):
                self.heard.open.remove(one)

    def _no_fault(self, answer: Answer) -> bool:
        """Whether it was done. Conflicts are expected, faults of the daemon are kept."""
        if answer.status not in {200, 202, 409}:
            with self.heard.lock:
                self.heard.faults.append(str(answer))
        return answer.status < 300


def every(api: Api, noun: str, **filters: Any) -> list[Document]:
    """All items of a list, page by page."""
    found: list[Document] = []
    cursor: str | None = None
    while True:
        page = api.get(noun, limit=1_000, **filters, **({"cursor": cursor} if cursor else {}))
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found
