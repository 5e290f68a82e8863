"""What can go wrong, as exceptions by code.

Every exception has `.code` (stable), `.detail` (what happened), `.fix` (what a person does
about it), `.retryable` (whether sending the same request under the *same id* again is safe
and can help), `.for_model` (a sentence for a language model that called the tool; it never
suggests another try unless `retryable`) and `.document` (what the daemon said, or `{}`).

    EffectdError
      Unreachable             no answer; nothing was sent, unless it is an
        AnswerLost            it was sent: it may have been carried out
      BadAnswer               what came is not an answer of effectd's
      Refused                 the daemon, or the call, was told no
        InvalidInput, AccessDenied, LimitExceeded, ResultUnavailable
        NotFound > UnknownHandler · Expired · Conflict
        Unavailable           not now: the daemon is draining, or its disk is full
      CallEnded               the call is over, or stands still, without a result
        CallFailed, CallTimedOut, CallCancelled, CallInterrupted: nothing was applied
        PartlyApplied         some effects were applied
        OutcomeUnknown        nobody can know: do not repeat it
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, TypeVar

from effectd._document import text

if TYPE_CHECKING:
    from typing_extensions import override
else:
    # The checkers know it without installing anything; Python only since 3.12.
    Method = TypeVar("Method", bound=Callable[..., Any])

    def override(method: Method) -> Method:
        return method


class EffectdError(Exception):
    """Base of all. `request_id` and `operation_id` are set where they are known."""

    def __init__(  # one keyword for each fact that an error carries
        self,
        code: str,
        detail: str = "",
        *,
        fix: str = "",
        retryable: Optional[bool] = None,
        for_model: str = "",
        document: Optional[Mapping[str, Any]] = None,
    ) -> None:
        row = CODES.get(code)
        self.code = code
        self.detail = detail
        self.fix = fix
        self.retryable = (row is not None and row.retryable) if retryable is None else retryable
        self.for_model = for_model or (row.for_model if row is not None else _UNKNOWN_CODE)
        self.document: Mapping[str, Any] = {} if document is None else document
        self.request_id: Optional[str] = None
        self.operation_id: Optional[str] = None
        super().__init__(code, detail)

    @override
    def __str__(self) -> str:
        first = f"{self.code}: {self.detail}" if self.detail else self.code
        return f"{first}\n  fix: {self.fix}" if self.fix else first

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with `args`, which the subclasses' signatures are not.
        return _rebuild, (type(self), self.args, self.__dict__)

    @property
    def needs(self) -> Optional[str]:
        """The grant, or the person, that is missing (AccessDenied)."""
        needs = self.document.get("needs")
        return needs if isinstance(needs, str) else None

    @property
    def pointer(self) -> Optional[str]:
        """A JSON pointer to the field that is wrong (InvalidInput)."""
        pointer = self.document.get("pointer")
        return pointer if isinstance(pointer, str) else None


def _rebuild(
    kind: type[EffectdError], args: tuple[Any, ...], state: dict[str, Any]
) -> EffectdError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class Unreachable(EffectdError):  # noqa: N818  # the name says what happened
    """No daemon answers on the socket; nothing was sent (except in the subclass AnswerLost).

    `checklist` has a line for each path that was tried: missing, refused, permission denied.
    `temporary` is true where a daemon that is just starting would look the same.
    """

    def __init__(
        self,
        detail: str,
        *,
        checklist: tuple[str, ...] = (),
        temporary: bool = False,
        fix: str = "",
    ) -> None:
        super().__init__("Unreachable", detail, fix=fix)
        self.checklist = checklist
        self.temporary = temporary

    @override
    def __str__(self) -> str:
        return "\n".join([super().__str__(), *(f"  - {line}" for line in self.checklist)])


class AnswerLost(Unreachable):
    """The request was sent and the connection ended before its answer: it may be carried out.

    `retryable` is true where the request carries an id under which it is carried out once.
    """

    def __init__(self, detail: str, *, retryable: bool = True, timed_out: bool = False) -> None:
        super().__init__(detail, temporary=True)
        self.code = "AnswerLost"
        self.timed_out = timed_out
        self.retryable = retryable
        row = CODES["AnswerLost" if retryable else "AnswerLostForGood"]
        self.for_model = row.for_model
        self.fix = _SAME_ID if retryable else _LOOK_FIRST


class BadAnswer(EffectdError):  # noqa: N818  # the name says what happened
    """The other end of the socket does not speak as effectd does, or its answer is too large."""

    def __init__(self, detail: str) -> None:
        super().__init__("BadAnswer", detail, fix="check which program listens on the socket")


class Refused(EffectdError):  # noqa: N818  # the name says what happened
    """The daemon said no. Also raised inside a handler when an announced effect gets no leave."""


class InvalidInput(Refused):
    """The request is not well formed; `pointer` says where."""


class AccessDenied(Refused):
    """The caller lacks the grant in `needs`, or has lost it."""


class NotFound(Refused):
    """Nothing of this name exists, or it is not the caller's to see."""


