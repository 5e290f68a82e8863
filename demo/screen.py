"""What the demo prints: 80 columns, symbols beside colour, ASCII in a C locale."""

from __future__ import annotations

import sys
import time

from supervisor.cli.look import Look, Tone, of_stream
from supervisor.cli.text import cells as width_of


class Screen:
    """Standard output, in the look that the project's own command line has."""

    def __init__(self) -> None:
        self._look: Look = of_stream(sys.stdout, time.time_ns())

    def good(self, text: str) -> str:
        return self._marked("succeeded", text)

    def bad(self, text: str) -> str:
        return self._marked("failed", text)

    def plain(self, text: str) -> str:
        """Neither good nor bad, and aligned with what has a mark."""
        return f"  {text}"

    def judged(self, text: str, *, good: bool) -> str:
        return self.good(text) if good else self.bad(text)

    def quiet(self, text: str) -> str:
        return self._look.paint(text, "quiet")

    def strong(self, text: str) -> str:
        return self._look.paint(text, "strong")

    def say(self, *lines: str) -> None:
        for line in lines:
            print(self._plainly(line), flush=True)

    def _marked(self, state: str, text: str) -> str:
        tone: Tone = "good" if state == "succeeded" else "attention"
        return f"{self._look.mark(state)} {self._look.paint(text, tone)}"

    def _plainly(self, line: str) -> str:
        if not self._look.ascii_only:
            return line
        return line.encode("ascii", "backslashreplace").decode("ascii")


def result(screen: Screen, who: str, outcome: str, how: str, *, good: bool) -> str:
    """One side's line: who, what came of it, and how."""
    return row((who, 12), (screen.judged(outcome, good=good), 11), (how, 0))


def row(*cells: tuple[str, int]) -> str:
    """Cells padded to their widths, two spaces apart; what colours a cell takes no room."""
    padded = (text + " " * max(0, width - width_of(text)) for text, width in cells)
    return "  ".join(padded).rstrip()
