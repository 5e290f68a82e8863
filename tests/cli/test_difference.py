"""Where two requests differ, as a JSON pointer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.cli.difference import difference

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("first", "second", "pointer"),
    [
        (1, 1, None),
        (1, 2, "/"),
        (1, True, "/"),
        (1, 1.0, "/"),
        ({"a": 1}, {"a": 1}, None),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "/a/b/1"),
        ({"a": 1}, {"a": 1, "b": 2}, "/b"),
        ({"a/b": 1, "m~n": 0}, {"a/b": 2, "m~n": 0}, "/a~1b"),
        ({"m~n": 1}, {"m~n": 2}, "/m~0n"),
        ([1, 2], [1, 2, 3], "/2"),
        ([], [1], "/0"),
        ({"a": []}, {"a": {}}, "/a"),
        (None, {}, "/"),
    ],
)
def test_the_first_difference_is_named(first: Any, second: Any, pointer: str | None) -> None:
    assert difference(first, second) == pointer


@settings(max_examples=60, database=None, deadline=None)
@given(JSON, JSON)
def test_no_difference_means_the_same_bytes(first: Any, second: Any) -> None:
    same = json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)
    assert (difference(first, second) is None) == same


@settings(max_examples=60, database=None, deadline=None)
@given(JSON)
def test_a_value_does_not_differ_from_itself(value: Any) -> None:
    assert difference(value, json.loads(json.dumps(value))) is None
