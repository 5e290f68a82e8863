"""The kill ladder: the only place that knows how a tree is asked, then told, then made to end."""

from __future__ import annotations

import trio

from sandbox.slot import Sandbox
from sandbox.spec import Ended, Lost, Unkillable

# Init answers within a millisecond or two; a fork storm of thousands takes it some tens.
RECORD_S = 0.1
DEADLINE_S = 5.0


async def end(sandbox: Sandbox, *, grace_ms: int, ask: bool) -> Ended | Lost | Unkillable:
    """End the sandbox's whole tree and prove it. Not cancellable; bounded by grace + 5.1 s.

    With ``ask``: SIGTERM to all, then ``grace_ms`` for the leader to end. Then SIGKILL to all from
    inside, whose record still tells status and usage; then SIGKILL from outside.
    """
    with trio.CancelScope(shield=True):
        return await _climb(sandbox, grace_ms if ask else None)
    raise AssertionError("nobody cancels this scope")


async def _climb(sandbox: Sandbox, grace_ms: int | None) -> Ended | Lost | Unkillable:
    if grace_ms is not None:
        sandbox.terminate()
        with trio.move_on_after(grace_ms / 1000):
            return await sandbox.leader_exited()
    sandbox.kill_inside()
    with trio.move_on_after(RECORD_S):
        return await sandbox.leader_exited()
    proof = await sandbox.kill(DEADLINE_S)
    if isinstance(proof, Unkillable):
        return proof
    with trio.move_on_after(RECORD_S):
        return await sandbox.leader_exited()
    return Lost("its init did not answer and was killed", proof)