class UnknownHandler(NotFound):
    """No such handler is loaded."""


class Expired(Refused):
    """What was asked for is no longer kept, or was not answered in time."""


class Conflict(Refused):
    """The id is in use for another request, or somebody else was faster."""


class LimitExceeded(Refused):
    """A bound or a budget is reached; nothing was started."""


class ResultUnavailable(Refused):
    """The effect was applied, and its result is not available: never a reason to make it again."""


class Unavailable(Refused):
    """The daemon cannot do it now. Safe to send again, under the same id, where `retryable`."""


class CallEnded(EffectdError):  # noqa: N818  # the name says what happened
    """The call has no result. `document` is the operation, `call` the newest call in it."""

    call: Mapping[str, Any] = {}


class CallFailed(CallEnded):
    """The handler failed, and nothing was applied."""


class CallTimedOut(CallEnded):
    """The handler was ended at its `timeout_ms`, and nothing was applied."""


class CallCancelled(CallEnded):
    """Somebody asked for its end, and nothing was applied."""


class CallInterrupted(CallEnded):
    """Nobody saw it end; nothing is unknown or applied. The operation can be resumed."""


class PartlyApplied(CallEnded):
    """Some effects were applied and the call did not succeed. Do not send it again; resume it."""


class OutcomeUnknown(CallEnded):
    """An effect may or may not have happened. Nothing may repeat it before a person has looked."""


class Code(NamedTuple):
    """One code: its exception, whether the same id may be sent again, and its words for a model."""

    kind: type[EffectdError]
    retryable: bool
    for_model: str


_UNKNOWN_CODE = "The service refused this. Nothing more is known; a person has to look."
_SAME_ID = "send the same request under the same id (it is carried out once), or look it up"
_LOOK_FIRST = "look at the present state before doing anything else"

