"""Tombstones as tests make them."""

from __future__ import annotations

from typing import Any

from supervisor.core import block
from supervisor.core.ids import OperationId, SessionId
from supervisor.core.session_state import Tombstone


def small_blocks(monkeypatch: Any, rows: int, texts: int) -> None:
    """So that a few tombstones fill some."""
    monkeypatch.setattr(block, "ROWS", rows)
    monkeypatch.setattr(block, "TEXTS", texts)


def tombstone(n: int, message: int) -> Tombstone:
    session, request = SessionId(f"uid:{message % 2}"), f"turn {message}: \N{BELL}"
    return Tombstone(OperationId(f"op_{n}"), session, request, f"{n:064x}", n % 3, n * 10**9)


def older_line(tombstones: list[Tombstone]) -> dict[str, list[str]]:
    """What a snapshot of the second version said of a block."""
    return {
        "operations": [one.operation_id for one in tombstones],
        "messages": [" ".join(one.message) for one in tombstones],
        "rest": [f"{one.request_digest} {one.uid} {one.at}" for one in tombstones],
    }
