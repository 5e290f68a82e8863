"""Times and positions as people type them."""

from __future__ import annotations

import pytest

from supervisor.cli.talk import CommandError
from supervisor.cli.when import Spot, spot, time_ns

# 2026-03-01T14:00:00Z
NOW = 1_772_373_600_000_000_000
MINUTE = 60_000_000_000


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-03-01T14:05", NOW + 5 * MINUTE),
        ("2026-03-01T14:05:00.000Z", NOW + 5 * MINUTE),
        ("2026-03-01 14:05:00.250 UTC", NOW + 5 * MINUTE + 250_000_000),
        ("2026-03-01T16:05+02:00", NOW + 5 * MINUTE),
        ("14:05", NOW + 5 * MINUTE),
        ("9:05", NOW - 295 * MINUTE),
        ("-2h", NOW - 120 * MINUTE),
        ("-90s", NOW - 90_000_000_000),
        ("-3min", NOW - 3 * MINUTE),
        ("-1d", NOW - 1440 * MINUTE),
    ],
)
def test_a_time_is_utc_unless_it_says_otherwise(text: str, wanted: int) -> None:
    assert time_ns(text, "--at", NOW) == wanted


@pytest.mark.parametrize("text", ["", "now", "25:00", "14:65", "-2", "2h", "2026-13-01", "-1y"])
def test_what_is_no_time_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(CommandError, match="--since") as caught:
        time_ns(text, "--since", NOW)
    assert "14:05" in caught.value.fix


def test_a_bare_number_is_a_position() -> None:
    assert spot("17", "--at", NOW) == Spot(17, None)
    assert spot("14:05", "--at", NOW) == Spot(None, NOW + 5 * MINUTE)
