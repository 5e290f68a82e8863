"""The lines of strace(1) as values. Pure.

Written for ``-f -y -xx -s 0``: every string is spelled in hexadecimal, so that no name a handler
chooses can look like a part of the line, and no content is there at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE = re.compile(r"(\d+) +(.*)")
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\w+|\?)(?: (E[A-Z0-9]+))?", re.DOTALL)
_SIGNAL = re.compile(r"--- (SIG\w+) (.*) ---")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_HEX = re.compile(r"\\x([0-9a-f]{2})")
_PLACE = re.compile(r"<((?:\\x[0-9a-f]{2})*)>")
# A handler that writes a line's worth of nothing a million times must not fill our memory.
LINE_MAX = 65_536
_PENDING_MAX = 4_096


class Call(NamedTuple):
    """One system call: of whom, its name, its arguments as strace wrote them, and its errno.

    `error` is empty for a call that did not fail.
    """

    pid: int
    name: str
    arguments: tuple[str, ...]
    error: str = ""

    @property
    def word(self) -> str:
        """All arguments as one text, for what is said anywhere in them."""
        return ", ".join(self.arguments)

    def text(self, index: int) -> str | None:
        """The string that an argument is; None when it is none."""
        if index >= len(self.arguments):
            return None
        return text_in(self.arguments[index])

    def place(self, index: int) -> str | None:
        """What a descriptor leads to: a path, or `socket:[N]`; for AT_FDCWD the directory."""
        found = _PLACE.search(self.arguments[index]) if index < len(self.arguments) else None
        return None if found is None else _unhex(found.group(1))


class Signal(NamedTuple):
    """A signal that was delivered, as strace wrote it."""

    pid: int
    name: str
    detail: str


class Reader:
    """Puts calls together that strace wrote in two pieces."""

    def __init__(self) -> None:
        self._begun: dict[int, str] = {}

    def feed(self, line: str) -> Iterator[Call | Signal]:
        """What one line completes. Anything that is not understood is left out."""
        found = _LINE.match(line)
        if found is None:
            return
        pid, said = int(found.group(1)), found.group(2)
        if said.startswith("+++"):
            self._begun.pop(pid, None)
            return
        signal = _SIGNAL.match(said)
        if signal is not None:
            yield Signal(pid, signal.group(1), signal.group(2))
            return
        if said.endswith(_UNFINISHED):
            if len(self._begun) < _PENDING_MAX:
                self._begun[pid] = said.removesuffix(_UNFINISHED)
            return
        resumed = _RESUMED.match(said)
        if resumed is not None:
            said = self._begun.pop(pid, "") + resumed.group(2)
        call = _CALL.match(said)
        if call is not None:
            name, arguments, _, error = call.groups()
            yield Call(pid, name, tuple(_split(arguments)), error or "")


def text_in(argument: str) -> str | None:
    """The first string in an argument, surrogates standing for what is not UTF-8."""
    found = _TEXT.search(argument)
    return None if found is None else _unhex(found.group(1))


def _unhex(text: str) -> str:
    return os.fsdecode(bytes(int(one, 16) for one in _HEX.findall(text)))


def _split(arguments: str) -> Iterator[str]:
    """At the commas of the outermost level; strings cannot hold one, they are hexadecimal."""
    depth, begun = 0, 0
    for at, character in enumerate(arguments):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            yield arguments[begun:at].strip()
            begun = at + 1
    yield arguments[begun:].strip()
