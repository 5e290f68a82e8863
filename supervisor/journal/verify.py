"""Verify a journal offline or beside its writer, and say what that proves and what not.

    python3 -I -S /opt/effectd/.../supervisor/journal DIRECTORY [--anchor FILE] [--require chain]

A chain proves that nothing in it was changed, lost or reordered. It cannot prove that
nothing was cut off its end, nor that it was not written anew as a whole: for that a
digest must be known from elsewhere (an anchor, see anchor.py). What no anchor vouches for
is "not anchored", and that is no OK.

Exit codes: 0 verified and anchored to the last decision (or intact, with `--require
chain`); 1 could not run; 2 damaged; 3 intact, not all of it anchored; 4 rolled back: an
anchor is contradicted. Standard library only.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from supervisor.journal.anchor import (
    CONTRADICTED,
    HOLDS,
    Anchor,
    Judged,
    Sightings,
    judge,
    read_anchors,
)
from supervisor.journal.chain import UNKNOWN, Tip
from supervisor.journal.codec import GENESIS, Line, Repair
from supervisor.journal.errors import Damage, JournalCorrupt, JournalError
from supervisor.journal.read import Progress, Reader

INTACT, DAMAGED, FAILED, ROLLED_BACK = "intact", "damaged", "could not run", "rolled back"
EXIT_ANCHORED, EXIT_FAILED, EXIT_DAMAGED, EXIT_NOT_ANCHORED, EXIT_ROLLED_BACK = range(5)
_CERTAIN = {FAILED: EXIT_FAILED, DAMAGED: EXIT_DAMAGED, ROLLED_BACK: EXIT_ROLLED_BACK}


class VerifyReport(NamedTuple):
    """What is proven: `frames` decisions up to `position`, whose line has digest `head`.

    `attested` is the last decision that a later line proves durable; what follows it was
    in flight at a crash, or is just being written. `torn` bytes behind the end are the
    remains of a batch that was never acknowledged; the next start excludes them.
    `unanchored` decisions come after the newest anchor that holds: all, when none does.
    Segments up to position `base` were let go: for what they held the snapshots stand.
    """

    verdict: str
    journal: str
    segments: int
    frames: int
    marks: int
    position: int
    last_frame: int
    attested: int
    head: str
    torn: int
    anchors: tuple[Judged, ...]
    unanchored: int
    blemishes: tuple[str, ...]
    repairs: tuple[str, ...]
    damage: Damage | None
    problem: str | None
    took_ms: int
    base: int = 0

    @property
    def anchored(self) -> bool:
        """Whether an anchor vouches for everything up to the last decision."""
        return self.unanchored == 0 and any(one.finding == HOLDS for one in self.anchors)

    def exit_code(self, *, require: str = "anchor") -> int:
        certain = _CERTAIN.get(self.verdict)
        if certain is not None:
            return certain
        return EXIT_ANCHORED if require == "chain" or self.anchored else EXIT_NOT_ANCHORED


class _Check:
    """One verification as it goes: a walk, and what it showed."""

    def __init__(self, anchors: Iterable[Anchor]) -> None:
        self.anchors = tuple(anchors)
        self.seen = Sightings(one.position for one in self.anchors)
        self.tip = Tip()
        self.torn = self.segments = 0
        self.damage: Damage | None = None
        self.problem: str | None = None

    def run(self, directory: Path, progress: Progress) -> None:
        try:
            reader = Reader(directory, progress)
            walker = reader.walker(self._emit, [one.position for one in self.anchors])
            if not walker.segments:
                self.problem = f"{directory} holds no journal"
            self.tip, self.segments = walker.tip, walker.segments
            self.torn = walker.run().tail.discarded
        except JournalCorrupt as error:
            self.damage = error.report
        except JournalError as error:
            self.problem = str(error)

    def _emit(self, _file: str, _offset: int, line: Line) -> None:
        self.seen.see(line, self.tip.frames)

    def judged(self) -> tuple[Judged, ...]:
        damaged = self.damage is not None
        return tuple(judge(one, self.seen, self.tip, damaged=damaged) for one in self.anchors)

    def verdict(self, judged: Iterable[Judged]) -> str:
        if self.damage is not None:
            return DAMAGED
        if self.problem is not None:
            return FAILED
        contradicted = any(one.finding in CONTRADICTED for one in judged)
        return ROLLED_BACK if contradicted else INTACT

    def unanchored(self, judged: Iterable[Judged]) -> int:
        held = [one.anchor.position for one in judged if one.finding == HOLDS]
        return self.tip.frames - (self.seen.decisions(max(held)) if held else 0)


def verify(
    directory: Path,
    progress: Progress = lambda _done, _total: None,
    *,
    anchors: Iterable[Anchor] = (),
) -> VerifyReport:
    """Prove every link. Never raises for what it finds; `progress` gets bytes done and all."""
    started = time.monotonic_ns()
    check = _Check(anchors)
    check.run(directory, progress)
    tip, judged = check.tip, () if check.problem is not None else check.judged()
    return VerifyReport(
        verdict=check.verdict(judged),
        journal=tip.journal,
        segments=check.segments,
        frames=tip.frames,
        marks=tip.marks,
        position=tip.position,
        last_frame=tip.last_frame,
        attested=min(tip.durable, tip.last_frame),
        head=tip.digest if tip.digest != GENESIS else "",
        torn=check.torn,
        anchors=judged,
        unanchored=check.unanchored(judged),
        blemishes=tuple(tip.blemishes),
        repairs=tuple(map(_repaired, tip.repairs)),
        damage=check.damage,
        problem=check.problem,
        took_ms=(time.monotonic_ns() - started) // 1_000_000,
        base=tip.base,
    )


def _repaired(repair: Repair) -> str:
    lost = f"positions {repair.first}..{repair.last} were given up by uid {repair.uid}"
    return f"repaired: {lost} ({repair.reason}); what was found is in {repair.kept}"


def describe(report: VerifyReport) -> str:
    """The report for people; every line says what is known, and none more than that."""
    if report.problem is not None:
        return f"could not verify: {report.problem}\n"
    lines = [f"{note}; the disk deserves a look" for note in report.blemishes]
    lines.append(
        f"{report.frames} decisions in {report.segments} segments, "
        f"positions {report.base + 1}..{report.position}, {report.took_ms} ms"
    )
    if report.base:
        lines.append(
            f"segments up to position {report.base} are not here: a snapshot stands for them, "
            "and only the archive could prove it"
        )
    if report.journal != UNKNOWN:
        lines.append(f"journal {report.journal}")
    lines += [f"anchor {one.finding}: {one.why}" for one in report.anchors]
    if report.damage is not None:
        lines.append(f"DAMAGED: {report.damage.describe()}")
        lines.append(f"Everything up to position {report.position} is proven.")
    else:
        lines += _ending(report)
    return "\n".join(lines) + "\n"


def _ending(report: VerifyReport) -> list[str]:
    lines = [*report.repairs, f"head {report.head} at position {report.position}"]
    if report.last_frame > report.attested:
        lines.append(f"decisions after {report.attested} are not attested by a later line yet")
    if report.torn:
        lines.append(
            f"{report.torn} bytes of a batch that was never acknowledged follow; "
            "the next start excludes them"
        )
    if report.verdict == ROLLED_BACK:
        lines.append("ROLLED BACK: the chain is intact, and not the one that was anchored")
    elif report.anchored:
        lines.append("verified, and anchored up to the last decision")
    else:
        lines.append(
            f"intact, {report.unanchored} decisions not anchored: "
            "a cut-off tail or a whole rewriting of them would not be seen"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="journal verify", description="Verify a journal.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--anchor", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--require", choices=("anchor", "chain"), default="anchor")
    options = parser.parse_args(arguments)
    try:
        anchors = [one for file in options.anchor for one in read_anchors(file)]
    except JournalError as error:
        sys.stdout.write(f"could not verify: {error}. {error.fix}\n")
        return EXIT_FAILED
    report = verify(options.directory, anchors=anchors)
    sys.stdout.write(describe(report))
    return report.exit_code(require=options.require)


if __name__ == "__main__":
    sys.exit(main())
