"""What an attempt used, in the words of `calls show`."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.cli.look import Look
from supervisor.cli.render_calls import call, used
from tests.cli import documents

MIB = 1 << 20
ALLOWED = {"memory_max": 256 * MIB}


@pytest.mark.guarantee("S6")
@pytest.mark.parametrize(
    ("usage", "words"),
    [
        ({}, []),
        ({"cpu_ms": None, "memory_peak_bytes": None, "tasks_peak": None, "limit": None}, []),
        ({"cpu_ms": 0}, ["cpu 0 ms"]),
        ({"cpu_ms": 1_200, "cpu_scope": "reaped"}, ["cpu 1.2 s"]),
        (
            {"memory_peak_bytes": 9 * MIB, "memory_scope": "tree"},
            ["memory used 9216 KiB of 256 MiB"],
        ),
        (
            {"memory_peak_bytes": 9 * MIB, "memory_scope": "largest_process"},
            ["memory used 9216 KiB by its largest process"],
        ),
        ({"tasks_peak": 1, "tasks_started": 40}, ["1 task at once", "40 started"]),
        ({"tasks_started": 2}, ["2 started"]),
        ({"limit": "memory"}, ["ENDED BY ITS LIMIT of memory"]),
        ({"limit": "\x1b[31m"}, ["ENDED BY ITS LIMIT of \\x1b[31m"]),
    ],
)
def test_what_was_used_is_told_as_far_as_it_was_counted(
    usage: dict[str, Any], words: list[str]
) -> None:
    assert used(usage, ALLOWED) == words


def test_without_the_handlers_limits_its_use_is_told_alone() -> None:
    assert used({"memory_peak_bytes": 9 * MIB, "memory_scope": "tree"}, {}) == [
        "memory used 9216 KiB"
    ]


@pytest.mark.guarantee("S6")
def test_a_limit_that_ended_an_attempt_stands_beside_what_to_raise() -> None:
    error = {
        "code": "LimitExceeded",
        "detail": "memory: it needed more than memory_max = 268435456 bytes",
        "fix": "Raise [sandbox] memory_max in its manifest, or let it need less.",
    }
    usage = {"cpu_ms": 40, "memory_peak_bytes": 256 * MIB, "limit": "memory"}
    document = documents.call(
        state="failed", error=error, attempts=[documents.attempt(usage=usage)]
    )
    shown = " ".join(call(document, Look(now_ns=0)).split())
    for said in ("LimitExceeded: memory: it needed", "Raise [sandbox] memory_max", "ENDED BY ITS"):
        assert said in shown
