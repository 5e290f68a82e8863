"""Several pages in one file: each verb writes its own and leaves the others alone."""

from __future__ import annotations

from pathlib import Path

from bench import pages

FIRST, SECOND = "# One\n\ntext\n\n## A part\n\n| a |\n", "# Two\n\nmore\n"


def test_a_page_is_written_beside_others_and_anew_in_its_own_place(tmp_path: Path) -> None:
    file = tmp_path / "results.md"
    pages.put(file, FIRST)
    assert file.read_text() == FIRST
    pages.put(file, SECOND)
    assert file.read_text() == f"{FIRST}\n{SECOND}"
    pages.put(file, "# One\n\nnew\n")
    assert file.read_text() == f"# One\n\nnew\n\n{SECOND}"
    pages.put(file, SECOND)
    assert file.read_text() == f"# One\n\nnew\n\n{SECOND}"
