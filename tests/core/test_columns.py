"""Columns: found are those that are there, in any process, and nothing else is believed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from supervisor.core import columns
from supervisor.core.columns import (
    column_in,
    column_of,
    hints_in,
    hints_of,
    print_of,
    prints_in,
    prints_of,
    text_of_bytes,
)
from supervisor.scratch import Scratch

TEXTS = [f"op_{n}" for n in range(300)]


def test_each_text_is_found_in_its_rows_and_no_other_is():
    prints = prints_of((print_of(one), row) for row, one in enumerate(TEXTS))
    assert len(prints) == len(TEXTS)
    for row, one in enumerate(TEXTS):
        assert [*prints.at(print_of(one))] == [row]
    assert not prints.at(print_of("op_300"))
    assert not prints_of(()).at(0)


def test_all_pages_are_one_column(monkeypatch):
    """Whatever ends with a page, and goes on in the next."""
    monkeypatch.setattr(columns, "PAGE", 4)
    numbers = [n // 3 for n in range(40)]
    prints = prints_of((number, row) for row, number in enumerate(numbers))
    for number in range(-1, 15):
        rows = [row for row, one in enumerate(numbers) if one == number]
        assert [*prints.at(number)] == rows


def test_a_column_is_the_same_wherever_its_bytes_are(tmp_path):
    scratch = Scratch(tmp_path)
    for code, most in (("H", 2**16), ("I", 2**32), ("Q", 2**64)):
        column = column_of(code, [0, 1, most - 1])
        for _ in range(2):
            assert [*column] == [column[0], column[1], column[2]] == [0, 1, most - 1]
            assert [*column.part(1, 9)] == [1, most - 1]
            assert column_in(code, column.text()).contents[:] == column.contents[:]
            column.contents.keep_in(scratch.put)
        assert not column.contents.in_memory


def test_all_rows_with_one_print_are_named():
    prints = prints_of([(7, 2), (9, 0), (7, 1), (2**64 - 1, 3)])
    assert [*prints.at(7)] == [1, 2]
    assert [*prints.at(2**64 - 1)] == [3]


def test_a_print_is_the_same_in_every_process():
    code = "from supervisor.core.columns import print_of; print(print_of('op_1'))"
    said = {
        subprocess.check_output([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    }
    assert said == {b"%d\n" % print_of("op_1")}


def test_what_is_written_reads_back():
    prints = prints_of((print_of(one), row) for row, one in enumerate(TEXTS))
    again = prints_in(prints.texts(), len(TEXTS))
    assert [*again.pairs()] == [*prints.pairs()]


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (None, "no prints"),
        ("ab", "no prints"),
        (["AAAAAAAAAAA="], "no prints"),
        ([1, "AAA="], "no text"),
        (["AAA=", "AAA="], "middle of a number"),
        (["AAAAAAAAAAA=", ""], "not there"),
        (["AAAAAAAAAAA=", "AQA="], "not there"),
        (["AAAAAAAAAAA=", "A*A="], "base64"),
    ],
)
def test_what_are_no_prints_is_refused(texts, says):
    with pytest.raises(ValueError, match=r"(?i)" + says):
        prints_in(texts, 1)


def test_columns_are_texts_of_bytes():
    assert [*column_in("H", text_of_bytes(b"\x01\x00\x00\x01"))] == [1, 256]
    assert column_in("Q", "AQAAAAAAAAA=").text() == "AQAAAAAAAAA="


def test_hints_know_every_print_that_is_there_and_few_others():
    prints = prints_of((print_of(one), row) for row, one in enumerate(TEXTS))
    hints = hints_of(prints)
    assert hints_in(text_of_bytes(hints)) == hints

    def hinted(text: str) -> int:
        bit = print_of(text) % (8 * len(hints))
        return hints[bit >> 3] >> (bit & 7) & 1

    assert all(map(hinted, TEXTS))
    assert sum(hinted(f"none {n}") for n in range(10_000)) < 10_000 / 12
    with pytest.raises(ValueError, match="no hints"):
        hints_in("")
