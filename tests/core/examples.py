"""How many examples a property draws: few and always the same ones, or with --long many."""

from __future__ import annotations

import sys

from hypothesis import HealthCheck, settings

LONG = "--long" in sys.argv


def examples(quick: int, long: int) -> settings:
    return settings(
        max_examples=long if LONG else quick,
        derandomize=not LONG,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
