"""Open operations, as flows: an agent decides call by call what is done next."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Callable, Optional

from effectd import _outcome
from effectd._dispatch import new_id
from effectd._document import Document, as_object, text
from effectd._flow import WAIT_MS, Flow, Patience, Pause, get, post
from effectd.errors import BadAnswer, EffectdError

REASONS = frozenset({"done", "time_limit", "error", "stop", "credential", "rate_limit"})


def begin(
    message_id: str,
    max_run_ms: int,
    session_id: Optional[str],
    labels: Optional[Mapping[str, str]],
    patience: Patience,
) -> Flow[Document]:
    """The open operation of a message, with its continuation 0."""
    body: dict[str, object] = {"message_id": message_id, "max_run_ms": max_run_ms, "open": True}
    if labels is not None:
        body["labels"] = labels
    session = session_id or f"uid:{os.getuid()}"
    return _post("sessions", session, "messages", body=body, patience=patience)


def _post(*segments: str, body: Mapping[str, object], patience: Patience) -> Flow[Document]:
    """Everything here has an id, or is the same twice: it may be sent again."""
    return post(*segments, body=body, patience=patience, repeatable=True)


def note(operation_id: str, patience: Patience) -> Flow[str]:
    """The note; "" when there is nothing, and when nothing can be had: it must block nothing."""
    try:
        document = yield from get("operations", operation_id, "note", patience=patience)
    except EffectdError:
        return ""
    return text(document, "note")


def go_on(
    operation_id: str, after: int, trigger: str, request_id: Optional[str], patience: Patience
) -> Flow[Document]:
    if trigger not in {"auto", "manual"}:
        raise ValueError(f'trigger is "auto" or "manual", not {trigger!r}')
    body = {"trigger": trigger, "after": after, "request_id": request_id or new_id()}
    return _post("operations", operation_id, "continuations", body=body, patience=patience)


def end(operation_id: str, n: int, reason: str, patience: Patience) -> Flow[Document]:
    if reason not in REASONS:
        raise ValueError(f"reason is one of {', '.join(sorted(REASONS))}, not {reason!r}")
    path = ("operations", operation_id, "continuations", str(n), "end")
    return _post(*path, body={"reason": reason}, patience=patience)


def call(
    operation_id: str,
    body: Mapping[str, object],
    patience: Patience,
    clock: Callable[[], float] = time.monotonic,
) -> Flow[Any]:
    """Ask for one call, and see it through to its result, or to the exception that says why not.

    Until it is answered, every further try is the same request. From then on the call is asked
    for by its own id, which can start nothing.
    """
    try:
        operation = yield from post(
            *("operations", operation_id, "calls"),
            body=body,
            patience=patience,
            wait_ms=WAIT_MS,
            repeatable=True,
        )
        found = as_object(operation.get("call"))
        if found is None or not text(found, "call_id"):
            raise BadAnswer("the call was answered with something else than an operation")
        found = yield from _until_final(found, patience, clock)
        return _outcome.value_of_call(found)
    except EffectdError as error:
        error.request_id = str(body["request_id"])
        error.operation_id = error.operation_id or operation_id
        raise


def _until_final(found: Document, patience: Patience, clock: Callable[[], float]) -> Flow[Document]:
    """The call when nothing of it runs; what retried it stands in its state."""
    pause = 0.1
    while text(found, "state") in {"accepted", "running"}:
        asked = clock()
        found = yield from get("calls", found["call_id"], wait_ms=WAIT_MS, patience=patience)
        if clock() - asked < 1.0 and text(found, "state") in {"accepted", "running"}:
            yield Pause(pause)  # a daemon that does not wait is not to be asked all the time
            pause = min(pause * 2, 2.0)
    return found
