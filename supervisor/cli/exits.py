"""Exit codes: the one table, and how documents map to it.

A script that sees only the exit code must never send an effect again by mistake. So whatever
is not proven harmless is 6 or 10, and 75 is given only where the same id may be sent again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from supervisor.cli.documents import Document, number, objects, part


class Exit(enum.IntEnum):
    """What `effectctl` exits with; `meaning` is what scripts rely on."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    CONFLICT = 5
    OUTCOME_UNKNOWN = 6
    REFUSED = 7
    TIMED_OUT = 8
    CANCELLED = 9
    PARTLY_APPLIED = 10
    TEMPORARY = 75
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """One line for `--help` and `explain`."""
        return MEANINGS[self]


MEANINGS: dict[Exit, str] = {
    Exit.DONE: "done, or applied",
    Exit.FAILED: "failed, nothing applied",
    Exit.USAGE: "the command line is wrong",
    Exit.UNREACHABLE: "the daemon cannot be reached",
    Exit.NOT_FOUND: "no such thing",
    Exit.CONFLICT: "conflict: what you named has moved on, or the id is taken",
    Exit.OUTCOME_UNKNOWN: "OUTCOME UNKNOWN: do not retry",
    Exit.REFUSED: "refused; nothing was started",
    Exit.TIMED_OUT: "timed out, nothing applied",
    Exit.CANCELLED: "cancelled, nothing applied",
    Exit.PARTLY_APPLIED: (
        "SOME EFFECTS WERE APPLIED: do not send again; resume while recovery offers it"
    ),
    Exit.TEMPORARY: "temporary or interrupted: safe to send again with the same id",
    Exit.INTERRUPTED: "interrupted at the keyboard; the operation goes on",
}

# With several ids, the exit code is that of the one a person must hear about first.
GRAVITY: tuple[Exit, ...] = (
    Exit.OUTCOME_UNKNOWN,
    Exit.PARTLY_APPLIED,
    Exit.INTERRUPTED,
    Exit.UNREACHABLE,
    Exit.FAILED,
    Exit.TIMED_OUT,
    Exit.CANCELLED,
    Exit.REFUSED,
    Exit.CONFLICT,
    Exit.NOT_FOUND,
    Exit.USAGE,
    Exit.TEMPORARY,
    Exit.DONE,
)

FINAL_STATES = frozenset(
    {"unknown", "cancelled", "stopped", "succeeded", "failed", "interrupted", "waiting", "refused"}
)


def gravest(exits: Iterable[Exit]) -> Exit:
    """The exit code of several answers taken together."""
    return min(exits, key=GRAVITY.index, default=Exit.DONE)


def is_final(document: Document) -> bool:
    """Whether nothing of it runs or queues. A state this version does not know is not final."""
    return document.get("state") in FINAL_STATES


def of_problem(problem: Document) -> Exit:
    """The exit code of a problem document: its code's; an unknown code by its HTTP status."""
    from supervisor.core.errors import CODES

    code = CODES.get(str(problem.get("code", "")))
    if code is not None:
        return Exit(code.cli_exit)
    if problem.get("retryable") is True:
        return Exit.TEMPORARY
    return {400: Exit.USAGE, 404: Exit.NOT_FOUND, 409: Exit.CONFLICT}.get(
        number(problem, "status"), Exit.REFUSED
    )


def of_call(call: Document) -> Exit:
    """The exit code of a call as it stands."""
    state = call.get("state")
    if state == "succeeded":
        return Exit.DONE
    if state == "unknown":
        return Exit.OUTCOME_UNKNOWN
    if state not in FINAL_STATES:
        return Exit.TEMPORARY
    if number(call, "effects_applied") > 0:
        return Exit.PARTLY_APPLIED
    if state == "cancelled":
        return Exit.CANCELLED
    if state == "interrupted":
        return Exit.TEMPORARY
    return _of_failure(call)


def _of_failure(call: Document) -> Exit:
    """A failed or refused call with nothing applied and nothing unknown."""
    if _last_outcome(call) == "timed_out":
        return Exit.TIMED_OUT
    error = part(call, "error")
    if error and call.get("state") == "refused":
        return of_problem(error)
    return Exit.REFUSED if call.get("state") == "refused" else Exit.FAILED


def _last_outcome(call: Document) -> object:
    attempts = objects(call, "attempts")
    return attempts[-1].get("outcome") if attempts else None


def of_operation(operation: Document, calls: Iterable[Document] = ()) -> Exit:
    """The exit code of an operation, given the calls of it that are at hand."""
    state = operation.get("state")
    known = list(calls)
    if state == "unknown":
        return Exit.OUTCOME_UNKNOWN
    if state == "succeeded":
        return Exit.DONE
    if state not in FINAL_STATES:
        return Exit.TEMPORARY
    if any(number(one, "effects_applied") > 0 for one in (operation, *known)):
        return Exit.PARTLY_APPLIED
    if state in {"interrupted", "waiting"}:
        return Exit.TEMPORARY
    if state in {"cancelled", "stopped"}:
        return Exit.CANCELLED
    return gravest(_of_failure(call) for call in known) if known else Exit.FAILED


def of_effect(effect: Document) -> Exit:
    """The exit code after reconciling or resolving an effect: settled is done."""
    settled = effect.get("outcome") in {"applied", "not_applied"}
    return Exit.DONE if settled else Exit.OUTCOME_UNKNOWN


def of_cancel(operation: Document) -> Exit:
    """The exit code of `cancel`: it is done when nothing runs any more, whatever had happened."""
    if operation.get("state") == "unknown":
        return Exit.OUTCOME_UNKNOWN
    return Exit.DONE if is_final(operation) else Exit.TEMPORARY
