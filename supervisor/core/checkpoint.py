"""An operation's replayed state as a client pins it, and its digest.

No times are in it: the same journal gives the same digest on any host, for ever.
"""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785

from supervisor.core.open_state import Continuation
from supervisor.core.program_state import ProgramState
from supervisor.core.standing import operation_state
from supervisor.core.state import Attempt, Call, Effect, Operation

SCHEMA = "effectd-run-checkpoint-v1"


def canonical_digest(value: Any) -> str:
    """SHA-256 over the canonical form (RFC 8785); raises ValueError beyond I-JSON."""
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def checkpoint(operation: Operation) -> dict[str, Any]:
    # What a kind of operation does not have is not there, so that its digest stays what it was.
    continued = {"continuations": [_continuation(one) for one in operation.continuations]}
    return {
        **(continued if operation.continuations else {}),
        "schema_version": SCHEMA,
        "operation_id": operation.operation_id,
        "revision": operation.revision,
        "position": operation.position,
        "state": operation_state(operation).value,
        "cancel_requested": operation.cancel_requested,
        "budget": {
            "max_run_ms": operation.budget.max_run_ms,
            "confirmed_ms": operation.budget.confirmed_ms,
            "reserved_ms": operation.budget.reserved_ms,
        },
        "calls": [_call(call) for call in operation.ordered_calls()],
        **({"program": _program(operation.program)} if operation.program is not None else {}),
        "effects": [
            _effect(operation.effects[effect_id])
            for call_id in operation.call_order
            for effect_id in operation.lineages.get(call_id, ())
        ],
    }


def _program(program: ProgramState) -> dict[str, Any]:
    """Where it is: what was bound and answered, and by which calls its nodes have values."""
    return {
        "document_digest": canonical_digest(program.document),
        "input_digest": canonical_digest(program.input),
        "artifacts": {one.handler: one.digest for one in program.terms},
        "not_resumable": list(program.not_resumable),
        **({"version": program.version} if program.version != 1 else {}),
        **({"inputs": list(program.inputs)} if program.inputs else {}),
        "bindings": dict(program.bound),
        "calls": dict(program.calls),
        "approvals": {
            one.node: {"choice": one.choice, "expired": one.expired}
            for one in program.approvals.values()
        },
        "ended": program.end.ended.value if program.end is not None else None,
    }


def checkpoint_digest(operation: Operation) -> str:
    return canonical_digest(checkpoint(operation))


def _continuation(one: Continuation) -> dict[str, Any]:
    reason = one.reason.value if one.reason is not None else None
    return {"n": one.n, "trigger": one.trigger.value, "ended": reason}


def _call(call: Call) -> dict[str, Any]:
    return {
        "call_id": call.call_id,
        "handler": call.terms.handler,
        "handler_digest": call.terms.digest,
        "input_digest": canonical_digest(call.input),
        "retry_of": call.retry_of,
        "retried_by": call.retried_by,
        "restored": call.restored,
        "attempts": [_attempt(attempt) for attempt in call.attempts],
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.number,
        "phase": attempt.phase.value,
        "outcome": attempt.outcome.value if attempt.outcome is not None else None,
        "reservation_ms": attempt.reservation_ms,
        "active_ms": attempt.active_ms,
        "dead": attempt.dead,
    }


def _effect(effect: Effect) -> dict[str, Any]:
    return {
        "effect_id": effect.effect_id,
        "ordinal": effect.ordinal,
        "name": effect.declared.name,
        "contract": effect.declared.contract.value,
        "outcome": effect.outcome.value,
        "revision": effect.revision,
        "result_available": effect.result is not None and effect.result.available,
        "tries": [
            {"call_id": one.call_id, "attempt": one.attempt, "outcome": one.outcome.value}
            for one in effect.tries
        ],
    }
