"""A test that hangs fails alone."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest
import trio

from tests import hung


@pytest.fixture
def soon() -> Iterator[None]:
    """The alarm comes at once; afterwards the real one has what it had."""
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0.02)
    handler = signal.getsignal(signal.SIGALRM)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, left)


def test_a_test_that_hangs_is_cancelled_tidies_up_and_says_where_it_waited(soon: None) -> None:
    tidied = []

    async def forgotten_event() -> None:
        await trio.Event().wait()

    async def hangs(name: str) -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(forgotten_event)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)
            tidied.append(name)

    with pytest.raises(pytest.fail.Exception, match=r"(?s)timeout.*await trio\.Event\(\)\.wait"):
        hung.run(hangs, {"name": "all of it"})
    assert tidied == ["all of it"]


def test_what_a_cancelled_test_complains_of_keeps_its_words(soon: None) -> None:
    async def complains() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise AssertionError("something is left")

    with pytest.raises(AssertionError, match="something is left") as caught:
        hung.run(complains, {})
    assert "after a timeout" in caught.value.__notes__[0]


def test_one_that_cannot_be_cancelled_meets_the_second_alarm(
    soon: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Raised(Exception):
        pass

    def raising(*_: object) -> None:
        raise Raised

    async def deaf() -> None:
        time.sleep(60)  # noqa: ASYNC251 - it does what no test should

    monkeypatch.setattr(hung, "SECOND_ALARM_S", 0.02)
    signal.signal(signal.SIGALRM, raising)
    with pytest.raises(Raised):
        hung.run(deaf, {})
