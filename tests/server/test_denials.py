"""A denial names the user; that host's user database may be slow, and nobody else waits for it."""

from __future__ import annotations

import os
import pwd
import threading

import pytest
import trio

from config.access import Denial
from supervisor.core.errors import Refusal
from supervisor.service import context
from supervisor.service.context import Lacking


def denial(user: str) -> Denial:
    return Denial("role run", f"{user} does not hold the role run", f"usermod -aG clients {user}")


@pytest.mark.guarantee("R12")
async def test_a_denial_names_user_grant_and_remedy() -> None:
    known = pwd.getpwuid(os.getuid()).pw_name
    for uid, name in ((os.getuid(), known), (4_000_000_000, "4000000000")):
        refusal = await Lacking(denial).refusal(uid)
        assert (refusal.code, refusal.needs) == ("AccessDenied", "role run")
        assert refusal.detail == f"{name} does not hold the role run"
        assert refusal.fix == f"usermod -aG clients {name}"


async def test_a_user_database_that_does_not_answer_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slow(uid: int) -> str:
        asked.set()
        assert answer.wait(10)
        return str(uid)

    monkeypatch.setattr(context, "_user_name", slow)
    found: list[Refusal] = []

    async def deny() -> None:
        found.append(await Lacking(denial).refusal(7))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(deny)
            while not asked.is_set():  # noqa: ASYNC110 - set by another thread
                await trio.sleep(0.001)
            # Were it looked up here, this line would not be reached.
            assert found == []
            answer.set()
    assert found[0].detail == "7 does not hold the role run"
