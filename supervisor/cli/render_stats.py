"""What a journal holds, in figures, as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from supervisor.cli.look import Look, escape
from supervisor.cli.text import Column, clock, fields, plural, size, table


def stats(document: dict[str, Any], look: Look) -> str:
    """The figures of `journal stats`, from its document."""
    parts = [
        _head(document),
        _counted(document["kinds"], "KIND", look),
        _counted(document["segments"], "SEGMENT", look),
        _counted(document["days"], "DAY", look),
        _largest(document["largest"], look),
    ]
    return "\n\n".join(part for part in parts if part)


def _head(document: dict[str, Any]) -> str:
    states = ", ".join(f"{count} {state}" for state, count in document["operations"].items())
    oldest, kept = document["oldest_unresolved"], document["retention"]
    frames, batches = document["decisions"], document["batches"]
    unresolved = f"{oldest['effect_id']}, {clock(oldest['announced_at'])}" if oldest else "none"
    freed = f"{plural(kept['operations'], 'operation')}, {size(kept['bytes'])} of records"
    return fields(
        [
            ("journal", escape(document["directory"])),
            ("on disk", size(document["bytes"])),
            ("decisions", f"{frames} in {plural(batches, 'batch', 'batches')}, one sync each"),
            ("operations", states or "none"),
            ("oldest unknown", unresolved),
            (f"finished {kept['finished_days']} d ago", freed),
        ]
    )


def _counted(rows: Sequence[dict[str, Any]], title: str, look: Look) -> str:
    """Names with their counts and bytes."""
    if not rows:
        return ""
    counted = any("count" in row for row in rows)
    columns = [Column(title), *([Column("COUNT", right=True)] if counted else [])]
    lines = [
        [
            escape(row["name"]),
            *([str(row["count"])] if counted else []),
            size(row["bytes"]),
        ]
        for row in rows
    ]
    return table([*columns, Column("BYTES", right=True)], lines, look)


def _largest(rows: Sequence[dict[str, Any]], look: Look) -> str:
    if not rows:
        return ""
    lines = [[str(row["position"]), size(row["bytes"]), escape(row["kinds"])] for row in rows]
    columns = [Column("LARGEST AT", right=True), Column("BYTES", right=True)]
    return table([*columns, Column("KINDS", flexible=True)], lines, look)
