"""The example of an agent (examples/agent), cut off and killed at random moments.

Its model is the worst there is: it ignores the note, and after each interruption asks for
everything again. In the end each write is there once, or is honestly reported as unknown.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from effectd.client import Client
from tests.e2e.support.api import Document, fresh_id
from tests.e2e.support.daemon import Daemon, new_daemon

EXAMPLE = Path(__file__).parents[2] / "examples" / "agent"
END_S = 90.0
STEPS = 4  # of six: every run is cut off by its time limit once, whatever else happens


class Run:
    """Agents on one daemon, one after the other until a task is finished."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.world = daemon.base / "world"
        prepare = [sys.executable, str(EXAMPLE / "prepare.py"), str(daemon.base)]
        subprocess.run(prepare, check=True, timeout=END_S)

    def agent(self, task: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(EXAMPLE / "agent.py"), str(self.daemon.base), task]
        pipe = subprocess.PIPE
        return subprocess.Popen([*command, str(STEPS)], stdout=pipe, stderr=pipe, text=True)

    def finish(self, task: str, running: subprocess.Popen[str] | None = None) -> dict[str, Any]:
        """Its final answer: of the agent that runs, else of another one."""
        agent = running or self.agent(task)
        try:
            out, err = agent.communicate(timeout=END_S)
        finally:
            agent.kill()
            agent.wait()
        if agent.returncode and running is not None and "Unreachable" in err:
            return self.finish(task)  # it came when nobody was there yet, and had sent nothing
        assert agent.returncode == 0, err
        answer: dict[str, Any] = json.loads(out)
        return answer

    def made(self, task: str) -> dict[str, int]:
        """How often each write of the task is out there: `mail t-apples` to its count."""
        counts: dict[str, int] = {}
        for name in self.world.iterdir():
            tool, order = name.name.split()[:2]
            if order.startswith(f"{task}-"):
                counts[f"{tool} {order}"] = counts.get(f"{tool} {order}", 0) + 1
        return counts

    def operation(self, task: str) -> Document:
        (found,) = self.daemon.api.get("operations", request_id=task)["items"]
        return dict(found)

    def check(self, task: str, answer: dict[str, Any]) -> None:
        made, done, unknown = self.made(task), answer["done"], answer["unknown"]
        assert len(done) + len(unknown) == 6, answer
        assert set(made.values()) <= {1}, f"made twice: {made}"
        assert set(done) <= set(made), f"told as done and not there: {answer}, {made}"
        assert all(name.startswith("mail ") for name in unknown), answer
        state = self.operation(task)["state"]
        assert state == ("unknown" if unknown else "succeeded"), answer


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with new_daemon() as daemon:
        made = Run(daemon)
        daemon.start()
        yield made


GUARANTEES = pytest.mark.guarantee("A3", "A4", "A6", "A7", "A8", "A9")


@GUARANTEES
def test_an_agent_that_runs_out_of_time_does_everything_once(run: Run) -> None:
    task = fresh_id("calm")
    answer = run.finish(task)
    run.check(task, answer)
    assert answer["unknown"] == []
    triggers = [one["trigger"] for one in run.operation(task)["continuations"]]
    assert triggers == ["message", "auto"]
    # And who asks again, with another agent, is told the same.
    assert run.finish(task) == answer


@GUARANTEES
def test_a_daemon_killed_just_before_the_agent_says_done_is_told_so_afterwards(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from agent import Agent

    task = fresh_id("late")
    with Client(run.daemon.api.socket_path) as client:
        end, kills = client.end, [1]

        def end_after_a_kill(*given: Any) -> Any:
            if kills:
                kills.pop()
                run.daemon.restart()
            return end(*given)

        monkeypatch.setattr(client, "end", end_after_a_kill)
        run.check(task, Agent(client, task, 1_000).run())
    reasons = [one["reason"] for one in run.operation(task)["continuations"]]
    assert reasons == ["restart", "done"]


def killed(run: Run, rng: random.Random, longest_s: float) -> None:
    """One task, in which the agent, the daemon or both are killed once, at some moment."""
    task = fresh_id("killed")
    agent = run.agent(task)
    # Any moment will do, also one before or after everything.
    time.sleep(rng.uniform(0, longest_s))
    victims = rng.choice([("agent",), ("daemon",), ("agent", "daemon")])
    if "agent" in victims:
        agent.kill()
        agent.communicate()
    if "daemon" in victims:
        run.daemon.restart()
    run.check(task, run.finish(task, None if "agent" in victims else agent))


def calm_s(run: Run) -> float:
    began = time.monotonic()
    run.finish(fresh_id("timed"))
    return time.monotonic() - began


@pytest.mark.timeout(450)
@GUARANTEES
def test_whoever_is_killed_at_whatever_moment_each_write_is_made_once_or_reported(
    run: Run,
) -> None:
    rng, longest_s = random.Random(1), calm_s(run)
    for _ in range(5):
        killed(run, rng, longest_s)


@pytest.mark.long
@pytest.mark.timeout(3600)
@GUARANTEES
def test_a_hundred_kills_later_that_is_still_so(run: Run) -> None:
    rng, longest_s = random.Random(), calm_s(run)
    for _ in range(100):
        killed(run, rng, longest_s)
