"""Values to documents: the objects of the API, the same in every place they appear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from supervisor.api.approvals import approval_view
from supervisor.api.ended import error_view
from supervisor.api.wire import time_text
from supervisor.core.lineage import age_ms, needs_of
from supervisor.core.moment import Moment
from supervisor.core.open_state import Continuation
from supervisor.core.program_state import ProgramState
from supervisor.core.record import Answer, Ended, Kind, Outcome, Result, Usage
from supervisor.core.standing import (
    call_result,
    call_state,
    effects_applied,
    effects_unknown,
    node_waits,
    operation_result,
    operation_state,
)
from supervisor.core.state import Attempt, Call, Effect, Operation, Phase

NS_PER_MS = 1_000_000
# What was read from blobs, by their digest. A view shows the size of every other one.
Values = Mapping[str, Any]
_NONE: Values = {}


def operation_view(operation: Operation, now: Moment, values: Values = _NONE) -> dict[str, Any]:
    budget = operation.budget
    view: dict[str, Any] = {
        "operation_id": operation.operation_id,
        "session_id": operation.session_id,
        "request_id": operation.request_id,
        "kind": operation.kind.value,
        "state": operation_state(operation).value,
        "cancel_requested": operation.cancel_requested,
        "budget": {
            "max_run_ms": budget.max_run_ms,
            "confirmed_ms": budget.confirmed_ms,
            "reserved_ms": budget.reserved_ms,
            "charged_ms": budget.charged_ms,
            "remaining_ms": budget.remaining_ms,
        },
        "calls": list(operation.call_order),
        "continuations": [continuation_view(one) for one in operation.continuations],
        "result": result_view(operation_result(operation), values)["result"],
        "revision": operation.revision,
        "position": operation.position,
        "created_at": time_text(operation.at),
        "updated_at": time_text(operation.updated_at),
        "labels": dict(operation.labels),
        "uid": operation.by.uid,
        "handlers": list(operation.tally.handlers),
        "effects_applied": operation.tally.applied,
        "effects_unknown": operation.tally.unresolved,
    }
    if operation.program is not None:
        view["program"] = _program(operation, operation.program, now)
    if operation.kind is Kind.DISPATCH:
        newest = operation.newest(operation.calls[operation.call_order[0]])
        view["call"] = call_view(operation, newest, now, values)
    return view


def _program(operation: Operation, program: ProgramState, now: Moment) -> dict[str, Any]:
    """Where a program is, by its nodes' paths."""
    end = program.end
    return {
        "resumable": not program.obstacles,
        "not_resumable": list(program.obstacles),
        "input": program.input,
        "inputs": list(program.inputs),
        "bindings": dict(sorted(program.bound.items())),
        "calls": dict(sorted(program.calls.items())),
        "stands_at": list(_stands_at(operation, program, now)) if end is None else [],
        "approvals": [
            approval_view(operation, one)
            for one in sorted(program.approvals.values(), key=lambda a: (a.at, a.node))
        ],
        "ended": None
        if end is None
        else {
            "node": end.node,
            "how": end.ended.value,
            "reason": end.value if end.ended is Ended.STOPPED else None,
            "code": end.code,
            "detail": end.detail,
        },
    }


def _stands_at(
    operation: Operation, program: ProgramState, now: Moment
) -> Iterator[dict[str, Any]]:
    """The nodes whose calls are at rest without a value, and why: only a resume moves them."""
    for node, call_id in sorted(program.calls.items()):
        if node_waits(operation, call_id):
            newest = operation.newest(operation.calls[call_id])
            state = call_state(operation, newest)
            error = error_view(operation, newest, state, now) or {}
            last = newest.last
            ended = _exit_words(last) if last is not None and last.exit is not None else ""
            yield {
                "node": node,
                "call_id": newest.call_id,
                "state": state.value,
                "code": error.get("code"),
                "detail": error.get("detail") or ended,
            }


def call_view(
    operation: Operation, call: Call, now: Moment, values: Values = _NONE
) -> dict[str, Any]:
    state = call_state(operation, call)
    shown = operation.newest(call)
    return {
        "call_id": call.call_id,
        "operation_id": operation.operation_id,
        "handler": call.terms.handler,
        "node": call.node or None,
        "state": state.value,
        "input": call.input,
        "timeout_ms": call.timeout_ms,
        **result_view(call_result(operation, call), values),
        "replayed": shown.restored,
        "late": any(attempt.late for attempt in shown.attempts),
        "retry_of": call.retry_of,
        "retried_by": call.retried_by,
        "effects_applied": effects_applied(operation, call),
        "effects_unknown": effects_unknown(operation, call),
        "error": error_view(operation, shown, state, now),
        "attempts": [attempt_view(attempt) for attempt in call.attempts],
        "effects": [
            effect_view(operation, effect, now, values) for effect in operation.lineage(call)
        ],
        "created_at": time_text(call.at),
    }


# How a call that was made before comes to answer a request.
_WHY: dict[Answer, str] = {
    Answer.FRESH: "",
    Answer.RELAUNCHED: "an identical call had come to no known end, and goes on",
    Answer.RESTORED: "an identical call was settled since; this is its recorded result",
    Answer.JOINED: "an identical call runs since before; this is that one",
    Answer.REPLAYED: "an identical call was completed before; this is its recorded result",
}


