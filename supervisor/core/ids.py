"""Names of the things that effectd tracks.

An operation is what a client asked for. It makes calls; a call is tried in attempts,
counted from 0; an attempt announces effects, counted from 0 by their ordinal. An
effect_id names the change in the outside world itself, so it outlives the other
three coordinates: a retry has a new call and the same effect_id.
"""

from __future__ import annotations

import hashlib
from typing import NewType

import attrs

OperationId = NewType("OperationId", str)
CallId = NewType("CallId", str)
EffectId = NewType("EffectId", str)
SessionId = NewType("SessionId", str)


@attrs.frozen(order=True)
class AttemptKey:
    call_id: CallId
    attempt: int


def default_session(uid: int) -> SessionId:
    """A dispatch's request_id is its message id in this session of the caller's."""
    return SessionId(f"uid:{uid}")


def is_default_session(session_id: SessionId) -> bool:
    """Whether it is somebody's default session: it is there without being created."""
    return session_id.startswith("uid:")


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def call_of_node(operation_id: OperationId, *path: str) -> CallId:
    """The id of the call of a program's node. Made of what names it: who decides again, decides
    the same."""
    digest = hashlib.sha256("\0".join((operation_id, *path)).encode()).digest()
    number = int.from_bytes(digest, "big")
    digits: list[str] = []
    for _ in range(20):
        number, rest = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[rest])
    return CallId("call_" + "".join(digits))
