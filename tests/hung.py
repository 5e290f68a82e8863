"""An async test that hangs is cancelled, and harms no other test.

pytest-timeout's alarm raises wherever the main thread happens to be. Inside trio's scheduler that
leaves every task half run: its descriptors, children and sockets then belong to nobody, and tests
that count such things fail next. So the first alarm of an async test cancels it, from a place where
trio allows that; only a test that does not end even then meets the second one, which raises.
"""

from __future__ import annotations

import functools
import signal
import traceback
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType

import pytest
import trio

# What a cancelled test may take to end its children and to say why it did not pass.
SECOND_ALARM_S = 30.0


def run(test: Callable[..., Awaitable[None]], args: dict[str, object]) -> None:
    """Run it under trio; an alarm (SIGALRM) ends it with the failure *timeout*."""
    waiting: list[str] = []
    trio.run(functools.partial(_cancellable, test, args, waiting), clock=args.get("autojump_clock"))
    if waiting:
        pytest.fail("timeout; its tasks waited at\n" + "\n".join(waiting), pytrace=False)


async def _cancellable(
    test: Callable[..., Awaitable[None]], args: dict[str, object], waiting: list[str]
) -> None:
    token, me = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()
    with trio.CancelScope() as scope:

        def give_up() -> None:
            waiting.extend(_stacks(me))
            scope.cancel()

        def alarm(_number: int, _frame: FrameType | None) -> None:
            signal.signal(signal.SIGALRM, raising)
            signal.setitimer(signal.ITIMER_REAL, SECOND_ALARM_S)
            token.run_sync_soon(give_up)

        raising = signal.signal(signal.SIGALRM, alarm)
        try:
            await test(**args)
        except BaseException as error:
            if waiting:
                error.add_note("after a timeout; its tasks waited at\n" + "\n".join(waiting))
            raise
        finally:
            signal.signal(signal.SIGALRM, raising)


def _stacks(task: trio.lowlevel.Task) -> Iterator[str]:
    """Where this task and all below it wait."""
    lines = traceback.StackSummary.extract(task.iter_await_frames()).format()
    yield f"{task.name}:\n{''.join(lines)}"
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            yield from _stacks(child)
