"""Verify a journal offline or beside its writer, and say what that proves and what not.

    python3 -I -m supervisor.journal.verify [--require chain] DIRECTORY

A chain proves that nothing in it was changed, lost or reordered. It cannot prove that
nothing was cut off its end, nor that it was not written anew as a whole: for that the
newest digest must be known from elsewhere (an anchor). So without one, an intact journal
is "not anchored", and that is no OK.

Exit codes: 0 verified and anchored (or intact, with `--require chain`); 1 could not run;
2 damaged; 3 intact, not anchored; 4 rolled back. Standard library only.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from supervisor.journal.chain import Tip, Walked, Walker, segments_among
from supervisor.journal.codec import GENESIS
from supervisor.journal.errors import Damage, JournalCorrupt, JournalIOError, JournalTooNew
from supervisor.journal.read import Progress, Reader

INTACT, DAMAGED, FAILED = "intact", "damaged", "could not run"
EXIT_ANCHORED, EXIT_FAILED, EXIT_DAMAGED, EXIT_NOT_ANCHORED, EXIT_ROLLED_BACK = range(5)


class VerifyReport(NamedTuple):
    """What is proven: `frames` decisions up to `position`, whose line has digest `head`.

    `attested` is the last decision that a later line proves durable; what follows it was
    in flight at a crash, or is just being written. `torn` bytes behind the end are the
    remains of a batch that was never acknowledged; the next start excludes them.
    `unanchored` decisions are those that no anchor vouches for: all, when there is none.
    """

    verdict: str
    segments: int
    frames: int
    marks: int
    position: int
    last_frame: int
    attested: int
    head: str
    torn: int
    unanchored: int
    blemishes: tuple[str, ...]
    damage: Damage | None
    problem: str | None
    took_ms: int

    def exit_code(self, *, require: str = "anchor") -> int:
        if self.verdict == FAILED:
            return EXIT_FAILED
        if self.verdict == DAMAGED:
            return EXIT_DAMAGED
        return EXIT_ANCHORED if require == "chain" else EXIT_NOT_ANCHORED


def verify(directory: Path, progress: Progress = lambda _done, _total: None) -> VerifyReport:
    """Prove every link. Never raises for what it finds; `progress` gets bytes done and all."""
    started = time.monotonic_ns()
    tip, torn, segments = Tip(), 0, 0
    damage: Damage | None = None
    problem: str | None = None
    try:
        reader = Reader(directory, progress)
        names = segments_among(reader.names)
        if not names:
            problem = f"{directory} holds no journal"
        walker = Walker(names, reader.load, lambda _file, _offset, _line: None, reader.again)
        tip, segments = walker.tip, len(names)
        torn = _torn(walker.run())
    except JournalCorrupt as error:
        damage = error.report
    except (JournalIOError, JournalTooNew) as error:
        problem = str(error)
    verdict = DAMAGED if damage else FAILED if problem else INTACT
    took_ms = (time.monotonic_ns() - started) // 1_000_000
    return VerifyReport(
        verdict=verdict,
        segments=segments,
        frames=tip.frames,
        marks=tip.marks,
        position=tip.position,
        last_frame=tip.last_frame,
        attested=min(tip.durable, tip.last_frame),
        head=tip.digest if tip.digest != GENESIS else "",
        torn=torn,
        unanchored=tip.frames,
        blemishes=tuple(tip.blemishes),
        damage=damage,
        problem=problem,
        took_ms=took_ms,
    )


def _torn(walked: Walked) -> int:
    return walked.tail.discarded


def describe(report: VerifyReport) -> str:
    """The report for people; every line says what is known, and none more than that."""
    if report.problem is not None:
        return f"could not verify: {report.problem}\n"
    lines = [f"{note}; the disk deserves a look" for note in report.blemishes]
    lines.append(
        f"{report.frames} decisions in {report.segments} segments, "
        f"positions 1..{report.position}, {report.took_ms} ms"
    )
    if report.damage is not None:
        lines.append(f"DAMAGED: {report.damage.describe()}")
        lines.append(f"Everything up to position {report.position} is proven.")
        return "\n".join(lines) + "\n"
    lines.append(f"head {report.head} at position {report.position}")
    if report.last_frame > report.attested:
        lines.append(f"decisions after {report.attested} are not attested by a later line yet")
    if report.torn:
        lines.append(
            f"{report.torn} bytes of a batch that was never acknowledged follow; "
            "the next start excludes them"
        )
    lines.append(
        f"intact, {report.unanchored} decisions not anchored: "
        "a cut-off tail or a whole rewriting would not be seen"
    )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="journal verify", description="Verify a journal.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--require", choices=("anchor", "chain"), default="anchor")
    options = parser.parse_args(arguments)
    report = verify(options.directory)
    sys.stdout.write(describe(report))
    return report.exit_code(require=options.require)


if __name__ == "__main__":
    sys.exit(main())
