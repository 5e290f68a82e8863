"""A state with many operations, and what an answer costs in it."""

from __future__ import annotations

import sys
from collections.abc import Callable

import attrs

from supervisor.core.ids import default_session
from supervisor.core.record import By, Outcome
from tests.core.made import ASK, KEY, NEVER, NONE, Core, effect, terms

USERS = (1000, 1001)
CONTRACTS = (NEVER, NONE, ASK, KEY)


class Crowd(Core):
    """Operations of every standing, of two users, which call two handlers."""

    def one(self, handler: str, uid: int, contract=NEVER):
        of = terms(effect(contract=contract), handler=handler)
        event = self.submitted(of, self.name("r"), session_id=default_session(uid))
        assert self.do(attrs.evolve(event, by=By(uid, 42))).refusal is None
        self.wait(1_000)
        return event.call_id

    def begun(self, handler: str, uid: int, contract=NEVER):
        call_id = self.one(handler, uid, contract)
        self.ready(call_id)
        self.announce(call_id)
        return call_id

    def all_kinds(self, handler: str, uid: int) -> None:
        self.confirm(done := self.begun(handler, uid))
        self.exit(done)
        self.confirm(failed := self.begun(handler, uid), applied=False)
        self.exit(failed, Outcome.FAILED)
        self.cancel(self.one(handler, uid))
        for contract in CONTRACTS:
            self.exit(self.begun(handler, uid, contract), Outcome.FAILED)
        self.begun(handler, uid)
        self.one(handler, uid)


def crowd(times: int = 1) -> Crowd:
    core = Crowd()
    for _ in range(times):
        for uid in USERS:
            for handler in ("charge", "mail"):
                core.all_kinds(handler, uid)
    core.lose(core.begun("charge", 1000))
    core.restart()  # what moves in any of them is interrupted
    for uid in USERS:
        core.begun("charge", uid)
        core.one("mail", uid)
    return core


def work(run: Callable[[], object]) -> int:
    """How many functions of ours are called meanwhile: what time would tell, if it were steady."""
    count = 0

    def called(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count
