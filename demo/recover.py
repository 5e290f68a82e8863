"""What a careful client and a careful person do after a crash: only what recovery allows.

Nothing here knows a contract. It reads `recovery`, does what stands there, and reads it again.
"""

from __future__ import annotations

import time
from typing import Any

import attrs

from demo.failure import DemoFailed
from demo.world import World
from effectd.client import Client

FINAL_MS = 30_000
MAX_STEPS = 6


@attrs.frozen
class Recovered:
    """How one operation came to its end."""

    operation_id: str
    said: str
    """Its state as the daemon gave it after the restart."""
    verdict: str
    """What the daemon allowed for its effect; empty when no effect was announced."""
    unknown: bool
    steps: tuple[str, ...]
    state: str
    """Its state in the end."""


def recover(client: Client, world: World, operation_id: str) -> Recovered:
    """Bring one operation to its end by the actions that its recovery offers."""
    first = client.recovery(operation_id)
    effects = first["effects"]
    steps: list[str] = []
    recovery = first
    while recovery["state"] in {"unknown", "interrupted"} and len(steps) < MAX_STEPS:
        steps.append(_next_step(client, world, recovery))
        client.operation(operation_id, wait_ms=FINAL_MS)
        recovery = client.recovery(operation_id)
    return Recovered(
        operation_id=operation_id,
        said=str(first["state"]),
        verdict=str(effects[0]["verdict"]) if effects else "",
        unknown=first["state"] == "unknown",
        steps=tuple(steps),
        state=str(recovery["state"]),
    )


def _next_step(client: Client, world: World, recovery: dict[str, Any]) -> str:
    allowed = recovery["allowed_actions"]
    if "resume" in allowed:
        client.resume(recovery["operation_id"])
        return "resume"
    unknown = [effect for effect in recovery["effects"] if effect["outcome"] == "unknown"]
    if "reconcile" in allowed and unknown:
        client.reconcile(unknown[0]["effect_id"])
        _wait_until_settled(client, unknown[0]["effect_id"])
        return "reconcile"
    if "resolve" in allowed and unknown:
        _look_and_resolve(client, world, unknown[0])
        return "resolve"
    raise DemoFailed(f"recovery of {recovery['operation_id']} offers only {allowed}")


def _look_and_resolve(client: Client, world: World, effect: dict[str, Any]) -> None:
    """What a person does: look into the mailbox for this effect, and say what is there."""
    seen = client.effect(effect["effect_id"])
    message_id = f"<{effect['effect_id']}@demo.invalid>"
    found = world.message(message_id)
    client.resolve(
        effect["effect_id"],
        "applied" if found else "not_applied",
        f"{len(found)} mail with Message-ID {message_id} in the mail server's books",
        result={"message_id": message_id} if found else None,
        if_revision=seen["revision"],
    )


def _wait_until_settled(client: Client, effect_id: str) -> None:
    deadline = time.monotonic() + FINAL_MS / 1000
    while client.effect(effect_id)["outcome"] == "unknown":
        if time.monotonic() > deadline:
            raise DemoFailed(f"the reconciler of {effect_id} has not settled it")
        time.sleep(0.05)


def unsettled(client: Client) -> int:
    """How many effects are unknown that must not just be made again."""
    return sum(effect["contract"] != "none" for effect in client.effects(outcome="unknown"))


def finish(client: Client, operation_id: str) -> dict[str, Any]:
    """The operation when it has ended."""
    return dict(client.operation(operation_id, wait_ms=FINAL_MS))
