"""D: a tool that ignores SIGTERM, hides a process in a session of its own, and never ends."""

from __future__ import annotations

import time
from pathlib import Path

import attrs

from demo.failure import DemoFailed
from demo.manifests import GRACE_MS
from demo.plain import PlainWorker
from demo.processes import first_start_ns, running_from
from demo.recover import finish
from demo.screen import Screen, result
from demo.stage import Stage
from demo.tally import Measured, Tally
from demo.world import REPORT

TIMEOUT_MS = 1_000
HEADLINE = f"timeout of {TIMEOUT_MS} ms: the tool ignores SIGTERM and hides a second process"
WHY = f"effectd says it when all are dead: SIGTERM, {GRACE_MS} ms of grace, SIGKILL."
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
    """Requests that the tool sent to the provider in the second after the word."""


def measure(stage: Stage, screen: Screen) -> Measured:
    worker = PlainWorker(stage, "d", timeout_ms=TIMEOUT_MS)
    worker.send(REPORT, PLAIN, "stubborn")
    worker.start()
    with stage.daemon.client() as client:
        accepted = client.dispatch(
            REPORT.handler, REPORT.input(EFFECTD, "stubborn"), timeout_ms=TIMEOUT_MS, wait=False
        )
        began_plain_ns = _began_ns(stage.plain_tools)
        began_effectd_ns = _began_ns(stage.handler_tools)
        ended = finish(client, str(accepted["operation_id"]))
        effectd_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        effectd_word = str(client.call(ended["calls"][0])["attempts"][0]["outcome"])
    plain_word, plain_ns = worker.next_word()
    _sleep_until(max(plain_ns, effectd_ns) + AFTER_NS)
    plain = Side(
        word=plain_word,
        after_deadline_ms=_late_ms(began_plain_ns, plain_ns),
        still_running=len(running_from(stage.plain_tools)),
        reads_after=_reads_after(stage, PLAIN, plain_ns),
    )
    effectd = Side(
        word=effectd_word,
        after_deadline_ms=_late_ms(began_effectd_ns, effectd_ns),
        still_running=len(running_from(stage.handler_tools)),
        reads_after=_reads_after(stage, EFFECTD, effectd_ns),
    )
    return Measured(
        "overdue",
        (_line(screen, "plain worker", plain), _line(screen, "effectd", effectd)),
        Tally(survivors=plain.still_running),
        Tally(survivors=effectd.still_running),
        {"plain": attrs.asdict(plain), "effectd": attrs.asdict(effectd), "grace_ms": GRACE_MS},
    )


def _began_ns(tools: Path) -> int:
    """When the first process of these tools was started, as the kernel has it."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        began_ns = first_start_ns(running_from(tools))
        if began_ns is not None:
            return began_ns
        time.sleep(0.01)
    raise DemoFailed(f"nothing was started from {tools}")


def _sleep_until(at_ns: int) -> None:
    time.sleep(max(0, at_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) / 1e9)


def _late_ms(began_ns: int, said_ns: int) -> int:
    return (said_ns - began_ns) // NS_PER_MS - TIMEOUT_MS


def _reads_after(stage: Stage, subject: str, said_ns: int) -> int:
    reads = [read["sent_ns"] for read in stage.world.done(REPORT, subject)]
    return sum(said_ns < sent_ns <= said_ns + AFTER_NS for sent_ns in reads)


def _line(screen: Screen, who: str, side: Side) -> str:
    word = side.word.replace("_", " ")
    how = f'"{word}" {side.after_deadline_ms} ms late; {side.reads_after} more requests in 1 s'
    running = f"{side.still_running} running"
    return result(screen, who, running, how, good=side.still_running == 0)
