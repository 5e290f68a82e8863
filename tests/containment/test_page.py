"""docs/sandbox.md says what is so: keys, defaults, environment, directories."""

from __future__ import annotations

import json
import re
from pathlib import Path

import attrs
import pytest

from config.manifest import SandboxDecl
from sandbox.plan import SYSTEM
from sandbox.spec import DEFAULT_ENVIRONMENT

PAGE = Path(__file__).parents[2] / "docs" / "sandbox.md"


def table(head: str) -> dict[str, list[str]]:
    """The rows under a table's first head, by their first cell."""
    lines = PAGE.read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {head} |"))
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        first, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[first] = cells
    return rows


def value(text: str) -> object:
    """A default as the page writes it, in bytes where it is a size."""
    plain = json.loads(text.strip("`").replace("_", ""))
    size = re.fullmatch(r"(\d+)([MG])", plain) if isinstance(plain, str) else None
    if size is not None:
        return int(size[1]) << {"M": 20, "G": 30}[size[2]]
    return tuple(plain) if isinstance(plain, list) else plain


def test_the_page_has_every_key_with_its_default() -> None:
    keys = table("key")
    fields = {f"`{field.name}`": field.default for field in attrs.fields(SandboxDecl)}
    assert list(keys) == list(fields)
    assert {key: value(cells[0]) for key, cells in keys.items()} == fields


@pytest.mark.parametrize("name", DEFAULT_ENVIRONMENT)
def test_the_page_has_the_environment(name: str) -> None:
    assert f"`{name}={DEFAULT_ENVIRONMENT[name]}`" in PAGE.read_text()


def test_the_page_names_the_system_directories() -> None:
    (row,) = (row for row in table("what") if row.startswith("the system:"))
    assert sorted(row.split("`")[1].split()) == sorted(SYSTEM)
