"""The recovery projection as a document: what is known, what is allowed, what is not."""

from __future__ import annotations

from typing import Any

from supervisor.api.routes import RECOVERY_SCHEMA, RESUME_SCHEMA
from supervisor.api.views import effect_view
from supervisor.api.wire import refusal_members, time_text
from supervisor.core.checkpoint import checkpoint_digest
from supervisor.core.moment import Moment
from supervisor.core.projection import Action, Projection
from supervisor.core.state import Operation


def recovery_view(operation: Operation, projection: Projection, now: Moment) -> dict[str, Any]:
    digest = checkpoint_digest(operation)
    return {
        "schema_version": RECOVERY_SCHEMA,
        "operation_id": operation.operation_id,
        "state": projection.state.value,
        "cancel_requested": operation.cancel_requested,
        "freshness": {"position": operation.position, "as_of": time_text(now.wall)},
        "checkpoint": {"revision": operation.revision, "digest": digest},
        "correlations": [
            {
                "call_id": one.call_id,
                "attempt": one.attempt,
                "ordinal": effect.ordinal,
                "effect_id": effect.effect_id,
            }
            for effect in operation.ordered_effects()
            for one in effect.tries
        ],
        "effects": [
            {**effect_view(operation, effect, now), "verdict": projection.verdicts[effect_id].value}
            for effect_id, effect in sorted(
                operation.effects.items(), key=lambda pair: (pair[1].first_at, pair[1].ordinal)
            )
        ],
        "allowed_actions": sorted({action.action for action in projection.actions}),
        "actions": [_action(operation, action, digest) for action in projection.actions],
        "refusals": [refusal_members(refusal) for refusal in projection.refusals],
    }


def _action(operation: Operation, action: Action, digest: str) -> dict[str, Any]:
    path, body, effect = _how(operation, action, digest)
    return {
        "action": action.action,
        "method": "POST",
        "path": path,
        "body": body,
        "needs": action.needs,
        "effect": effect,
        "call_id": action.call_id,
        "effect_id": action.effect_id,
    }


def _how(operation: Operation, action: Action, digest: str) -> tuple[str, dict[str, Any], str]:
    """Path, body complete but for what only the caller knows, and what it does."""
    base = f"/v1/operations/{operation.operation_id}"
    match action.action:
        case "resume":
            body = {
                "schema_version": RESUME_SCHEMA,
                "operation_id": operation.operation_id,
                "checkpoint_revision": operation.revision,
                "checkpoint_digest": digest,
            }
            return f"{base}/resume", body, "lets the operation go on from its checkpoint"
        case "continue":
            body = {"trigger": "manual", "after": len(operation.continuations) - 1}
            return f"{base}/continuations", body, "opens the next continuation, for more calls"
        case "reconcile":
            path = f"/v1/effects/{action.effect_id}/reconcile"
            return path, {}, "asks the provider what came of the effect"
        case "resolve":
            assert action.effect_id is not None
            revision = operation.effects[action.effect_id].revision
            path = f"/v1/effects/{action.effect_id}/resolve"
            return path, {"if_revision": revision}, "states what came of the effect, with evidence"
        case "approve":
            path = f"{base}/approvals/{action.node}"
            return path, {}, "answers what the program waits for"
        case "extend":
            return f"{base}/extend", {}, "raises max_run_ms"
        case "cancel":
            return f"{base}/cancel", {}, "ends what runs and starts nothing more"
        case "accept-artifacts":
            return f"{base}/accept-artifacts", {}, "accepts the handler as it is now"
        case _:
            path = f"/v1/calls/{action.call_id}/attest-dead"
            return path, {}, "states that an old attempt's processes are gone"
