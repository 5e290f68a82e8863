"""What the documents of an operation mean to the caller: its value, or which exception. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from effectd._document import Document, as_object, count, objects, strings, text
from effectd.errors import (
    CODES,
    CallCancelled,
    CallEnded,
    CallFailed,
    CallInterrupted,
    CallTimedOut,
    EffectdError,
    OutcomeUnknown,
    PartlyApplied,
    Refused,
    ResultUnavailable,
    from_document,
)

# A state that is not here is one that this version does not know: not final.
FINAL = frozenset(
    {"unknown", "cancelled", "stopped", "succeeded", "failed", "waiting", "interrupted"}
)
_RESUME_FIX = "resume the operation while its recovery offers it"
_LOOK_FIX = "look at the provider, then: effectctl effects resolve"


def is_final(operation: Document) -> bool:
    """Whether nothing of it runs or is about to."""
    return text(operation, "state") in FINAL


def ended_by_itself(call: Document) -> bool:
    """Whether the newest attempt's handler exited on its own account.

    Then nothing was interrupted, and running it again would be a second opinion, not a resume.
    A way of ending that is not known here counts as its own.
    """
    attempts = objects(call, "attempts")
    if not attempts or attempts[-1].get("phase") != "ended":
        return False
    return attempts[-1].get("outcome") not in {"timed_out", "cancelled", "not_started"}


def may_resume(recovery: Document) -> bool:
    """Whether the daemon would accept a resume of what it just described."""
    return "resume" in strings(recovery, "allowed_actions")


def resume_body(
    operation_id: str, checkpoint: Mapping[str, Any], resume_request_id: str
) -> dict[str, Any]:
    """The body that asks to go on from exactly this checkpoint (`revision` and `digest`)."""
    return {
        "schema_version": "effectd-operation-resume-request-v1",
        "operation_id": operation_id,
        "checkpoint_revision": checkpoint["revision"],
        "checkpoint_digest": checkpoint["digest"],
        "resume_request_id": resume_request_id,
    }


def first_refusal(recovery: Document) -> Optional[EffectdError]:
    """Why recovery offers no resume, in the daemon's words; None when it gives no reason."""
    refusals = objects(recovery, "refusals")
    return from_document(refusals[0], 409) if refusals else None


def value_of(operation: Document, call: Document) -> Any:
    """The call's result, or the exception that says how it ended.

    `operation` is final and `call` its newest call ({} when it has none). An exception's
    `document` is the operation, its `call` the call.
    """
    if operation.get("state") == "succeeded":
        return _result(operation, call)
    raise _ending(operation, call)


def value_of_call(call: Document) -> Any:
    """The same of one call of an open operation, which is final."""
    state = text(call, "state")
    # A call that was refused before it began stands where a dispatch of it would have failed.
    operation = {**call, "state": "failed" if state == "refused" else state}
    return value_of(operation, call)


def _result(operation: Document, call: Document) -> Any:
    if call.get("result_available") is False:
        error = ResultUnavailable(
            "EffectResultUnavailable",
            "the call succeeded, and its result is not available",
            fix="supply it once: effectctl effects resolve EFFECT --outcome applied --result JSON",
            document=operation,
        )
        error.operation_id = text(operation, "operation_id") or None
        raise error
    value = operation.get("result")
    return call.get("result") if value is None else value


def _ending(operation: Document, call: Document) -> EffectdError:
    reason = as_object(call.get("error")) or {}
    ending = _no_attempt(operation, call, reason) or _by_state(operation, call, reason)
    ending.operation_id = text(operation, "operation_id") or None
    ending.document = operation
    if isinstance(ending, CallEnded):
        ending.call = call
    return ending


def _no_attempt(operation: Document, call: Document, reason: Document) -> Optional[EffectdError]:
    """A call that was refused before its first attempt failed with the refusal's own code."""
    if operation.get("state") != "failed" or call.get("attempts") or not text(reason, "code"):
        return None
    refusal = from_document(reason, 409)
    return refusal if isinstance(refusal, Refused) else None


def _by_state(operation: Document, call: Document, reason: Document) -> CallEnded:
    state = operation.get("state")
    applied = count(call, "effects_applied")
    detail = text(reason, "detail") or f"the operation is {state}"
    if state == "unknown" or count(call, "effects_unknown"):
        return _make(OutcomeUnknown, "EffectOutcomeUnknown", detail, reason, _LOOK_FIX)
    if applied:
        story = f"{applied} of its effects applied, the call {_verb(call)}: {detail}"
        return _make(PartlyApplied, "PartlyApplied", story, {}, _RESUME_FIX)
    if state == "interrupted":
        return _make(CallInterrupted, "CallInterrupted", detail, reason, _RESUME_FIX)
    if state == "cancelled":
        return _make(CallCancelled, "CallCancelled", detail, {})
    if _outcome(call) == "timed_out":
        return _make(CallTimedOut, "CallTimedOut", detail, reason)
    return _make(CallFailed, "CallFailed", detail, reason)


def _outcome(call: Document) -> str:
    attempts = objects(call, "attempts")
    return text(attempts[-1], "outcome") if attempts else ""


def _verb(call: Document) -> str:
    known = {"timed_out": "timed out", "cancelled": "was cancelled", "failed": "failed"}
    return known.get(_outcome(call), "did not finish")


def _make(
    kind: type[CallEnded], code: str, detail: str, reason: Document, fix: str = ""
) -> CallEnded:
    """The exception of this kind. The daemon's own code and fix say more than ours, if it gave any.

    What may be repeated and what a model is told depend on the ending alone, never on the reason.
    """
    row = CODES[code]
    return kind(
        text(reason, "code") or code,
        detail,
        fix=text(reason, "fix") or fix,
        retryable=row.retryable,
        for_model=row.for_model,
    )
