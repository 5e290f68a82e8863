"""A journal's verification as people read it: what is proven, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from supervisor.cli.look import Look, Tone, escape
from supervisor.cli.text import fields, plural, span

if TYPE_CHECKING:
    from supervisor.journal.verify import VerifyReport

# `journal verify` has exit codes of its own, as `fsck` has.
VERDICTS: dict[int, tuple[str, str, Tone]] = {
    0: ("ok", "verified", "good"),
    1: ("wrong", "could not run", "attention"),
    2: ("wrong", "DAMAGED", "attention"),
    3: ("warning", "intact, not anchored", "attention"),
    4: ("wrong", "ROLLED BACK", "attention"),
}
VERIFY_EXITS = """\b
Exit codes:
  0  verified and anchored to the last decision (with --require chain: intact)
  1  could not run
  2  damaged
  3  intact, not all of it anchored
  4  rolled back: an anchor is contradicted
"""


_UNANCHORED = 3
_FINDINGS = {"holds": "ok", "not checked": "warning"}


def verified(report: VerifyReport, code: int, directory: str, look: Look) -> str:
    """The report: verdict first, then what is proven and what would not be seen."""
    mark, words, tone = VERDICTS[code]
    first = f"{look.mark(mark)} {look.paint(words, tone)}: {escape(directory)}"
    if report.problem is not None:
        return f"{first}\n  {escape(report.problem)}"
    pairs = [
        ("decisions", f"{report.frames} in {plural(report.segments, 'segment')}"),
        ("positions", f"1 to {report.position}"),
        ("journal", report.journal),
        ("head", report.head),
        ("proven durable", f"up to {report.attested}"),
        ("took", span(report.took_ms)),
    ]
    lines = [first, *("  " + line for line in fields(pairs).split("\n"))]
    lines += [f"  {look.mark('warning')} {escape(one)}" for one in report.blemishes]
    lines += [f"  {look.mark('warning')} {escape(one)}" for one in report.repairs]
    lines += [
        f"  {look.mark(_FINDINGS.get(one.finding, 'wrong'))} {escape(one.why)}"
        for one in report.anchors
    ]
    if report.damage is not None:
        lines.append(f"  {escape(report.damage)}")
        lines.append(f"  Everything up to position {report.position} is proven.")
        lines.append("  Copy the directory before anything else; then restore the file.")
    if report.torn:
        lines.append(
            f"  {report.torn} bytes of a batch that was never acknowledged stand behind the end; "
            "the next start excludes them."
        )
    if code == _UNANCHORED or (code == 0 and report.unanchored):
        lines.append(
            f"  {plural(report.unanchored, 'decision is', 'decisions are')} not anchored: "
            "a cut-off tail or a whole rewriting of them would not be seen."
        )
    return "\n".join(lines)


def document(report: VerifyReport, code: int, directory: str) -> dict[str, Any]:
    """The report as JSON."""
    made = dict(report._asdict())
    damage = report.damage
    made["anchors"] = [
        {**one.anchor._asdict(), "finding": one.finding, "why": one.why} for one in report.anchors
    ]
    made["damage"] = None if damage is None else dict(damage._asdict())
    return {"directory": directory, "exit_code": code, **made}
