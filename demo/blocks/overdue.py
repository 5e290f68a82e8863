"""D: a tool that ignores SIGTERM, hides a process in a session of its own, and never ends."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import attrs

from demo.failure import DemoFailed
from demo.manifests import GRACE_MS
from demo.plain import PlainWorker
from demo.processes import running_from, started_ns
from demo.recover import finish
from demo.screen import Screen, row
from demo.stage import Stage
from demo.tally import Measured, Tally
from demo.world import REPORT

TIMEOUT_MS = 1_000
HEADLINE = f"timeout after {TIMEOUT_MS} ms: the tool ignores SIGTERM and hides a second process"
PLAIN, EFFECTD = "d-plain", "d-effectd"
NS_PER_MS = 1_000_000
AFTER_NS = 1_000 * NS_PER_MS


@attrs.frozen
class Side:
    """One side's word, and what was true a second later."""

    word: str
    after_deadline_ms: int
    still_running: int
    reads_after: int
    """Requests of the tool that reached the provider in the second after the word."""


@attrs.define
class Said:
    """A word, and when it was said (nanoseconds since boot)."""

    word: str = ""
    at_ns: int = 0


def measure(stage: Stage, screen: Screen) -> Measured:
    worker = PlainWorker(stage, "d", timeout_ms=TIMEOUT_MS)
    worker.send(REPORT, PLAIN, "stubborn")
    plain, effectd = Said(), Said()
    with stage.daemon.client() as client:
        worker.start()
        listener = threading.Thread(target=_listen, args=(worker, plain))
        listener.start()
        accepted = client.dispatch(
            REPORT.handler, REPORT.input(EFFECTD, "stubborn"), timeout_ms=TIMEOUT_MS, wait=False
        )
        began_plain_ns = _began_ns(stage.plain_tools)
        began_effectd_ns = _began_ns(stage.handler_tools)
        ended = finish(client, str(accepted["operation_id"]))
        effectd.at_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        effectd.word = str(client.call(ended["calls"][0])["attempts"][0]["outcome"])
    listener.join()
    _sleep_until(max(plain.at_ns, effectd.at_ns) + AFTER_NS)
    sides = (
        _side(stage, plain, began_plain_ns, PLAIN, stage.plain_tools),
        _side(stage, effectd, began_effectd_ns, EFFECTD, stage.handler_tools),
    )
    lines = (_line(screen, "plain worker", sides[0]), _line(screen, "effectd", sides[1]))
    return Measured(
        "overdue",
        lines,
        Tally(survivors=sides[0].still_running),
        Tally(survivors=sides[1].still_running),
        {"plain": attrs.asdict(sides[0]), "effectd": attrs.asdict(sides[1]), "grace_ms": GRACE_MS},
    )


def _listen(worker: PlainWorker, said: Said) -> None:
    said.word, said.at_ns = worker.next_word()


def _began_ns(tools: Path) -> int:
    """When the first process of these tools was started, as the kernel has it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if found := running_from(tools):
            return min(started_ns(process) for process in found)
        time.sleep(0.01)
    raise DemoFailed(f"nothing was started from {tools}")


def _sleep_until(at_ns: int) -> None:
    time.sleep(max(0, at_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) / 1e9)


def _side(stage: Stage, said: Said, began_ns: int, subject: str, tools: Path) -> Side:
    reads = [read["at_ns"] for read in stage.world.done(REPORT, subject)]
    return Side(
        word=said.word,
        after_deadline_ms=(said.at_ns - began_ns) // NS_PER_MS - TIMEOUT_MS,
        still_running=len(running_from(tools)),
        reads_after=sum(said.at_ns < at_ns <= said.at_ns + AFTER_NS for at_ns in reads),
    )


def _line(screen: Screen, who: str, side: Side) -> str:
    running = screen.judged(f"{side.still_running} running", good=side.still_running == 0)
    word = side.word.replace("_", " ")
    return row(
        (running, 11),
        (who, 12),
        (f"said '{word}' {side.after_deadline_ms} ms late; 1 s later", 0),
    )
