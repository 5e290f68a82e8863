"""Run one history once more, and tell what happened in it.

    .venv/bin/python -m tests.core.again SEED [LENGTH] [--journal]

A failing history names its own line. With `--journal` on the real journal, else on a list.
"""

from __future__ import annotations

import argparse

from tests.core.disk import JournalDisk
from tests.core.test_machine import LENGTH, simulate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("length", type=int, nargs="?", default=LENGTH)
    parser.add_argument("--journal", action="store_true")
    asked = parser.parse_args()
    machine = simulate(asked.seed, asked.length, disk=JournalDisk if asked.journal else None)
    for number, name in enumerate(machine.story, 1):
        print(f"{number:4} {name}")
    print(
        f"{len(machine.host.payloads)} frames, {sum(machine.host.world.changes.values())} changes"
    )


if __name__ == "__main__":
    main()
