"""Dispatch and resume, as flows: from a request to its outcome through any number of crashes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any, Callable, NamedTuple, Optional

from effectd import _outcome
from effectd._document import Document, as_object, strings, text
from effectd._flow import WAIT_MS, Flow, Patience, Pause, Reached, get, post
from effectd.errors import BadAnswer, CallEnded, EffectdError, Refused


class Dispatch(NamedTuple):
    """What is asked for. `resume` is "if_safe" or "never"."""

    body: Mapping[str, Any]
    resume: str
    patience_ms: int
    reached: Reached
    clock: Callable[[], float] = time.monotonic

    @property
    def request_id(self) -> str:
        return str(self.body["request_id"])


def new_id() -> str:
    """An id for a request that was given none."""
    return str(uuid.uuid4())


def accept(wanted: Dispatch) -> Flow[Document]:
    """Send it until the daemon has bound the request id to an operation; the operation."""
    return (yield from _accept(wanted, None))


def result(wanted: Dispatch) -> Flow[Any]:
    """Send it, and see it through to its value, or the exception that says how it ended.

    Until an operation is known, every further try is the same request under the same id.
    From then on that operation is asked for by its own id, which can start nothing at all.
    """
    operation = yield from _accept(wanted, WAIT_MS)
    try:
        return (yield from _see_through(operation, wanted))
    except EffectdError as error:
        error.request_id = wanted.request_id
        error.operation_id = error.operation_id or operation["operation_id"]
        raise


def _accept(wanted: Dispatch, wait_ms: Optional[int]) -> Flow[Document]:
    patience = Patience(wanted.patience_ms, wanted.reached, wanted.clock)
    try:
        operation = yield from post(
            "dispatch", body=wanted.body, patience=patience, wait_ms=wait_ms, repeatable=True
        )
        if not text(operation, "operation_id"):
            raise BadAnswer("the dispatch was answered with something else than an operation")
    except EffectdError as error:
        error.request_id = wanted.request_id
        raise
    return operation


def _see_through(operation: Document, wanted: Dispatch) -> Flow[Any]:
    patience = Patience(wanted.patience_ms, wanted.reached, wanted.clock)
    first_interruption: Optional[float] = None
    because: Optional[EffectdError] = None
    while True:
        operation = yield from _until_final(operation, patience, wanted.clock)
        state = operation.get("state")
        if state not in {"interrupted", "unknown"}:
            break
        now = wanted.clock()
        first_interruption = now if first_interruption is None else first_interruption
        if wanted.resume != "if_safe" or now - first_interruption > wanted.patience_ms / 1000:
            break
        resumed, because = yield from _try_resume(operation, patience)
        if resumed is None:
            break
        operation = resumed
    if operation.get("state") == "succeeded" and operation.get("result") is not None:
        return operation["result"]  # no need to look at the call
    call = yield from newest_call(operation, patience)
    try:
        return _outcome.value_of(operation, call)
    except CallEnded as ending:
        if because is None:
            raise
        ending.detail = f"{ending.detail}; not resumed: {because.detail or because.code}"
        ending.fix = because.fix or ending.fix
        raise ending from because


def _until_final(
    operation: Document, patience: Patience, clock: Callable[[], float]
) -> Flow[Document]:
    pause = 0.1
    while not _outcome.is_final(operation):
        asked = clock()
        operation = yield from get(
            "operations", operation["operation_id"], wait_ms=WAIT_MS, patience=patience
        )
        if not _outcome.is_final(operation) and clock() - asked < 1.0:
            yield Pause(pause)  # a daemon that does not wait is not to be asked all the time
            pause = min(pause * 2, 2.0)
    return operation


def newest_call(operation: Document, patience: Patience) -> Flow[Document]:
    """The call whose state is the dispatch's: the last one, or what has retried it. {} if none."""
    calls = strings(operation, "calls")
    call = as_object(operation.get("call")) or {}
    if calls and call.get("call_id") != calls[-1]:
        call = yield from get("calls", calls[-1], patience=patience)
    seen: set[str] = set()
    successor = text(call, "retried_by")
    while successor and successor not in seen:
        seen.add(successor)
        call = yield from get("calls", successor, patience=patience)
        successor = text(call, "retried_by")
    return call


def _try_resume(
    operation: Document, patience: Patience
) -> Flow[tuple[Optional[Document], Optional[EffectdError]]]:
    """Resume it where that is safe: the operation as it is then, or None and the reason."""
    call = yield from newest_call(operation, patience)
    if _outcome.ended_by_itself(call):
        return None, None
    operation_id: str = operation["operation_id"]
    recovery = yield from get("operations", operation_id, "recovery", patience=patience)
    if not _outcome.may_resume(recovery):
        return None, _outcome.first_refusal(recovery)
    try:
        return (
            yield from _post_resume(operation_id, _checkpoint(recovery), new_id(), patience)
        ), None
    except Refused as refusal:
        if refusal.code != "DurableResumeConflict":
            return None, refusal
    # Somebody else was faster, or the operation has moved on: see what it is now.
    yield Pause(0.2)
    return (yield from get("operations", operation_id, patience=patience)), None


def _checkpoint(recovery: Document) -> Document:
    checkpoint = as_object(recovery.get("checkpoint"))
    if checkpoint is None or not {"revision", "digest"} <= set(checkpoint):
        raise BadAnswer("recovery offers a resume and has no checkpoint")
    return checkpoint


def resume(
    operation_id: str,
    patience: Patience,
    *,
    resume_request_id: Optional[str] = None,
    checkpoint: Optional[Mapping[str, Any]] = None,
) -> Flow[Document]:
    """Resume from `checkpoint`, or from the present one; the operation as it is then."""
    pinned = checkpoint
    if pinned is None:
        recovery = yield from get("operations", operation_id, "recovery", patience=patience)
        if not _outcome.may_resume(recovery):
            reason = _outcome.first_refusal(recovery)
            raise reason or Refused(
                "NotResumable", f"the operation is {recovery.get('state')}", document=recovery
            )
        pinned = _checkpoint(recovery)
    request_id = resume_request_id or new_id()
    return (yield from _post_resume(operation_id, pinned, request_id, patience))


def _post_resume(
    operation_id: str, checkpoint: Mapping[str, Any], request_id: str, patience: Patience
) -> Flow[Document]:
    body = _outcome.resume_body(operation_id, checkpoint, request_id)
    return (
        yield from post(
            "operations", operation_id, "resume", body=body, patience=patience, repeatable=True
        )
    )
