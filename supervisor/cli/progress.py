"""How far a long reading is, on a terminal's stderr and nowhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

WIDTH = 30


@contextmanager
def bar(words: str) -> Generator[Callable[[int, int], None]]:
    """A function that takes how much is done of how much, in any unit. The line is drawn at
    most once a percent, and wiped at the end."""
    shown = -1
    wanted = sys.stderr.isatty()

    def draw(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * done // total if total else 100
        if not wanted or percent == shown:
            return
        shown = percent
        full = WIDTH * percent // 100
        sys.stderr.write(f"\r{words} [{'#' * full}{' ' * (WIDTH - full)}] {percent:3} %")
        sys.stderr.flush()

    try:
        yield draw
    finally:
        if shown >= 0:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
