"""``python -m bench WHAT``: measure, print, and write the results beside this file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench import (
    binding,
    cost,
    goals,
    journal,
    journal_goals,
    journal_page,
    operations,
    pages,
    plot,
    report,
    spawn,
)
from bench.figures import Series
from bench.latency import BWRAP, COLD, POOLED, PROVEN, REAPED

FOLDER = Path(__file__).resolve().parent
PAGE, PLOT = "results.md", "spawn.svg"


def main(argv: list[str] | None = None) -> int:
    """The exit status: 0, 1 when a goal was missed, 2 when it could not be measured."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except spawn.LayerMissing as missing:
        print(f"bench: {missing}. Run `effectctl doctor`.", file=sys.stderr)
        return 2
    return status


def _spawn(arguments: argparse.Namespace) -> int:
    found = spawn.spawn(
        spawn.Settings(arguments.count, arguments.runs, arguments.pause_ms, arguments.pool)
    )
    folder: Path = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    pages.put(folder / PAGE, report.page(found, PLOT))
    (folder / PLOT).write_text(chart(found), encoding="utf-8")
    print(report.latencies(found), report.goals(found.goals), sep="\n\n")
    print(f"\nbench: written to {folder}: {PAGE} and {PLOT}", file=sys.stderr)
    return int(any(goal.met is False for goal in found.goals))


def _journal(arguments: argparse.Namespace) -> int:
    found = journal.journal(
        journal.Settings(arguments.count, arguments.runs, arguments.records, arguments.directory)
    )
    folder: Path = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    pages.put(folder / PAGE, journal_page.page(found))
    judged = journal_goals.judge(found)
    print(
        journal_page.commits(found), journal_page.readings(found), report.goals(judged), sep="\n\n"
    )
    print(f"\nbench: written to {folder}: {PAGE}", file=sys.stderr)
    return int(any(goal.met is False for goal in judged))


def _operations(arguments: argparse.Namespace) -> int:
    found = operations.measure(arguments.operations, arguments.count, arguments.runs)
    folder: Path = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    pages.put(folder / PAGE, operations.page(found))
    print(operations.answers(found))
    print(f"\nbench: written to {folder}: {PAGE}", file=sys.stderr)
    return int(any(found.ratio(name) > operations.MOST for name in found.few))


def _prctl(arguments: argparse.Namespace) -> int:
    print(binding.page(binding.compare(arguments.count, arguments.runs, arguments.pause_ms)))
    return 0


def _cost(arguments: argparse.Namespace) -> int:
    print(cost.page(cost.measure(arguments.count)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Measure effectd on this machine.")
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("spawn", help="one contained run of /bin/true against a bare one")
    verb.set_defaults(run=_spawn)
    _add_common(verb)
    verb.add_argument("--pool", type=_positive, default=2, help="sandboxes kept ready (2)")
    _add_output(verb)
    verb = verbs.add_parser("journal", help="durable commits, and reading a long journal back")
    verb.set_defaults(run=_journal)
    verb.add_argument("--count", type=_positive, default=1000, help="commits in a run (1000)")
    verb.add_argument("--runs", type=_positive, default=5, help="runs (5)")
    verb.add_argument(
        "--records", type=_positive, default=1_000_000, help="in a long journal (1000000)"
    )
    verb.add_argument(
        "--directory",
        type=_directory,
        default=Path("/var/tmp"),
        help="on the file system to measure (/var/tmp)",
    )
    _add_output(verb)
    verb = verbs.add_parser("operations", help="answers among many operations, against ten")
    verb.set_defaults(run=_operations)
    verb.add_argument("--operations", type=_tens, default=10_000, help="a multiple of 10 (10000)")
    verb.add_argument("--count", type=_positive, default=50, help="answers in a run (50)")
    verb.add_argument("--runs", type=_positive, default=5, help="runs (5)")
    _add_output(verb)
    verb = verbs.add_parser("prctl", help="python-prctl in the launcher against ctypes")
    verb.set_defaults(run=_prctl)
    _add_common(verb)
    verb = verbs.add_parser("cost", help="where the processor time of a contained run goes")
    verb.set_defaults(run=_cost)
    verb.add_argument("--count", type=_positive, default=300, help="runs of each (300)")
    return parser


def _add_output(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--output", type=Path, default=FOLDER, help="where results go (bench/)")


def _add_common(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--count", type=_positive, default=300, help="rounds in a run (300)")
    verb.add_argument("--runs", type=_positive, default=3, help="runs (3)")
    verb.add_argument("--pause-ms", type=_positive, default=10, help="rest before each (10)")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _tens(text: str) -> int:
    number = _positive(text)
    if number % 10:
        raise argparse.ArgumentTypeError("a multiple of 10")
    return number


def _directory(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no directory")
    return path


def chart(found: spawn.Report) -> str:
    """Every series as multiples of Popen's median."""
    floor = found.latencies.floor
    wanted = {POOLED: goals.POOLED_MEDIAN, COLD: goals.COLD_MEDIAN}

    def bar(key: tuple[str, str], series: Series) -> plot.Bar:
        name, proof = key
        ours = proof != REAPED
        goal = wanted.get(name) if proof == PROVEN else None
        label = f"{name}: {proof}" if ours else name
        return plot.Bar(
            label, series.median_over(floor), series.p99_ns / floor.median_ns, ours, goal
        )

    bars = [bar(key, series) for key, series in found.latencies.series.items()]
    lacks = f" (bwrap {found.bubblewrap})" if (BWRAP, REAPED) in found.latencies.series else ""
    return plot.chart(f"/bin/true, contained and bare, in multiples of Popen's median{lacks}", bars)


if __name__ == "__main__":
    sys.exit(main())
