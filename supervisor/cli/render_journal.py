"""A journal's verification as people read it: what is proven, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from supervisor.cli.look import Look, Tone, escape
from supervisor.cli.text import fields, plural, span

if TYPE_CHECKING:
    from supervisor.cli.results import Results
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
  2  damaged, or results that the journal names are lost
  3  intact, not all of it anchored
  4  rolled back: an anchor is contradicted
"""


_UNANCHORED = 3
_FINDINGS = {"holds": "ok", "not checked": "warning"}


def verified(
    report: VerifyReport, results: Results | None, code: int, directory: str, look: Look
) -> str:
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
    lines += [] if results is None else [f"  {line}" for line in _results(results, look)]
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


_SHOWN = 20


def _results(results: Results, look: Look) -> list[str]:
    """What became of the results that are files of their own."""
    files = plural(results.files, "result is a file of its own", "results are files of their own")
    if results.lost is None:
        left = "and there is no blobs/ beside the journal: these were not looked at"
        return [f"{look.mark('warning')} {files}, {left}"]
    if not results.lost:
        return [f"{files}: each is what the journal says"]
    lost = plural(len(results.lost), "of them is lost", "of them are lost")
    lines = [f"{look.mark('wrong')} {files}, and {lost} (the chain itself is intact):"]
    lines += [
        f"  blobs/{one.digest} ({one.bytes} bytes, {one.operation_id}): {one.why}"
        for one in results.lost[:_SHOWN]
    ]
    if len(results.lost) > _SHOWN:
        lines.append(f"  and {len(results.lost) - _SHOWN} more")
    return [*lines, "Put them back from a backup; else each is unavailable once it is asked for."]


def document(
    report: VerifyReport, results: Results | None, code: int, directory: str
) -> dict[str, Any]:
    """The report as JSON."""
    made = dict(report._asdict())
    damage = report.damage
    made["anchors"] = [
        {**one.anchor._asdict(), "finding": one.finding, "why": one.why} for one in report.anchors
    ]
    made["damage"] = None if damage is None else dict(damage._asdict())
    if results is not None:
        lost = None if results.lost is None else [one._asdict() for one in results.lost]
        made["results"] = {"files": results.files, "lost": lost}
    return {"directory": directory, "exit_code": code, **made}
