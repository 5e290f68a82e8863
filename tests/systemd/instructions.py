"""The commands of docs/install.md, so that what is written there is what is tested."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "install.md"


def commands(name: str) -> str:
    """The one block that opens with ```sh NAME."""
    page = PAGE.read_text(encoding="utf-8")
    opening = f"\n```sh {name}\n"
    assert page.count(opening) == 1, f"docs/install.md has {page.count(opening)} blocks {name!r}"
    return page.partition(opening)[2].partition("\n```\n")[0]
