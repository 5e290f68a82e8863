"""A request's target: what is accepted, and what it becomes."""

from __future__ import annotations

from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.server.target import BadTargetError, parse

NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\x7f"))


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/", (), {}),
        ("/v1/status", ("v1", "status"), {}),
        ("/v1/status/", ("v1", "status", ""), {}),
        ("//", ("", ""), {}),
        ("/a%2Fb/%c3%a9", ("a/b", "é"), {}),
        ("/a+b", ("a+b",), {}),
        ("/?", (), {}),
        ("/x?a=1&b=2&a=3", ("x",), {"a": ("1", "3"), "b": ("2",)}),
        ("/x?a+b=c%2Bd&e", ("x",), {"a b": ("c+d",), "e": ("",)}),
        ("/x?a=b=c&&", ("x",), {"a": ("b=c",)}),
        ("/x?a=/y?z", ("x",), {"a": ("/y?z",)}),
        ("http://localhost/v1/status?a=1", ("v1", "status"), {"a": ("1",)}),
        ("HTTP://localhost", (), {}),
        ("http://localhost?a=1", (), {"a": ("1",)}),
    ],
)
def test_target_is_split_then_decoded(target: str, path: tuple[str, ...], query: dict) -> None:
    assert parse(target) == (path, query)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("", "slash"),
        ("*", "slash"),
        ("example.org:443", "slash"),
        ("ftp://host/x", "slash"),
        ("/a%00b", "control"),
        ("/a%0ab", "control"),
        ("/a%7f", "control"),
        ("/?a=%00", "control"),
        ("/%", "hexadecimal"),
        ("/%4", "hexadecimal"),
        ("/%zz", "hexadecimal"),
        ("/?%g0=1", "hexadecimal"),
        ("/%ff", "UTF-8"),
        ("/%c0%af", "UTF-8"),
        ("/%ed%a0%80", "UTF-8"),
        ("/a#b", "fragment"),
        ("/?" + "&".join(f"a{i}" for i in range(65)), "64 fields"),
    ],
)
def test_bad_target_says_what_is_wrong(target: str, why: str) -> None:
    with pytest.raises(BadTargetError, match=why):
        parse(target)


@settings(database=None)
@given(st.lists(NAMES, min_size=1), st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=3)))
def test_what_a_client_escapes_comes_back_whole(path: list[str], query: dict) -> None:
    pairs = [(name, value) for name, values in query.items() for value in values][:64]
    target = "/" + "/".join(quote(part, safe="") for part in path) + "?" + urlencode(pairs)
    found: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        found[name] = (*found.get(name, ()), value)
    expected = () if path == [""] else tuple(path)
    assert parse(target) == (expected, found)
