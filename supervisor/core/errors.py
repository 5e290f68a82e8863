"""Why effectd says no: one table of codes, and the value that carries one.

A refusal is a decision and is returned; an exception is a fault and is raised. Every
code that reaches a client is a row of CODES, which is also the source of the pages of
`effectctl explain`, of the HTTP statuses and of the exit codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from frozen import frozen


class SupervisorError(Exception):
    """Base of every error that this daemon raises on purpose."""


class IllegalTransition(SupervisorError):  # noqa: N818  # says what happened, as trio names them
    """A record met a state that it cannot follow: a bug, or an altered journal."""


@frozen
class Code:
    name: str
    http_status: int
    cli_exit: int
    title: str
    meaning: str
    fix: str
    retryable: bool
    for_model: str


def _code(
    name: str,
    http_status: int,
    cli_exit: int,
    title: str,
    *,
    meaning: str,
    fix: str,
    for_model: str,
    retryable: bool = False,
) -> Code:
    return Code(name, http_status, cli_exit, title, meaning, fix, retryable, for_model)


_ROWS = (
    _code(
        "RunTimeBudgetExceeded",
        409,
        7,
        "the operation's time budget has no room for this call",
        meaning="A call reserves its whole timeout before it starts. What is charged already, plus "
        "this reservation, plus the configured margin, is not strictly below max_run_ms. "
        "Interrupted attempts keep their whole reservation, because nobody saw how long "
        "they ran.",
        fix="Raise the limit with `effectctl operations extend OPERATION --max-run-ms N "
        "--reason TEXT`, or ask with a smaller timeout_ms.",
        for_model="The time budget of this operation is used up. Nothing was started.",
    ),
    _code(
        "EffectOutcomeUnknown",
        409,
        6,
        "nobody can know whether the effect happened",
        meaning="The handler had leave to make a change that its contract says must not be "
        "repeated, and it ended, or the daemon did, before it said what came of it.",
        fix="Look at the provider, then state what you found: `effectctl effects show EFFECT` "
        "says where to look and prints both commands.",
        for_model="It is unknown whether this action took effect. Do not do it again; "
        "tell the person to check.",
    ),
    _code(
        "EffectResultUnavailable",
        409,
        10,
        "the effect happened, but its result is not available",
        meaning="The change was made and confirmed; what it returned was too large, damaged, "
        "expired or never given. Making it again would repeat the change.",
        fix="Supply the result once: `effectctl effects resolve EFFECT --if-revision N "
        "--outcome applied --result JSON --evidence TEXT`.",
        for_model="This action was done already, but its result was not kept. Do not do it again.",
    ),
    _code(
        "ResultUnreadable",
        503,
        75,
        "the result cannot be read just now",
        meaning="The result is in a file of its own, and the disk, or this process, could not read "
        "it. Nobody knows whether it is damaged, and nothing was recorded.",
        fix="Ask again. If it stays, look at the state disk: `detail` names the file.",
        retryable=True,
        for_model="This action was done; its result cannot be read just now. Do not do it again; "
        "ask for the result of the same request later.",
    ),
    _code(
        "ReconciliationRequired",
        409,
        6,
        "the provider must be asked first",
        meaning="The effect's outcome is unknown, and its contract says that the provider "
        "can tell.",
        fix="Run `effectctl effects reconcile EFFECT`, then resume.",
        for_model="It is unknown whether this action took effect; it must be checked with the "
        "provider before anything else.",
    ),
    _code(
        "EffectCorrelationMismatch",
        409,
        7,
        "the handler announced something else than before",
        meaning="A relaunched handler must announce the same effects in the same order: equal name,"
        " contract and request. It announced another one, left one out, or left a gap.",
        fix="Make the handler deterministic up to its effects (`effectctl handlers try NAME "
        "--twice` shows what differs), or settle the effects by hand.",
        for_model="The tool did not repeat its steps exactly, so it was stopped before it changed "
        "anything.",
    ),
    _code(
        "UndeclaredEffect",
        409,
        7,
        "the handler announced an effect that its manifest does not declare",
        meaning="Only effects declared in the manifest get leave; a name that is not `many` gets it"
        " once.",
        fix="Declare the effect with its contract in the handler's manifest, then `effectctl "
        "reload`.",
        for_model="The tool tried something that it has no permission for. Nothing was changed by "
        "that.",
    ),
    _code(
        "PreviousAttemptAlive",
        409,
        7,
        "an earlier attempt, or its reconciler, is not proven dead",
        meaning="Nothing is started, and nothing is called not applied, while an old process may "
        "still act.",
        fix="Wait, or end the process named in the detail. If you know that it is gone: "
        "`effectctl calls attest-dead CALL --reason TEXT`.",
        for_model="An earlier try of this action may still be running.",
    ),
    _code(
        "DurableResumeConflict",
        409,
        5,
        "the operation has moved on, or somebody else resumed it",
        meaning="A resume names the checkpoint it was decided on. That is not the present one, or "
        "another request already used it.",
        fix="Read `effectctl operations recovery OPERATION` again and act on what it says now.",
        for_model="Somebody else is already continuing this operation.",
    ),
    _code(
        "RequestConflict",
        409,
        5,
        "this was asked before, and differently",
        meaning="Within a session an id names one request for ever, and an approval has one answer:"
        " this one differs from the first.",
        fix="Send the original body to get what came of it, or choose a new id for a new request.",
        for_model="This was asked before, and differently; the first request counts.",
    ),
    _code(
        "NotResumable",
        409,
        7,
        "this operation cannot be resumed from where it is",
        meaning="Its state has nothing to resume: it is finished, waits for a person, or is driven "
        "by an agent.",
        fix="`effectctl operations recovery OPERATION` lists what is allowed instead.",
        for_model="This operation cannot be resumed.",
    ),
    _code(
        "ContinuationRefused",
        409,
        7,
        "no continuation is open for this call",
        meaning="A call of an open operation belongs to the continuation that is open now.",
        fix="Open the next continuation and repeat the call there.",
        for_model="This conversation segment has ended; continue the operation first.",
    ),
    _code(
        "OperationExpired",
        410,
        4,
        "the operation was finished long ago and is no longer kept",
        meaning="Its id and digest are kept so that it is never run again; its result is not.",
        fix="Nothing runs. Choose a new id if you mean a new request.",
        for_model="This request was finished long ago; its result is no longer available.",
    ),
    _code(
        "EventsExpired",
        410,
        4,
        "these events are no longer kept",
        meaning="Events are served from the position named in `earliest`.",
        fix="Ask again with `after` at least `earliest` - 1, and read present state from the "
        "operations.",
        for_model="Old events are gone.",
    ),
    _code(
        "DecisionExpired",
        409,
        7,
        "the approval was not given in time",
        meaning="An approval can be answered until its expires_at; then its program is stopped.",
        fix="Send a new request if it is still wanted.",
        for_model="The approval expired; nothing more was done.",
    ),
    _code(
        "HandlerArtifactChanged",
        409,
        7,
        "the handler is not what it was",
        meaning="The manifest, a file it names or its reconciler differs from what this call began "
        "with.",
        fix="Restore the old files, or accept the new ones: `effectctl operations "
        "accept-artifacts OPERATION --reason TEXT`.",
        for_model="The tool was changed since this action began; "
        "an administrator must accept that.",
    ),
    _code(
        "AuthorityRevoked",
        403,
        7,
        "the requester may no longer run this",
        meaning="Authority is looked up again right before anything is started.",
        fix="Grant the role or the handler's run list again, then resume.",
        for_model="The permission for this action was withdrawn. Nothing was started.",
    ),
    _code(
        "AccessDenied",
        403,
        7,
        "not allowed",
        meaning="The caller's uid and groups do not hold the grant named in `needs`.",
        fix="Add the user to the group named in the detail, log in again, and restart the "
        "agent's service.",
        for_model="You are not permitted to do this.",
    ),
    _code(
        "OperationCancelled",
        409,
        9,
        "the operation was cancelled",
        meaning="Somebody asked for it to end; nothing new is started for it.",
        fix="Send a new request if it is still wanted.",
        for_model="This operation was cancelled.",
    ),
    _code(
        "SecretInRequest",
        409,
        7,
        "an announced request contains a secret",
        meaning="Announcements are written to the journal, and secrets never are.",
        fix="Leave the secret out of the request that the handler announces.",
        for_model="The tool tried to record a secret; it was stopped before it changed anything.",
    ),
    _code(
        "UnknownHandler",
        404,
        4,
        "no such handler",
        meaning="No manifest of this name is loaded.",
        fix="`effectctl handlers list` shows what there is; `effectctl handlers check NAME` "
        "says what is wrong with one.",
        for_model="There is no such tool.",
    ),
    _code(
        "NotFound",
        404,
        4,
        "no such thing",
        meaning="Nothing of this id exists, or it is not yours to see.",
        fix="Check the id.",
        for_model="There is no such thing.",
    ),
    _code(
        "InvalidInput",
        400,
        2,
        "the request is not well formed",
        meaning="A field is missing, unknown, of the wrong type or out of range; `pointer` says "
        "which.",
        fix="Correct the field that `pointer` names.",
        for_model="The input was not valid; correct it.",
    ),
    _code(
        "ConfigurationRefused",
        409,
        7,
        "the configuration or a manifest on disk is not valid",
        meaning="A reload takes all of it or nothing: what was in force before still is, and "
        "nothing that runs has noticed. `problems` names each file and key.",
        fix="Correct them (`effectctl config check`, `effectctl handlers check NAME`), then "
        "`effectctl reload` again.",
        for_model="The service's configuration is wrong, and a person must correct it. Nothing "
        "has changed.",
    ),
    _code(
        "LimitExceeded",
        429,
        7,
        "a limit was reached",
        meaning="The limit named in the detail is reached. For a request that was refused nothing "
        "was started; an attempt that ran into a limit of its handler was ended.",
        fix="Wait for something to finish, make the request smaller, or raise the limit in the "
        "configuration.",
        for_model="A limit was reached; nothing was started.",
    ),
    _code(
        "SandboxUnavailable",
        503,
        7,
        "the handler cannot be confined as required",
        meaning="A layer of the sandbox that this handler requires could not be applied. Nothing "
        "was started.",
        fix="`effectctl doctor` shows each layer, why it is missing and the remedy.",
        for_model="The tool cannot be started safely on this machine. Nothing was done.",
    ),
    _code(
        "JournalUnavailable",
        503,
        75,
        "the journal has no room for new work",
        meaning="New work is refused while the outcomes of running work still have their room on "
        "disk. Nothing was started.",
        fix="Free space on the state disk; the daemon notices by itself.",
        retryable=True,
        for_model="The service cannot accept work just now. Nothing was done.",
    ),
    _code(
        "AcceptanceUnknown",
        503,
        75,
        "the answer was lost: it may have been accepted",
        meaning="The disk failed, or the daemon stopped, while your request was being "
        "written down.",
        fix="Send the same request with the same id again: it is accepted once.",
        retryable=True,
        for_model="It is unknown whether the request was accepted; "
        "the same request id must be sent again.",
    ),
    _code(
        "JournalCorrupt",
        503,
        7,
        "the journal is damaged: read-only",
        meaning="Bytes that were once acknowledged no longer read back. Nothing is started and "
        "nothing is guessed.",
        fix="`effectctl journal verify` names the file and the offset. Restore the file from a "
        "backup.",
        for_model="The service is read-only because its records are damaged.",
    ),
    _code(
        "JournalTooNew",
        503,
        7,
        "the journal was written by a newer version",
        meaning="This version does not know the format, so it does not touch it.",
        fix="Start the newer version again.",
        for_model="The service cannot read its records.",
    ),
    _code(
        "JournalRolledBack",
        503,
        7,
        "the journal is older than what was once acknowledged",
        meaning="The witness knows a later position than the journal has: an old state was "
        "restored.",
        fix="Restore the newest journal, or start with --accept-rollback REASON.",
        for_model="The service was restored from an old backup and waits for an administrator.",
    ),
    _code(
        "InternalError",
        500,
        1,
        "a fault of the daemon's own",
        meaning="Something that must not happen did. The daemon goes on; its log has the details.",
        fix="Look at the daemon's log, and report it with what stands there.",
        for_model="The service failed; a person must look.",
    ),
    _code(
        "Draining",
        503,
        75,
        "the daemon is stopping and takes no new work",
        meaning="Running handlers are given time to finish; nothing new is started.",
        fix="Send the same request with the same id again after the restart.",
        retryable=True,
        for_model="The service is restarting. Nothing was started.",
    ),
)

CODES: Mapping[str, Code] = {row.name: row for row in _ROWS}


@frozen
class Refusal:
    """A decision that says no.

    `extra` holds further members of the problem document (a budget's numbers, say).
    """

    code: str
    detail: str
    fix: str = ""
    call_id: str | None = None
    effect_id: str | None = None
    needs: str | None = None
    pointer: str | None = None
    extra: Mapping[str, Any] = attrs.field(factory=dict[str, Any])

    @property
    def remedy(self) -> str:
        return self.fix or CODES[self.code].fix
