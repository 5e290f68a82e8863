"""Print a journal's lines with their places, one a line, for people and for grep.

    python3 -I -m supervisor.journal.dump DIRECTORY

Standard library only; takes no lock.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from supervisor.journal.errors import JournalCorrupt, JournalError
from supervisor.journal.read import Entry, entries


def dump(directory: Path) -> Iterator[Entry]:
    """Every line up to the end or the first damage, which it raises as JournalCorrupt."""
    return entries(directory)


def describe(entry: Entry) -> str:
    flag = "" if entry.attested else " (not attested)"
    text = entry.payload.decode("utf-8", "backslashreplace")
    if not text.isprintable():  # JSON lets DEL and C1 through, and a terminal obeys them
        text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return f"{entry.file}:{entry.offset} {entry.position}{flag} {text}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit codes: 0 printed all; 1 could not run; 2 damaged, printed what is proven."""
    parser = argparse.ArgumentParser(prog="journal dump", description="Print a journal.")
    parser.add_argument("directory", type=Path)
    try:
        for entry in dump(parser.parse_args(arguments).directory):
            sys.stdout.write(describe(entry) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # quiet at exit, too
    except JournalError as error:
        sys.stdout.flush()
        sys.stderr.write(f"{error}\n{error.fix}\n")
        return 2 if isinstance(error, JournalCorrupt) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
