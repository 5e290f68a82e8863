"""Programs and approvals, as flows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Optional

from effectd._document import Document
from effectd._flow import Flow, Patience, post


def send(  # one for each field of the request
    program: Mapping[str, object],
    program_input: object,
    inputs: Optional[Mapping[str, object]],
    message_id: str,
    max_run_ms: int,
    session_id: Optional[str],
    labels: Optional[Mapping[str, str]],
    patience: Patience,
) -> Flow[Document]:
    """The operation of a message that is a program."""
    body: dict[str, object] = {
        "message_id": message_id,
        "max_run_ms": max_run_ms,
        "program": program,
        "program_input": program_input,
    }
    if inputs is not None:
        body["inputs"] = inputs
    if labels is not None:
        body["labels"] = labels
    path = ("sessions", session_id or f"uid:{os.getuid()}", "messages")
    return post(*path, body=body, patience=patience, repeatable=True)


def answer(
    operation_id: str, occurrence: str, choice: str, comment: str, patience: Patience
) -> Flow[Document]:
    """The approval with its answer; the same answer twice is one."""
    body = {"choice": choice, **({"comment": comment} if comment else {})}
    path = ("operations", operation_id, "approvals", occurrence)
    return post(*path, body=body, patience=patience, repeatable=True)
