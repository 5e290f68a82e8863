"""Why a call is where it is, when that is not where it was meant to be, and what to do about it.

How an attempt ended and what is known of its effects are two things: while nobody knows whether an
effect happened, that is what is told first, whatever the end was.
"""

from __future__ import annotations

from typing import Any

from supervisor.core.contract import strictest
from supervisor.core.errors import CODES, Refusal
from supervisor.core.lineage import effect_verdict, lost_refusal, refusal_of, unresolved
from supervisor.core.moment import Moment
from supervisor.core.standing import CallState
from supervisor.core.state import Call, Operation, Said

# What to do about an attempt that ran into a limit of its own. The code's fix is for requests.
_RAISE: dict[str, str] = {
    "memory": "Raise [sandbox] memory_max in its manifest, or let it need less.",
    "cpu": "Raise [sandbox] cpu_max_ms in its manifest.",
    "file_size": "Raise [sandbox] file_size_max in its manifest.",
    "output": "Raise [output] output_max_bytes in its manifest, or let it print less.",
    "effects": "Raise [sandbox] effects_max in its manifest.",
    "faults": "Correct the handler: it does not speak protocol 1 on fd 3.",
}


def error_view(
    operation: Operation, call: Call, state: CallState, now: Moment
) -> dict[str, Any] | None:
    """`code`, `detail` and `fix`; None where there is nothing to tell."""
    if state in {CallState.SUCCEEDED, CallState.RUNNING, CallState.ACCEPTED}:
        return None
    if state is CallState.UNKNOWN:
        return _unknown(operation, call, now)
    if call.refused is not None:
        return {"code": call.refused, "detail": call.refused_detail, "fix": CODES[call.refused].fix}
    code, detail = _end(operation, call)
    if code is None and not detail:
        return None
    return {"code": code, "detail": detail, "fix": _fix(operation, call, code)}


def _unknown(operation: Operation, call: Call, now: Moment) -> dict[str, Any]:
    """What the strictest contract of its unknown effects allows, and how the attempt ended."""
    ended = _end(operation, call)[1]
    if operation.lost:
        return _refused(lost_refusal(operation, call), ended)
    unknown = [effect for effect in operation.lineage(call) if unresolved(effect)]
    decided = strictest([effect_verdict(effect, call, now) for effect in unknown])
    if decided.refuses:
        return _refused(refusal_of(operation, call, decided, now), ended)
    which = f"effect {unknown[0].declared.name!r} ({unknown[0].effect_id}) is unknown"
    return {
        "code": "EffectOutcomeUnknown",
        "detail": "; ".join(text for text in (ended, which) if text),
        "fix": _go_on(operation),
    }


def _refused(refusal: Refusal, ended: str) -> dict[str, Any]:
    return {
        "code": refusal.code,
        "detail": "; ".join(text for text in (ended, refusal.detail) if text),
        "fix": refusal.remedy,
    }


def _end(operation: Operation, call: Call) -> tuple[str | None, str]:
    """Code and detail of its last attempt."""
    last = call.last
    return (last.code, last.detail or _said_no(operation, call)) if last is not None else (None, "")


def _fix(operation: Operation, call: Call, code: str | None) -> str:
    if call.last is not None and call.last.usage.limit in _RAISE:
        return _RAISE[call.last.usage.limit]
    if code == "Draining":  # the code's fix is for requests; this one was accepted
        return _go_on(operation)
    return CODES[code].fix if code is not None else ""


def _go_on(operation: Operation) -> str:
    return f"`effectctl operations recovery {operation.operation_id}` says how it can go on."


def _said_no(operation: Operation, call: Call) -> str:
    """Why the provider did not do it, in the handler's words."""
    reasons = [e.newest.reason for e in operation.lineage(call) if e.outcome is Said.NOT_APPLIED]
    return "; ".join(reason for reason in reasons if reason)
