"""A client that brings any operation to its end, by what its recovery document offers alone."""

from __future__ import annotations

from tests.e2e.support.api import Answer, Api, Document, fresh_id
from tests.e2e.support.world import World

TERMINAL = {"cancelled", "stopped", "succeeded", "failed"}
STATES = TERMINAL | {"accepted", "running", "unknown", "waiting", "interrupted"}
# In this order: go on; ask the provider; look oneself; and only then ask for more time.
_PREFERRED = ("resume", "reconcile", "resolve", "extend")
_STEPS_MAX = 12


def offered(recovery: Document, action: str) -> Document | None:
    """The first offer of this action, or None."""
    return next((one for one in recovery["actions"] if one["action"] == action), None)


def take(api: Api, world: World, recovery: Document, offer: Document) -> Answer:
    """Do what is offered, filling in what only a client knows."""
    body = dict(offer["body"])
    if offer["action"] == "resume":
        body |= {"resume_request_id": fresh_id("resume"), "wait_ms": 60_000}
    elif offer["action"] == "resolve":
        body |= _looked_up(world, offer["effect_id"])
    elif offer["action"] == "extend":
        present = api.operation(recovery["operation_id"])["budget"]["max_run_ms"]
        body |= {"max_run_ms": present + 200_000, "reason": "it was interrupted too often"}
    assert offer["method"] == "POST"
    return api.post(offer["path"].removeprefix("/v1/"), body)


def _looked_up(world: World, effect_id: str) -> Document:
    """What an operator finds out in the world."""
    if world.made(effect_id):
        result = {"receipt": world.receipt(effect_id)}
        return {"outcome": "applied", "result": result, "evidence": "the world has it"}
    return {"outcome": "not_applied", "evidence": "the world has it not"}


def next_step(recovery: Document) -> Document | None:
    """The offer that a sensible client takes; None when there is none but to cancel."""
    found = (offered(recovery, action) for action in _PREFERRED)
    return next((one for one in found if one is not None), None)


def settle(api: Api, world: World, operation_id: str) -> Document:
    """The operation in its terminal state. AssertionError when it is stuck on the way."""
    for _ in range(_STEPS_MAX):
        operation = api.final(operation_id)
        if operation["state"] in TERMINAL:
            return operation
        recovery = api.recovery(operation_id)
        offer = next_step(recovery)
        assert offer is not None, ("stuck", recovery)
        take(api, world, recovery, offer).ok()
    raise AssertionError(("not settled", api.recovery(operation_id)))