CODES: Mapping[str, Code] = {
    # The daemon's codes, in its own words.
    "RunTimeBudgetExceeded": Code(
        LimitExceeded, False, "The time budget of this operation is used up. Nothing was started."
    ),
    "EffectOutcomeUnknown": Code(
        OutcomeUnknown,
        False,
        "It is unknown whether this action took effect. Do not do it again; "
        "tell the person to check.",
    ),
    "EffectResultUnavailable": Code(
        ResultUnavailable,
        False,
        "This action was done already, but its result was not kept. Do not do it again.",
    ),
    "ResultUnreadable": Code(
        Unavailable,
        True,
        "This action was done; its result cannot be read just now. Do not do it again; "
        "ask for the result of the same request later.",
    ),
    "ReconciliationRequired": Code(
        OutcomeUnknown,
        False,
        "It is unknown whether this action took effect; "
        "it must be checked with the provider before anything else.",
    ),
    "EffectCorrelationMismatch": Code(
        Refused,
        False,
        "The tool did not repeat its steps exactly, so it was stopped before it changed anything.",
    ),
    "UndeclaredEffect": Code(
        Refused,
        False,
        "The tool tried something that it has no permission for. Nothing was changed by that.",
    ),
    "PreviousAttemptAlive": Code(
        Conflict, False, "An earlier try of this action may still be running."
    ),
    "DurableResumeConflict": Code(
        Conflict, False, "Somebody else is already continuing this operation."
    ),
    "RequestConflict": Code(
        Conflict, False, "This was asked before, and differently; the first request counts."
    ),
    "NotResumable": Code(Refused, False, "This operation cannot be resumed."),
    "ContinuationRefused": Code(
        Refused, False, "This conversation segment has ended; continue the operation first."
    ),
    "OperationExpired": Code(
        Expired, False, "This request was finished long ago; its result is no longer available."
    ),
    "EventsExpired": Code(Expired, False, "Old events are gone."),
    "DecisionExpired": Code(Expired, False, "The approval expired; nothing more was done."),
    "HandlerArtifactChanged": Code(
        Conflict,
        False,
        "The tool was changed since this action began; an administrator must accept that.",
    ),
    "AuthorityRevoked": Code(
        AccessDenied, False, "The permission for this action was withdrawn. Nothing was started."
    ),
    "AccessDenied": Code(AccessDenied, False, "You are not permitted to do this."),
    "OperationCancelled": Code(Refused, False, "This operation was cancelled."),
    "SecretInRequest": Code(
        Refused,
        False,
        "The tool tried to record a secret; it was stopped before it changed anything.",
    ),
    "UnknownHandler": Code(UnknownHandler, False, "There is no such tool."),
    "NotFound": Code(NotFound, False, "There is no such thing."),
    "InvalidInput": Code(InvalidInput, False, "The input was not valid; correct it."),
    "ConfigurationRefused": Code(
        Conflict,
        False,
        "The service's configuration is wrong, and a person must correct it. Nothing has changed.",
    ),
    "LimitExceeded": Code(LimitExceeded, False, "A limit was reached; nothing was started."),
    "SandboxUnavailable": Code(
        Unavailable,
        False,
        "The tool cannot be started safely on this machine. Nothing was done.",
    ),
    "JournalUnavailable": Code(
        Unavailable, True, "The service cannot accept work just now. Nothing was done."
    ),
    "AcceptanceUnknown": Code(
        Unavailable,
        True,
        "It is unknown whether the request was accepted; the same request id must be sent again.",
    ),
    "JournalCorrupt": Code(
        Unavailable, False, "The service is read-only because its records are damaged."
    ),
    "JournalTooNew": Code(Unavailable, False, "The service cannot read its records."),
    "JournalRolledBack": Code(
        Unavailable,
        False,
        "The service was restored from an old backup and waits for an administrator.",
    ),
    "Draining": Code(Unavailable, True, "The service is restarting. Nothing was started."),
    "InternalError": Code(Refused, False, "The service failed; a person must look."),
    # This side's own: how a call ended, and what happens before the daemon can speak.
    "CallFailed": Code(CallFailed, False, "The tool failed. Nothing was changed by it."),
    "CallTimedOut": Code(
        CallTimedOut, False, "The tool ran out of time and was ended. Nothing was changed by it."
    ),
    "CallCancelled": Code(
        CallCancelled, False, "This action was cancelled. Nothing was changed by it."
    ),
    "CallInterrupted": Code(
        CallInterrupted,
        True,
        "This action was interrupted before its end. Nothing was changed by it so far. "
        "The same request may be sent again, under the same id only.",
    ),
    "PartlyApplied": Code(
        PartlyApplied,
        False,
        "Some of this action was done, and some was not. Do not do it again; "
        "tell the person to look.",
    ),
    "Unreachable": Code(
        Unreachable, True, "The service that runs tools cannot be reached. Nothing was started."
    ),
    "AnswerLost": Code(
        AnswerLost,
        True,
        "The connection was lost: it is unknown whether the request was accepted; "
        "only the same request, under the same id, may be sent again.",
    ),
    "AnswerLostForGood": Code(
        AnswerLost,
        False,
        "The connection was lost: it is unknown whether this was done. Look at its state first.",
    ),
    "BadAnswer": Code(
        BadAnswer, False, "The service that runs tools answered with something unreadable."
    ),
}


def from_document(document: Mapping[str, Any], status: int) -> EffectdError:
    """The exception for a problem document that came with this HTTP status.

    A code that this version does not know becomes Unavailable (503) or Refused.
    """
    code = text(document, "code") or f"HTTP{status}"
    row = CODES.get(code)
    kind: type[EffectdError] = Unavailable if status == 503 else Refused
    if row is not None and issubclass(row.kind, (Refused, OutcomeUnknown)):
        kind = row.kind
    retryable = document.get("retryable")
    return kind(
        code,
        text(document, "detail") or text(document, "title"),
        fix=text(document, "fix"),
        retryable=retryable if isinstance(retryable, bool) else None,
        for_model=text(document, "for_model"),
        document=document,
    )
