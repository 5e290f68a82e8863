"""What people read: aligned, whole ids, safe on a terminal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.cli.look import UNSAFE, Look, ascii_locale, escape, write
from supervisor.cli.text import (
    Column,
    ago,
    cells,
    clock,
    cut,
    fields,
    json_text,
    moment_ns,
    size,
    span,
    table,
)

NOW = moment_ns("2026-03-01T12:00:00.000Z")
assert NOW is not None
PLAIN = Look(now_ns=NOW)
COLOUR = Look(now_ns=NOW, colour=True)
ASCII = Look(now_ns=NOW, ascii_only=True)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (1, "1 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (1_250, "1.2 s"),
        (59_999, "59.9 s"),
        (60_000, "1 min"),
        (125_000, "2 min 5 s"),
        (3_600_000, "1 h"),
        (10_980_000, "3 h 3 min"),
        (97_200_000, "1 d 3 h"),
        (86_400_000 * 30, "30 d"),
        (-5_000, "-5 s"),
    ],
)
def test_a_duration_is_said_in_the_two_units_that_matter(milliseconds: int, text: str) -> None:
    assert span(milliseconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (10_239, "10239 B"), (10_240, "10 KiB"), (256 << 20, "256 MiB")]
)
def test_sizes_are_binary(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(
    ("stamp", "text"),
    [
        ("2026-03-01T12:00:00.000Z", "now"),
        ("2026-03-01T11:59:30.000Z", "30 s ago"),
        ("2026-03-01T11:56:10.000Z", "3 min ago"),
        ("2026-02-28T11:00:00.000Z", "1 d ago"),
        ("2026-03-01T14:00:00.000Z", "in 2 h"),
        (None, "-"),
        ("yesterday", "-"),
        ("2026-03-01T12:00:00", "-"),
    ],
)
def test_lists_show_times_relative_to_now(stamp: object, text: str) -> None:
    assert ago(stamp, PLAIN) == text


def test_show_prints_absolute_times() -> None:
    assert clock("2026-03-01T12:00:00.123Z") == "2026-03-01 12:00:00.123 UTC"


def test_times_are_exact_to_the_millisecond() -> None:
    assert moment_ns("1970-01-01T00:00:01.001Z") == 1_001_000_000


IDS = st.text("0123456789abcdefghijklmnopqrstuvwxyz", min_size=20, max_size=20)


@settings(database=None, deadline=None)
@given(
    st.lists(st.tuples(IDS, st.text(max_size=60), IDS), min_size=1, max_size=5),
    st.integers(40, 120),
)
def test_a_table_never_cuts_an_id_however_narrow_the_terminal(
    rows: list[tuple[str, str, str]], columns: int
) -> None:
    look = Look(now_ns=0, columns=columns)
    shown = [(f"op_{a}", escape(text), f"eff_{b}") for a, text, b in rows]
    titles = (Column("OPERATION"), Column("WHAT", flexible=True), Column("EFFECT"))
    lines = table(titles, shown, look).split("\n")
    assert len(lines) == len(rows) + 1
    for line, (first, _, last) in zip(lines[1:], shown, strict=True):
        assert line.startswith(first)
        assert line.endswith(last)


def test_a_table_fits_its_terminal_by_cutting_only_the_flexible_column() -> None:
    look = Look(now_ns=0, columns=60)
    text = table(
        (Column("ID"), Column("WHAT", flexible=True), Column("AGE", right=True)),
        [("op_0123456789abcdefghij", "a very long description of what it was", "3 min ago")],
        look,
    )
    assert [cells(line) for line in text.split("\n")] == [60, 60]
    assert "…" in text


def test_columns_line_up_with_wide_and_combining_characters_and_colour() -> None:
    look = Look(now_ns=0, colour=True)
    lines = table(
        (Column("NAME"), Column("STATE"), Column("END")),
        [("日本", look.state("failed"), "x"), ("e\u0301", look.state("succeeded"), "x")],
        look,
    ).split("\n")
    assert {cells(line) for line in lines[1:]} == {cells("NAME  ✓ succeeded  x")}


def test_what_is_cut_says_so() -> None:
    assert cut("0123456789", 8, PLAIN) == "0123456…"
    assert cut("0123456789", 8, ASCII) == "01234..."
    assert cut("01234567", 8, PLAIN) == "01234567"


def test_a_value_of_several_lines_stays_in_its_column() -> None:
    assert fields([("a", "x\ny"), ("long", "z"), ("empty", "")]) == "a     x\n      y\nlong  z"


def test_prose_is_wrapped_in_its_column_and_words_stay_whole() -> None:
    look = Look(now_ns=0, columns=50)
    path = "/a/very/long/path/that/is/longer/than/the/whole/column/there/is"
    text = fields([("name", f"one two three four five six seven eight nine {path} end")], look)
    assert text.split("\n") == [
        "name  one two three four five six seven eight nine",
        f"      {path}",
        "      end",
    ]


ATTACKS = {
    "clear screen": "\x1b[2J\x1b[H",
    "set title": "\x1b]0;owned\x07",
    "C1 CSI": "\x9b2J",
    "backspaces": "rm -rf\x08\x08\x08",
    "carriage return": "error\rok   ",
    "bidirectional override": "abc\u202edcba",
    "isolate": "\u2066x\u2069",
    "zero width": "op_\u200b1",
    "line separator": "a\u2028b",
    "delete": "\x7f",
    "tag characters": "\U000e0041",
    "lone surrogate": "\ud800",
    "byte order mark": "\ufeff",
    "soft hyphen": "a\u00adb",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_what_acts_on_a_terminal_is_spelled_out(attack: str) -> None:
    shown = escape(attack)
    assert not UNSAFE.search(shown)
    assert "\\" in shown


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("pretty", [False, True])
def test_json_is_safe_on_a_terminal_and_still_the_same_value(
    attack: str, ascii_only: bool, pretty: bool
) -> None:
    value = {attack: ["größe", attack]}
    text = json_text(value, pretty=pretty, ascii_only=ascii_only)
    assert not UNSAFE.search(text.replace("\n", "") if pretty else text)
    assert json.loads(text) == value
    assert text.isascii() or not ascii_only


@settings(database=None, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda c: st.lists(c) | st.dictionaries(st.text(), c),
        max_leaves=8,
    )
)
def test_every_json_value_comes_back_as_it_was(value: object) -> None:
    text = json_text(value, pretty=True)
    assert json.loads(text) == value
    assert not UNSAFE.search(text.replace("\n", ""))


def test_ordinary_text_is_left_alone() -> None:
    text = "Größe: 10 €, 日本語, emoji 🙂"
    assert escape(text) == text


def test_wanted_controls_are_kept() -> None:
    assert escape("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"LC_ALL": "C"}, True),
        ({"LANG": "POSIX"}, True),
        ({}, True),
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "de_DE.UTF-8"}, False),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, True),
        ({"LC_ALL": "", "LC_CTYPE": "en_US.UTF-8"}, False),
    ],
)
def test_a_c_locale_is_recognised(environment: dict[str, str], expected: bool) -> None:
    assert ascii_locale(environment) is expected


def test_in_ascii_nothing_else_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    write(ASCII.state("failed") + " für 日本", ASCII)
    assert capsys.readouterr().out == "x failed f\\xfcr \\u65e5\\u672c\n"


def test_colour_is_never_the_only_sign() -> None:
    states = ("succeeded", "failed", "unknown", "running", "interrupted", "cancelled")
    for look in (PLAIN, ASCII):
        assert len({look.mark(state) for state in states}) == len(states)
        assert not any("\x1b" in look.state(state) for state in states)
    assert "\x1b[38;5;33m" in COLOUR.state("succeeded")
    assert "\x1b[38;5;208m" in COLOUR.state("failed")
