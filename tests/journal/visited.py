"""How many points each fault loop visits: a loop that quietly visits fewer proves less.

`visited.toml` holds the floors. A loop that grew raises its floor by hand.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

FLOORS: dict[str, int] = tomllib.loads(Path(__file__).with_name("visited.toml").read_text("utf-8"))


def visited(loop: str, count: int) -> None:
    """Report what a loop visited; AssertionError when that is less than its floor."""
    floor = FLOORS[loop]
    print(f"{loop}: {count} points visited, at least {floor} expected")
    assert count >= floor, f"{loop}: {count} points visited, {floor} expected"
