"""Approvals: what waits for whom, and the one answer."""

from __future__ import annotations

import grp
import pwd
from collections.abc import Iterable

from sandbox import scarce
from supervisor.api import approvals
from supervisor.api.approvals import approval_view
from supervisor.core.access import Verb
from supervisor.core.errors import Refusal
from supervisor.core.ids import OperationId
from supervisor.core.program_state import Approval
from supervisor.core.state import Operation, State
from supervisor.core.step_programs import ApprovalAsked
from supervisor.server import Response
from supervisor.service.context import Caller, Context, Denied, json_response, problem_response


async def list_approvals(
    context: Context, command: approvals.ListApprovals, caller: Caller
) -> Response:
    """A page of those that wait, the most urgent first: one's own, those one may read, and those
    one may answer."""
    await context.read()
    visible = context.visible(caller)
    found = [
        (operation, approval)
        for operation, approval in waiting(context.engine.state)
        if visible(operation) or await _entitled(approval, caller)
    ]
    start = command.page.cursor or 0
    end = start + command.page.limit
    items = [approval_view(operation, approval) for operation, approval in found[start:end]]
    more = str(end) if len(found) > end else None
    return json_response(200, {"items": items, "next_cursor": more})


def waiting(state: State) -> list[tuple[Operation, Approval]]:
    """The approvals that nobody has answered, the most urgent first."""
    found: list[tuple[Operation, Approval]] = []
    for operation_id, node in state.approvals.items():
        operation = state.operations[operation_id]
        assert operation.program is not None
        found.append((operation, operation.program.approvals[node]))
    return sorted(found, key=lambda pair: (pair[1].expires_at, pair[0].operation_id))


async def answer(context: Context, command: approvals.AnswerApproval, caller: Caller) -> Response:
    """Once, by one of the node's `by`. The answer shows the approval, not the operation: whoever
    may answer it need not be one who may read that."""
    one = OperationId(command.operation_id)
    operation, approval = _found(context, one, command.node)
    if operation is None or approval is None or not await _entitled(approval, caller):
        if operation is None or not context.may(Verb.READ, caller, operation.by.uid):
            raise Denied(Refusal("NotFound", f"no operation {one}"))
        if approval is None:
            raise Denied(Refusal("NotFound", f"{one} asks for no approval {command.node!r}"))
        needs = " or ".join(approval.by)
        detail = f"approval {command.node!r} is given by {needs}"
        fix = "One of those must answer: effectctl approvals answer"
        raise Denied(Refusal("AccessDenied", detail, fix=fix, needs=needs))
    await context.engine.make_room()
    decision = await context.engine.commit(
        ApprovalAsked(
            context.engine.now(), one, command.node, command.choice, command.comment, caller.by
        ),
        # What is launched runs as the requester's: an answer lends it nobody else's groups.
        caller.lent if caller.peer.uid == operation.requester.uid else frozenset(),
    )
    if decision.refusal is not None:
        return problem_response(decision.refusal)
    operation, approval = context.kept(one), _found(context, one, command.node)[1]
    assert approval is not None
    return json_response(200, approval_view(operation, approval))


def _found(
    context: Context, one: OperationId, node: str
) -> tuple[Operation | None, Approval | None]:
    operation = context.engine.state.operations.get(one)
    if operation is None or operation.program is None:
        return operation, None
    return operation, operation.program.approvals.get(node)


async def _entitled(approval: Approval, caller: Caller) -> bool:
    if "admin" in caller.roles:
        return True
    # Names are looked up each time: a group may have been made since.
    return await scarce.in_thread(_one_of, approval.by, caller.peer.uid, caller.gids)


def _one_of(by: Iterable[str], uid: int, gids: frozenset[int]) -> bool:
    return any(_is(one, uid, gids) for one in by)


def _is(principal: str, uid: int, gids: frozenset[int]) -> bool:
    kind, _, name = principal.partition(":")
    try:
        match kind:
            case "uid":
                return int(name) == uid
            case "gid":
                return int(name) in gids
            case "user":
                return pwd.getpwnam(name).pw_uid == uid
            case _:
                return grp.getgrnam(name).gr_gid in gids
    except KeyError:
        return False
