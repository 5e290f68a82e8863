"""The table of promises and the tests that prove them, kept in step.

`python -m tests.guarantees` writes the proof column of docs/guarantees.md from the
`guarantee` markers in the tests; a test fails when the page and the markers differ.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "guarantees.md"
TESTS = (ROOT / "tests", ROOT / "sdk" / "tests")


@functools.cache
def marked() -> dict[str, Counter[str]]:
    """Row id -> test file -> how many tests of it carry the marker. Read, not imported."""
    found: dict[str, Counter[str]] = {}
    for folder in TESTS:
        for file in sorted(folder.rglob("*.py")):
            for row in _rows_of(ast.parse(file.read_text(encoding="utf-8"))):
                name = str(file.relative_to(ROOT))
                found.setdefault(row, Counter())[name] += 1
    return found


def _rows_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_marker(node.func):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def _is_marker(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "guarantee"
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "mark"
    )


def rows(page: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells (id, promise, proof, falls short) of each row of a promise."""
    for number, line in enumerate(page.splitlines()):
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 4 and cells[0] not in {"id", "---"}:
            yield number, cells


def proof(row: str, found: dict[str, Counter[str]]) -> str:
    files = found.get(row, Counter())
    return "<br>".join(
        f"`{name}`" + (f" x{count}" if count > 1 else "") for name, count in sorted(files.items())
    )


def rewritten(page: str) -> str:
    """The page with its proof column as the markers say."""
    found = marked()
    lines = page.splitlines()
    for number, (row, promise, _, short) in rows(page):
        lines[number] = f"| {row} | {promise} | {proof(row, found) or '-'} | {short or '-'} |"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
