"""When the daemon, the launcher or both are killed, so is everything they started."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.sandbox.support import new_tag, no_survivors, tagged, wait_until
from tests.sandbox.test_endings import MODES

DAEMON = Path(__file__).with_name("daemon.py")
BOUND_S = 1.0
LONG = (pytest.mark.long, pytest.mark.timeout(1_800))


class Daemons:
    """Daemon processes, one at a time. Their command lines do not hold what they start."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, DAEMON], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = 0
        self.launcher = 0
        self.alive = False

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def start(self, how: str, commands: list[list[str]]) -> None:
        assert self.process.stdin is not None
        print(json.dumps([how, *commands]), file=self.process.stdin, flush=True)
        self.pid, self.launcher = int(self.line()), int(self.line())
        self.alive = True
        assert self.line() == "ready"

    def kill(self, whom: str) -> None:
        if whom != "launcher":
            self.alive = False
            os.kill(self.pid, signal.SIGKILL)
        if whom != "daemon":
            # With "both", the launcher may have followed the daemon already.
            with contextlib.suppress(ProcessLookupError) if whom == "both" else nullcontext():
                os.kill(self.launcher, signal.SIGKILL)

    def finish(self) -> None:
        """See the present daemon buried."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
        while self.line() != "reaped":
            pass  # a burst's second "ready"

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    daemons = Daemons()
    yield daemons
    daemons.close()


@pytest.mark.guarantee("S2")
@pytest.mark.parametrize("whom", ["daemon", "launcher", "both"])
@pytest.mark.parametrize("rounds", [3, pytest.param(30, marks=LONG)])
def test_no_adversary_outlives_its_host(
    adversary: str, daemons: Daemons, whom: str, rounds: int
) -> None:
    for _ in range(rounds):
        tag = new_tag()
        with no_survivors(tag):
            daemons.start("settled", [[adversary, mode, "30000", tag] for mode in MODES])
            assert len(tagged(tag)) > len(MODES)
            daemons.kill(whom)
            wait_until(lambda t=tag: not tagged(t), BOUND_S)
            daemons.finish()


@pytest.mark.guarantee("S2")
@pytest.mark.parametrize(
    ("whom", "trials"),
    [
        ("daemon", 40),
        ("launcher", 10),
        ("both", 10),
        *(pytest.param(whom, 300, marks=LONG) for whom in ("daemon", "launcher", "both")),
    ],
)
def test_killing_in_the_middle_of_a_burst_leaves_nothing(
    adversary: str, daemons: Daemons, whom: str, trials: int
) -> None:
    """The race that parent-death signals have: armed just after the parent died.

    Inits that nobody dispatched to have no tag: they are found as the launcher's children.
    """
    chance = random.Random(0)
    most = 0
    for _ in range(trials):
        tag = new_tag()
        with no_survivors(tag):
            daemons.start("burst", [[adversary, "daemon", "30000", tag]] * 20)
            time.sleep(chance.random() * 0.05)
            inits = set(_children(daemons.launcher))
            daemons.kill(whom)
            inits |= set(_children(daemons.launcher))
            most = max(most, len(inits))
            wait_until(lambda t=tag, i=inits: not tagged(t) and not _live_inits(i), BOUND_S)
            daemons.finish()
    assert most > 1, "no burst was ever under way"


def _children(pid: int) -> list[tuple[int, str]]:
    """(pid, start time) of each; nothing once the parent is gone."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [(int(word), _stat(int(word))[1]) for word in text.split()]


def _stat(pid: int) -> tuple[str, str]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "X", ""
    return fields[0], fields[19]


def _live_inits(inits: set[tuple[int, str]]) -> list[int]:
    return [pid for pid, started in inits if _stat(pid)[1] == started and _stat(pid)[0] not in "ZX"]
