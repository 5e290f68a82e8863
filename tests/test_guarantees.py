"""No promise without a proof, and no proof of something that nobody promised."""

from __future__ import annotations

from tests.guarantees import PAGE, marked, rewritten, rows


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_every_row_has_a_test_or_says_not_yet() -> None:
    bare = [
        row
        for _, (row, _, proof, short) in rows(page())
        if proof == "-" and not short.startswith("not yet")
    ]
    assert not bare


def test_every_marker_names_a_row() -> None:
    assert set(marked()) <= {row for _, (row, *_) in rows(page())}


def test_the_page_names_the_tests_that_carry_the_markers() -> None:
    assert page() == rewritten(page()), "run: python -m tests.guarantees"


def test_every_family_of_promises_is_on_the_page() -> None:
    families = {row[0] for _, (row, *_) in rows(page())}
    assert families == set("BERPASJ")
    assert sum(1 for _ in rows(page())) == 79