def asked_view(
    operation: Operation, request_id: str, now: Moment, values: Values = _NONE
) -> dict[str, Any]:
    """The call that answers a request of an open operation, and how it comes to answer."""
    asked = operation.requests[request_id]
    return {
        **call_view(operation, operation.calls[asked.call_id], now, values),
        "request_id": request_id,
        "continuation": asked.continuation,
        "answer": asked.answer.value,
        "replayed": asked.answer in {Answer.RESTORED, Answer.REPLAYED},
        "why": _WHY[asked.answer],
    }


def continuation_view(one: Continuation) -> dict[str, Any]:
    """One stretch of an open operation; `ended` is when, `reason` why."""
    return {
        "n": one.n,
        "trigger": one.trigger.value,
        "state": "open" if one.reason is None else "ended",
        "reason": one.reason.value if one.reason is not None else None,
        "request_id": one.request_id or None,
        "opened": time_text(one.at),
        "ended": time_text(one.ended_at),
    }


def result_view(result: Result | None, values: Values = _NONE) -> dict[str, Any]:
    """The value where it is at hand; `result_blob` says how large one in a blob is."""
    known = result is not None and result.available
    blob = result.blob if result is not None else None
    value = result.value if result is not None and known else None
    return {
        "result": value if blob is None else values.get(blob.digest),
        "result_available": known,
        "result_blob": None if blob is None else {"digest": blob.digest, "bytes": blob.bytes},
    }


def attempt_view(attempt: Attempt) -> dict[str, Any]:
    left = None
    if attempt.exit is not None:
        left = (
            {"code": attempt.exit.code}
            if attempt.exit.code is not None
            else {"signal": attempt.exit.signal}
        )
    return {
        "attempt": attempt.number,
        "phase": attempt.phase.value,
        "outcome": attempt.outcome.value if attempt.outcome is not None else None,
        "relaunch": attempt.relaunch.value,
        "reservation_ms": attempt.reservation_ms,
        "active_ms": attempt.active_ms,
        "exit": left,
        "usage": usage_view(attempt.usage),
        "layers": list(attempt.layers),
        "leftovers_killed": attempt.leftovers_killed,
        "late": attempt.late,
        "proven_dead": attempt.dead,
        "code": attempt.code,
        "detail": attempt.detail,
        "started_at": time_text(attempt.at),
        "ended_at": time_text(attempt.ended_at),
        "init_pid": attempt.identity.init_pid if attempt.identity is not None else None,
    }


def usage_view(usage: Usage) -> dict[str, Any]:
    """What an attempt used; null where nothing counted it."""
    return {
        "cpu_ms": usage.cpu_ms,
        "cpu_scope": usage.cpu_scope,
        "memory_peak_bytes": usage.memory_peak_bytes,
        "memory_scope": usage.memory_scope,
        "tasks_peak": usage.tasks_peak,
        "tasks_started": usage.tasks_started,
        "limit": usage.limit,
    }


def effect_view(
    operation: Operation, effect: Effect, now: Moment, values: Values = _NONE
) -> dict[str, Any]:
    newest = effect.newest
    call = operation.calls[newest.call_id]
    declared = effect.declared
    valid_until = None
    if declared.contract.value == "idempotency_key":
        valid_until = time_text(effect.first_at + declared.key_valid_ms * NS_PER_MS)
    settled_by = effect.settled_by
    return {
        "effect_id": effect.effect_id,
        "operation_id": operation.operation_id,
        "handler": call.terms.handler,
        "call_id": newest.call_id,
        "attempt": newest.attempt,
        "ordinal": effect.ordinal,
        "name": declared.name,
        "contract": declared.contract.value,
        "outcome": effect.outcome.value,
        "needs": needs_of(operation, effect, now).value,
        "request": effect.request,
        **result_view(effect.result, values),
        "result_unavailable": effect.result.unavailable if effect.result is not None else None,
        "settled_by": settled_by.value if settled_by is not None else None,
        "revision": effect.revision,
        "key_valid_until": valid_until,
        "age_ms": age_ms(effect, now),
        "reconciler": declared.reconciler is not None,
        "reconciling": effect.reconciling is not None,
        "disputes": effect.disputes,
        "evidence": effect.evidence_note,
        "how_to_check": _filled(declared.how_to_check, effect),
        "announced_at": time_text(effect.first_at),
        "tries": [
            {
                "call_id": one.call_id,
                "attempt": one.attempt,
                "outcome": one.outcome.value,
                "settled_by": one.settled_by.value if one.settled_by is not None else None,
                "reason": one.reason,
                "ended": _how_it_ended(operation.calls[one.call_id].attempts[one.attempt]),
            }
            for one in effect.tries
        ],
    }


def _how_it_ended(attempt: Attempt) -> str:
    """Why nobody knows, or how it went, in a word or two."""
    if attempt.live:
        return "running"
    if attempt.phase is Phase.INTERRUPTED:
        return "nobody saw it end"
    assert attempt.outcome is not None
    if attempt.outcome is Outcome.FAILED and attempt.exit is not None:
        return f"failed ({_exit_words(attempt)})"
    return attempt.outcome.value


def _exit_words(attempt: Attempt) -> str:
    assert attempt.exit is not None
    if attempt.exit.code is not None:
        return f"exit {attempt.exit.code}"
    return f"signal {attempt.exit.signal}"


def _filled(text: str, effect: Effect) -> str:
    """`how_to_check` with {effect_id} filled in; other braces stay as they are."""
    return text.replace("{effect_id}", effect.effect_id)
