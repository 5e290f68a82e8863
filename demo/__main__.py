"""`python -m demo`: four faults, a plain worker and effectd under each, and the totals."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import attrs

from demo.blocks import overdue, unanswered, unrecorded, unstarted
from demo.failure import DemoFailed
from demo.processes import Processes, end, end_descendants, running_from
from demo.recover import unsettled
from demo.screen import Screen
from demo.stage import Stage, new_root, set_up
from demo.tally import Measured, Report

INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BLOCKS = (("A", unrecorded), ("B", unstarted), ("C", unanswered), ("D", overdue))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev demo",
        description="The same tools and the same kills, under a plain worker and under effectd.",
    )
    parser.add_argument("--keep", action="store_true", help="leave effectd and the providers on")
    parser.add_argument("--step", action="store_true", help="wait for Enter before each fault")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    given = parser.parse_args()
    if given.step and not sys.stdin.isatty():
        parser.error("--step waits for Enter, and standard input is no terminal")
    return given


def main() -> int:
    given = arguments()
    screen = Screen()
    _listen()
    try:
        return _run(given, screen)
    except DemoFailed as failed:
        screen.say("", screen.bad(f"The demo cannot go on: {failed}"))
        screen.say(*(f"  Look at {path}" for path in failed.look_at))
        return 2
    except KeyboardInterrupt:
        screen.say("", "Interrupted; everything that was started has been ended.")
        return 130
    except BrokenPipeError:
        # Nobody reads on; without this the interpreter would complain once more as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


_interruptions: list[object] = []


def _listen() -> None:
    for number in INTERRUPTIONS:
        signal.signal(number, _interrupted)
    sys.unraisablehook = _lost


def _interrupted(*which: object) -> NoReturn:
    _interruptions.append(which)
    raise KeyboardInterrupt


def _heed() -> None:
    """An interruption that came in a hook of the interpreter's, as one forks, was lost there."""
    if _interruptions:
        raise KeyboardInterrupt


def _lost(what: sys.UnraisableHookArgs) -> None:
    """Of that one nothing need be said: it is heeded soon."""
    if what.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(what)


def _run(given: argparse.Namespace, screen: Screen) -> int:
    screen.say(
        screen.strong("effectd demo: the same tools and the same kills, twice"),
        "Once under a plain worker, a queue in SQLite with retry (demo/plain_worker.py),",
        "once under effectd. Real programs, real providers; each figure is counted now.",
    )
    begun = time.monotonic()
    processes = Processes(outlive=given.keep)
    kept = False
    with new_root(keep=given.keep) as root:
        try:
            stage = set_up(root, processes, stay=given.keep)
            _heed()
            blocks = tuple(_block(stage, screen, *one, step=given.step) for one in BLOCKS)
            with stage.daemon.client() as client:
                left = unsettled(client)
            _heed()
            kept = given.keep
        finally:
            if not kept:
                _clean_up(processes)
    report = Report(blocks, left, took_ms=int((time.monotonic() - begun) * 1000))
    _conclude(screen, report)
    if given.json is not None:
        given.json.write_text(json.dumps(report.document(), indent=2) + "\n")
    if given.keep:
        _say_what_is_left(screen, stage, report)
    return 0 if report.effectd.clean else 1


def _clean_up(processes: Processes) -> None:
    for number in INTERRUPTIONS:  # what has begun to clean up is not stopped half way
        signal.signal(number, signal.SIG_IGN)
    processes.end_all()
    end_descendants()


def _block(stage: Stage, screen: Screen, letter: str, block: Any, *, step: bool) -> Measured:
    screen.say("")
    if step:
        with contextlib.suppress(EOFError):
            input("  Enter goes on ")
    screen.say(screen.strong(f"{letter}  {block.HEADLINE}"), f"  {screen.quiet(block.WHY)}")
    begun = time.monotonic()
    measured: Measured = block.measure(stage, screen)
    _heed()
    screen.say(*(f"  {line}" for line in measured.lines))
    # What the plain worker has left behind must not be counted twice.
    end(running_from(stage.plain_tools))
    return attrs.evolve(measured, took_ms=int((time.monotonic() - begun) * 1000))


def _conclude(screen: Screen, report: Report) -> None:
    plain, effectd = report.plain, report.effectd
    screen.say(
        "",
        screen.strong(f"Totals, after {report.took_ms // 1000} s"),
        f"  plain worker  {screen.judged(plain.text(), good=plain.clean)}",
        f"  effectd       {screen.judged(effectd.text(), good=effectd.clean)}",
    )


def _say_what_is_left(screen: Screen, stage: Stage, report: Report) -> None:
    effectctl = Path(sys.executable).parent / "effectctl"
    if effectctl.is_relative_to(Path.cwd()):
        effectctl = effectctl.relative_to(Path.cwd())
    contracts: Any = report.blocks[0].figures["contracts"]
    mail = contracts["no_safe_retry"]
    screen.say(
        "",
        "effectd and the providers go on. Look around:",
        f"  export EFFECTD_SOCKET={stage.daemon.socket}",
        f"  {effectctl} operations list",
        f"  {effectctl} operations show {mail['recovered']['operation_id']}",
        "End them:",
        f"  kill {stage.processes.pids()}; rm -r {stage.root}",
    )


if __name__ == "__main__":
    sys.exit(main())
