"""What is wrong with a configuration, said so that it can be put right.

A problem names the file, the dotted key (`effect[1].reconcile.timeout_ms`), what is
wrong and what to do. A file's problems are reported together, never only the first.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from frozen import frozen


@frozen
class Problem:
    """One fault. `key` is empty when the whole file is meant."""

    file: str
    key: str
    message: str
    fix: str

    @property
    def text(self) -> str:
        """One line for a person, in which no character acts on a terminal."""
        where = f"{self.file}: {self.key}" if self.key else self.file
        return printable(f"{where}: {self.message}; {self.fix}")


@frozen
class Fault:
    """A problem whose file is not known yet: what the pure rules hand back."""

    key: str
    message: str
    fix: str

    def in_file(self, file: str) -> Problem:
        return Problem(file, self.key, self.message, self.fix)


class ConfigError(Exception):
    """A file that cannot be used; carries every problem found in it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        assert self.problems, "an error names at least one problem"
        super().__init__("\n".join(problem.text for problem in self.problems))


class WrongValueError(ValueError):
    """A value that its key does not take: raised while one value is read, always caught."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


def printable(text: str) -> str:
    """The text with everything that does not print, surrogates included, as an escape."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that the writer of `word` most likely meant."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)), None)


def shown(value: object) -> str:
    """A value of a TOML file as a person calls it: its kind and, when short, itself."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"the integer {value}" if abs(value) < 10**20 else "a huge integer"
        case float():
            return f"the decimal number {value}"
        case str():
            return f"the text {value!r}" if len(value) <= 60 else f"the text {value[:57]!r}..."
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return f"a {type(value).__name__}"
