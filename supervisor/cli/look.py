"""How text is shown: colour, symbols and width as one value that renderers take.

Values here are named tuples, not attrs classes: `effectctl --help` is used more
often than any other command, and importing attrs doubles the time it takes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Literal, NamedTuple, TextIO

Tone = Literal["good", "attention", "quiet", "strong"]

# Blue and orange stay apart for every common kind of colour blindness; green and red do not.
SGR: dict[Tone, str] = {
    "good": "38;5;33",
    "attention": "38;5;208",
    "quiet": "2",
    "strong": "1",
}


class Look(NamedTuple):
    """What a terminal can show, and when now is (nanoseconds since the epoch)."""

    now_ns: int
    colour: bool = False
    ascii_only: bool = False
    columns: int = 80

    def paint(self, text: str, tone: Tone | None) -> str:
        """The text in a tone; unchanged where there is no colour."""
        if not self.colour or tone is None or not text:
            return text
        return f"\x1b[{SGR[tone]}m{text}\x1b[0m"

    def mark(self, state: str) -> str:
        """One symbol for a state, so that colour is never the only sign."""
        fancy, plain, tone = MARKS.get(state, ("•", "-", None))
        return self.paint(plain if self.ascii_only else fancy, tone)

    def state(self, state: str) -> str:
        """A state as lists show it: symbol and word, in its tone."""
        fancy, plain, tone = MARKS.get(state, ("•", "-", None))
        return self.paint(f"{plain if self.ascii_only else fancy} {state}", tone)


MARKS: dict[str, tuple[str, str, Tone | None]] = {
    # operations, calls, attempts
    "accepted": ("○", ".", None),
    "running": ("▶", ">", "strong"),
    "waiting": ("…", "~", None),
    "interrupted": ("‖", "|", "attention"),
    "succeeded": ("✓", "+", "good"),
    "failed": ("✗", "x", "attention"),
    "refused": ("✗", "x", "attention"),
    "timed_out": ("✗", "x", "attention"),
    "cancelled": ("⊘", "/", "quiet"),
    "stopped": ("⊘", "/", "quiet"),
    "not_started": ("⊘", "/", None),
    "unknown": ("?", "?", "attention"),
    # effects
    "announced": ("○", ".", None),
    "applied": ("✓", "+", "good"),
    "not_applied": ("⊘", "/", None),
    # checks and sandbox layers
    "ok": ("✓", "+", "good"),
    "in force": ("✓", "+", "good"),
    "degraded": ("!", "!", "attention"),
    "warning": ("!", "!", "attention"),
    "missing": ("✗", "x", "attention"),
    "wrong": ("✗", "x", "attention"),
    "critical": ("✗", "x", "attention"),
}

# What rearranges, hides or controls a terminal's text: C0, DEL and C1 controls, bidirectional
# overrides, zero-width characters, line separators, language tags, and lone surrogates.
# Written by number, because as characters they would do to this file what they do to a terminal.
UNSAFE = re.compile(
    "["
    + "".join(
        f"\\U{first:08x}-\\U{last:08x}"
        for first, last in (
            (0x00, 0x1F),
            (0x7F, 0x9F),
            (0xAD, 0xAD),
            (0x061C, 0x061C),
            (0x200B, 0x200F),
            (0x2028, 0x202E),
            (0x2060, 0x206F),
            (0xD800, 0xDFFF),
            (0xFEFF, 0xFEFF),
            (0xFFF9, 0xFFFB),
            (0xE0000, 0xE007F),
        )
    )
    + "]"
)


def escape(value: object, *, keep: str = "") -> str:
    """Text from elsewhere made safe to print: what acts on a terminal is spelled out.

    `keep` names control characters that are wanted (a newline in a stderr tail, say).
    """

    def spell(match: re.Match[str]) -> str:
        character = match.group()
        if character in keep:
            return character
        number = ord(character)
        if number <= 0xFF:
            return f"\\x{number:02x}"
        return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"

    return UNSAFE.sub(spell, str(value))


def ascii_locale(environment: Mapping[str, str]) -> bool:
    """Whether the user's locale is C or POSIX (unset means C: cron, minimal containers)."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        value = environment.get(name, "")
        if value:
            return value in {"C", "POSIX"}
    return True


def started_environment() -> dict[str, str]:
    """The environment this process was started with.

    os.environ does not tell: Python coerces a C locale to C.UTF-8 (PEP 538) and writes that
    into LC_CTYPE before any code of ours runs. The kernel's copy keeps what the user set.
    """
    try:
        with open("/proc/self/environ", "rb") as file:  # noqa: PTH123 - pathlib costs start-up time
            block = file.read()
    except OSError:
        return dict(os.environ)
    pairs = (entry.partition(b"=") for entry in block.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def of_stream(stream: TextIO, now_ns: int) -> Look:
    """The look of a stream: colour only on a terminal, and never with NO_COLOR or TERM=dumb."""
    terminal = stream.isatty()
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    columns = 80
    if terminal:
        try:
            columns = os.get_terminal_size(stream.fileno()).columns or 80
        except OSError:
            columns = 80
    elif os.environ.get("COLUMNS", "").isdigit():
        columns = int(os.environ["COLUMNS"])
    return Look(
        now_ns=now_ns,
        colour=terminal and wanted,
        ascii_only=encoding != "utf8" or ascii_locale(started_environment()),
        columns=max(40, columns),
    )


def write(text: str, look: Look, stream: TextIO | None = None) -> None:
    """Print a document; in an ASCII locale what is not ASCII is spelled out, never replaced by ?"""
    target = sys.stdout if stream is None else stream
    if look.ascii_only:
        text = text.encode("ascii", "backslashreplace").decode("ascii")
    target.write(text if text.endswith("\n") or not text else text + "\n")
    target.flush()
