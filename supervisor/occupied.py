"""How much of a disk a directory takes. Standard library only."""

from __future__ import annotations

import os
from pathlib import Path

_BLOCK = 512


def occupied(directory: Path) -> int:
    """Bytes of disk that all files below it take. What vanishes meanwhile takes none."""
    found = 0
    left = [os.fspath(directory)]
    while left:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        left.append(entry.path)
                    else:
                        found += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
        except FileNotFoundError:
            continue
    return found


def largest_snapshot(directory: Path) -> int:
    """In bytes, of the journal in a state directory; 0 when it has none."""
    return max((one.stat().st_size for one in directory.glob("journal/snap-*.json")), default=0)
