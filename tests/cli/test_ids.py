"""Which id a beginning means."""

from __future__ import annotations

import pytest

from supervisor.cli.exits import Exit
from supervisor.cli.ids import only
from supervisor.cli.talk import CommandError
from tests.cli.documents import OP, OP2


def test_one_that_fits_is_meant() -> None:
    assert only("operation", "op_0123456789", [OP]) == OP


def test_several_that_fit_are_named_and_none_is_taken() -> None:
    with pytest.raises(CommandError) as caught:
        only("operation", "op_012345", [OP, OP2])
    assert OP in str(caught.value)
    assert OP2 in str(caught.value)
    assert caught.value.exit_code is Exit.USAGE


def test_very_many_that_fit_are_counted() -> None:
    with pytest.raises(CommandError, match="and 95 more"):
        only("effect", "eff_01", [f"eff_{i:020}" for i in range(100)])


@pytest.mark.parametrize(
    ("kind", "noun"), [("operation", "operations"), ("call", "operations"), ("effect", "effects")]
)
def test_none_that_fits_exits_4_and_says_where_to_look(kind: str, noun: str) -> None:
    with pytest.raises(CommandError) as caught:
        only(kind, "zzzzzz", [])  # type: ignore[arg-type]
    assert caught.value.exit_code is Exit.NOT_FOUND
    assert f"effectctl {noun} list" in caught.value.fix
