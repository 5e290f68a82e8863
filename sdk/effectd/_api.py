"""What both clients share: how they are made, and what their methods send."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Optional, Union

from effectd import _dispatch, _flow
from effectd._document import Document, count
from effectd._flow import Flow, Patience, Pause, Reached
from effectd._socket import candidates
from effectd._wire import MAX_ANSWER_BYTES, Head, make_response
from effectd.errors import BadAnswer, EffectdError, Unreachable

PATIENCE_MS = 60_000
NO_RESULT = object()  # null is a result too
Filter = Union[str, int, None]


class Settings:
    """What both clients are made with, and the flows that need it."""

    def __init__(
        self,
        socket: Union[str, "os.PathLike[str]", None] = None,
        *,
        patience_ms: int = PATIENCE_MS,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        argument = None if socket is None else os.fspath(socket)
        self._paths = candidates(argument, os.environ)
        self._patience_ms = patience_ms
        self._max_answer = max_answer_bytes
        self._reached = Reached()

    def _patience(self) -> Patience:
        return Patience(self._patience_ms, self._reached)

    def _wanted(  # one for each field of the request
        self,
        handler: str,
        value: object,
        request_id: Optional[str],
        timeout_ms: Optional[int],
        max_run_ms: Optional[int],
        labels: Optional[Mapping[str, str]],
        resume: Optional[str],
        patience_ms: Optional[int],
    ) -> _dispatch.Dispatch:
        if resume not in {"if_safe", "never", None}:
            raise ValueError(f'resume is "if_safe" or "never", not {resume!r}')
        optional = {"timeout_ms": timeout_ms, "max_run_ms": max_run_ms, "labels": labels}
        body = {
            "request_id": request_id or _dispatch.new_id(),
            "handler": handler,
            "input": value,
            **{key: given for key, given in optional.items() if given is not None},
        }
        patience = self._patience_ms if patience_ms is None else patience_ms
        return _dispatch.Dispatch(body, resume or "never", patience, self._reached)

    def _asked(
        self,
        handler: str,
        value: object,
        request_id: Optional[str],
        timeout_ms: Optional[int],
        continuation: Optional[int],
    ) -> dict[str, object]:
        optional = {"timeout_ms": timeout_ms, "continuation": continuation}
        return {
            "request_id": request_id or _dispatch.new_id(),
            "handler": handler,
            "input": value,
            **{key: given for key, given in optional.items() if given is not None},
        }


def cancel(operation_id: str, reason: str, patience: Patience) -> Flow[Document]:
    body = {"reason": reason}
    return _flow.post(
        "operations", operation_id, "cancel", body=body, patience=patience, repeatable=True
    )


def extend(operation_id: str, max_run_ms: int, reason: str, patience: Patience) -> Flow[Document]:
    body = {"max_run_ms": max_run_ms, "reason": reason}
    return _flow.post("operations", operation_id, "extend", body=body, patience=patience)


def resolve(  # one for each field of the request
    effect_id: str,
    outcome: str,
    evidence: str,
    result: object,
    if_revision: Optional[int],
    patience: Patience,
) -> Flow[Document]:
    if outcome not in {"applied", "not_applied"}:
        raise ValueError(f'outcome is "applied" or "not_applied", not {outcome!r}')
    if if_revision is None:
        effect = yield from _flow.get("effects", effect_id, patience=patience)
        if_revision = count(effect, "revision")
    body: dict[str, object] = {
        "outcome": outcome,
        "evidence": evidence,
        "if_revision": if_revision,
    }
    if result is not NO_RESULT:
        body["result"] = result
    return (
        yield from _flow.post(
            "effects", effect_id, "resolve", body=body, patience=patience, repeatable=True
        )
    )


def reconcile(effect_id: str, patience: Patience) -> Flow[Document]:
    return _flow.post("effects", effect_id, "reconcile", body={}, patience=patience)


def again(fault: EffectdError, patience: Patience) -> Pause:
    """The pause before a stream is asked for again; raises the fault when that cannot help."""
    hopeless = not isinstance(fault, Unreachable) and not fault.retryable
    pause = None if hopeless else _flow.pause_after(fault, patience)
    if pause is None:
        raise fault
    return pause


class RefusalText:
    """A refusal that came where a stream was asked for."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._head: Optional[Head] = None
        self._body = bytearray()

    def add(self, head: Head, data: bytes) -> None:
        """A piece of it. Raises BadAnswer when it is too long."""
        self._head = head
        self._body += data
        if len(self._body) > self._max_bytes:
            raise BadAnswer(f"the answer is longer than {self._max_bytes} bytes")

    def raise_for_it(self) -> None:
        """Raise it, if there was one."""
        if self._head is not None:
            raise _flow.refusal_of(make_response(self._head, bytes(self._body)))
