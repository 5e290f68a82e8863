"""The plain worker is as good as it claims to be: what the demo shows is not its clumsiness."""

from __future__ import annotations

import time
from typing import Any, cast

from demo.plain import PlainWorker
from demo.processes import end, living, running_from
from demo.stage import Stage
from demo.world import CHARGE, DEEDS, MAIL, REPORT, TICKET, Deed

DEADLINE_S = 60


def worker_on(alone: Any, name: str = "test", timeout_ms: int = 20_000) -> PlainWorker:
    return PlainWorker(cast("Stage", alone), name, timeout_ms)


def killed_after_the_deed(alone: Any, deed: Deed, subject: str) -> int:
    """Kill the worker between the deed and its record, start it again; how often it was done."""
    worker = worker_on(alone, deed.handler)
    alone.world.shut(deed)
    worker.send(deed, subject)
    worker.start()
    alone.world.wait_until_done(deed, 1)
    worker.kill()
    alone.world.open(deed)
    worker.start()
    worker.wait_until_empty()
    return len(alone.world.done(deed, subject))


def test_every_job_is_done_once_when_nothing_is_killed(alone: Any, subject: str) -> None:
    worker = worker_on(alone)
    for deed in DEEDS:
        worker.send(deed, subject)
    worker.start()
    assert [worker.next_word()[0] for _ in DEEDS] == ["done"] * 4
    worker.wait_until_empty()
    assert [len(alone.world.done(deed, subject)) for deed in DEEDS] == [1, 1, 1, 1]


def test_a_kill_between_deed_and_record_charges_once_thanks_to_the_key(
    alone: Any, subject: str
) -> None:
    assert killed_after_the_deed(alone, CHARGE, subject) == 1


def test_a_kill_between_deed_and_record_doubles_what_takes_no_key(alone: Any, subject: str) -> None:
    assert killed_after_the_deed(alone, TICKET, subject) == 2
    assert killed_after_the_deed(alone, MAIL, subject) == 2


def test_a_finished_job_is_not_done_again_by_the_next_worker(alone: Any, subject: str) -> None:
    worker = worker_on(alone)
    worker.send(MAIL, subject)
    for _ in range(2):
        worker.start()
        worker.wait_until_empty()
    assert len(alone.world.done(MAIL, subject)) == 1


def test_a_failing_tool_fails_its_job_and_the_next_one_runs(alone: Any, subject: str) -> None:
    worker = worker_on(alone)
    worker.send(MAIL, subject, "no-such-trouble")
    worker.send(MAIL, f"{subject}-2")
    worker.start()
    assert [worker.next_word()[0] for _ in range(2)] == ["failed", "done"]
    assert [len(alone.world.done(MAIL, who)) for who in (subject, f"{subject}-2")] == [0, 1]


def test_a_timeout_kills_the_tool_and_not_what_it_has_hidden(alone: Any, subject: str) -> None:
    worker = worker_on(alone, timeout_ms=700)
    worker.send(REPORT, subject, "stubborn")
    worker.start()
    word, _ = worker.next_word()
    assert word == "timed_out"
    left = running_from(alone.plain_tools)
    assert len(left) == 1
    before = len(alone.world.done(REPORT, subject))
    deadline = time.monotonic() + DEADLINE_S
    while len(alone.world.done(REPORT, subject)) == before:
        assert time.monotonic() < deadline, "the hidden process no longer reads"
        time.sleep(0.02)


def test_a_killed_worker_leaves_its_tool_and_the_tools_helper(alone: Any, subject: str) -> None:
    worker = worker_on(alone)
    alone.world.shut(MAIL)
    worker.send(MAIL, subject, "helper")
    worker.start()
    alone.world.wait_until_done(MAIL, 1)
    left = worker.kill()
    assert len(living(left)) == 2
    assert {*living(left)} == {*running_from(alone.plain_tools)}
    end(left)
    alone.world.open(MAIL)
    assert not living(left)
