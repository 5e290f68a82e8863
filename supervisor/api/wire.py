"""Documents out: problem documents, times, and the status that a code has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from supervisor.core.errors import CODES, Refusal

JSON = "application/json"
PROBLEM = "application/problem+json"
NDJSON = "application/x-ndjson"


def dumps(document: Any) -> bytes:
    return orjson.dumps(document)


def time_text(ns: int | None) -> str | None:
    """RFC 3339 UTC with milliseconds."""
    if ns is None:
        return None
    moment = datetime.fromtimestamp(ns // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns // 1_000_000 % 1_000:03d}Z"


def refusal_members(refusal: Refusal) -> dict[str, Any]:
    """The refusal as it stands in a recovery document or a call's error."""
    members: dict[str, Any] = {
        "code": refusal.code,
        "detail": refusal.detail,
        "fix": refusal.remedy,
    }
    if refusal.call_id is not None:
        members["call_id"] = refusal.call_id
    if refusal.effect_id is not None:
        members["effect_id"] = refusal.effect_id
    return {**members, **refusal.extra}


def problem(refusal: Refusal) -> tuple[int, dict[str, Any]]:
    """The HTTP status and the problem document (RFC 9457) of a refusal."""
    code = CODES[refusal.code]
    document: dict[str, Any] = {
        "type": f"urn:effectd:{code.name}",
        "title": code.title,
        "status": code.http_status,
        **refusal_members(refusal),
        "retryable": code.retryable,
        "for_model": code.for_model,
    }
    if refusal.pointer is not None:
        document["pointer"] = refusal.pointer
    if refusal.needs is not None:
        document["needs"] = refusal.needs
    return code.http_status, document
