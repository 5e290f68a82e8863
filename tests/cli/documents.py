"""Documents of the API's shape, as values for the renderers' tests."""

from __future__ import annotations

from typing import Any

OP = "op_0123456789abcdefghij"
OP2 = "op_0123459999abcdefghij"
CALL = "call_0123456789abcdefghij"
EFF = "eff_0123456789abcdefghij"
EFF2 = "eff_zzzz456789abcdefghij"


def budget(**more: int) -> dict[str, int]:
    return {
        "max_run_ms": 40_000,
        "confirmed_ms": 0,
        "reserved_ms": 10_000,
        "charged_ms": 10_000,
        "remaining_ms": 30_000,
        **more,
    }


def operation(**more: Any) -> dict[str, Any]:
    return {
        "operation_id": OP,
        "session_id": "ses_0123456789abcdefghij",
        "request_id": "thread-1:tool-2",
        "kind": "dispatch",
        "handlers": ["charge"],
        "state": "succeeded",
        "cancel_requested": False,
        "budget": budget(),
        "calls": [CALL],
        "continuations": [],
        "result": {"receipt": 7},
        "revision": 5,
        "created_at": "2026-03-01T10:00:00.000Z",
        "labels": {},
        **more,
    }


def approval(**more: Any) -> dict[str, Any]:
    return {
        "operation_id": OP,
        "occurrence": "ok",
        "prompt": "Ship it?",
        "choices": ["approve", "reject"],
        "by": ["group:finance"],
        "state": "pending",
        "expires_at": "2026-03-01T11:00:00.000Z",
        **more,
    }


def attempt(**more: Any) -> dict[str, Any]:
    return {
        "attempt": 0,
        "phase": "ended",
        "outcome": "failed",
        "reservation_ms": 10_000,
        "active_ms": 1_250,
        "exit": {"code": 3, "signal": None},
        "usage": {"cpu_ms": 40, "memory_peak_bytes": 9 << 20, "tasks_peak": 2},
        "layers": ["pid_namespace", "root"],
        "leftovers_killed": 0,
        "started_at": "2026-03-01T10:00:00.010Z",
        "ended_at": "2026-03-01T10:00:01.260Z",
        **more,
    }


def effect(**more: Any) -> dict[str, Any]:
    return {
        "effect_id": EFF,
        "operation_id": OP,
        "handler": "charge",
        "tries": [
            {"call_id": CALL, "attempt": 0, "outcome": "unknown", "ended": "nobody saw it end"}
        ],
        "call_id": CALL,
        "attempt": 0,
        "ordinal": 0,
        "name": "charge-card",
        "contract": "no_safe_retry",
        "outcome": "unknown",
        "needs": "person",
        "request": {"amount": 100},
        "result_available": False,
        "settled_by": None,
        "revision": 3,
        "key_valid_until": None,
        "how_to_check": "the provider's dashboard, search eff_0123456789abcdefghij",
        "announced_at": "2026-03-01T10:00:00.500Z",
        **more,
    }


def call(**more: Any) -> dict[str, Any]:
    return {
        "call_id": CALL,
        "operation_id": OP,
        "handler": "charge",
        "state": "succeeded",
        "result": {"receipt": 7},
        "result_available": True,
        "replayed": False,
        "late": False,
        "retry_of": None,
        "retried_by": None,
        "effects_applied": 1,
        "effects_unknown": 0,
        "error": None,
        "created_at": "2026-03-01T10:00:00.001Z",
        "attempts": [attempt(outcome="succeeded", exit={"code": 0, "signal": None})],
        "effects": [effect(outcome="applied", needs="nothing")],
        **more,
    }


def failed_call(**more: Any) -> dict[str, Any]:
    return call(
        **{
            "state": "failed",
            "result": None,
            "result_available": False,
            "effects_applied": 0,
            "effects": [],
            "attempts": [attempt()],
            **more,
        }
    )


def recovery(**more: Any) -> dict[str, Any]:
    return {
        "schema_version": "effectd-operation-recovery-v1",
        "operation_id": OP,
        "state": "unknown",
        "freshness": {"position": 41, "as_of": "2026-03-01T10:05:00.000Z"},
        "checkpoint": {"revision": 7, "digest": "ab" * 32},
        "correlations": [{"call_id": CALL, "attempt": 0, "ordinal": 0, "effect_id": EFF}],
        "effects": [{**effect(), "verdict": "EffectOutcomeUnknown"}],
        "allowed_actions": ["resolve", "cancel"],
        "actions": [
            {
                "action": "resolve",
                "method": "POST",
                "path": f"/v1/effects/{EFF}/resolve",
                "body": {},
                "needs": "resolve",
                "effect": "states what came of the effect, with evidence",
                "call_id": CALL,
                "effect_id": EFF,
            },
            {
                "action": "cancel",
                "method": "POST",
                "path": f"/v1/operations/{OP}/cancel",
                "body": {},
                "needs": "run",
                "effect": "ends what runs and starts nothing more",
                "call_id": None,
                "effect_id": None,
            },
        ],
        "refusals": [
            {
                "code": "EffectOutcomeUnknown",
                "effect_id": EFF,
                "detail": "charge-card was left and not confirmed",
                "fix": "look at the provider",
            }
        ],
        **more,
    }
