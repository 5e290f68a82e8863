"""The page of others' failures names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_every_failure_has_a_test_that_is_there():
    page = (ROOT / "docs" / "known-failures.md").read_text("utf-8")
    rows = [one for one in page.splitlines() if one.startswith("| ") and "told in" not in one]
    rows = [one for one in rows if not one.startswith("| ---")]
    assert len(rows) >= 13
    for row in rows:
        named = re.findall(r"`(tests/\S+?\.py)::(\w+)`", row)
        assert named, row
        for file, name in named:
            text = (ROOT / file).read_text("utf-8")
            assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), f"{file}::{name}"
