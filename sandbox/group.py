"""The kill ladder: the only place that knows how a tree is asked, then told, then made to end."""

from __future__ import annotations

import trio

from sandbox import census, tree, wire
from sandbox.slot import Sandbox
from sandbox.spec import Ended, Lost, Unkillable

# Init answers within a millisecond or two, and a storm of thousands takes it some tens. One that
# has not answered by then is helped from outside, again and again, but not killed yet: its record
# is the best proof and the only one that tells status and usage.
HELP_S = 0.05
# An init that has not even read its order by then will not: it is killed, and its tree with it.
PATIENCE_S = 1.0
# Unless it waits for a processor all that time: then it will when it gets one, and its tree, which
# was killed around it, can do nothing meanwhile.
STARVED_S = 4.0
# From then on there is nothing to be done for it but to look whether that is still so.
LOOK_S = 0.5
# After that, whatever still lives is called unkillable.
DEADLINE_S = 5.0


async def end(sandbox: Sandbox, *, grace_ms: int, ask: bool) -> Ended | Lost | Unkillable:
    """End the sandbox's whole tree and prove it. Not cancellable; bounded by grace + 5.6 s.

    With ``ask``: SIGTERM to all, then ``grace_ms`` for the leader to end. Then SIGKILL to all, from
    inside first and from outside after 50 ms. `Unkillable` may be asked again: when init only waits
    for what the kernel does not let die, it is left alive to tell how it ended after all.
    """
    if sandbox.ended is not None:
        return sandbox.ended
    with trio.CancelScope(shield=True):
        return await _climb(sandbox, grace_ms if ask else None)
    raise AssertionError("nobody cancels this scope")


async def _climb(sandbox: Sandbox, grace_ms: int | None) -> Ended | Lost | Unkillable:
    if grace_ms is not None:
        sandbox.terminate()
        with trio.move_on_after(grace_ms / 1000):
            return await sandbox.leader_exited()
    began = trio.current_time()
    waited_s = 0.0
    sandbox.kill_inside()
    while True:
        with trio.move_on_after(HELP_S if waited_s < PATIENCE_S else LOOK_S):
            return await sandbox.leader_exited()
        waited_s = trio.current_time() - began
        if not await _may_still_answer(sandbox, waited_s):
            break
        if waited_s >= DEADLINE_S:
            return Unkillable(sandbox.identity, tree.describe(sandbox.identity.init_pid))
    return await _from_outside(sandbox, max(began + DEADLINE_S - trio.current_time(), HELP_S))


async def _may_still_answer(sandbox: Sandbox, waited_s: float) -> bool:
    """Whether init is worth waiting for. Meanwhile its tree is killed for it, where that helps."""
    identity = sandbox.identity
    state = census.state(identity.init_pid)
    if state == "T":
        return False  # stopped, which no load explains: it cannot answer, nor kill anything
    patience_s = STARVED_S if state == "R" else PATIENCE_S
    if sandbox.contained_by == wire.BY_CGROUP:
        # Init signals a list of pids, which a chain of forks outruns; seen from outside the
        # cgroup can be made to hold still.
        done = await tree.kill_all_but_init(identity, hold_still=True)
        return done and waited_s < patience_s and tree.thaw(identity)
    heard = sandbox.heard()
    if not heard:
        await tree.kill_all_but_init(identity, hold_still=False)
    if not tree.thaw(identity):
        return False  # nor can it when it is frozen, and not by itself alone
    if not heard:
        return waited_s < patience_s
    # It has sent SIGKILL to all in one call. What is left to do is the kernel's, and would be even
    # if init were killed; unless there is nobody left to wait for.
    return waited_s < DEADLINE_S or any(tree.descendants(identity.init_pid))


async def _from_outside(sandbox: Sandbox, deadline_s: float) -> Ended | Lost | Unkillable:
    proof = await sandbox.kill(deadline_s)
    if isinstance(proof, Unkillable):
        return proof
    with trio.move_on_after(HELP_S):
        return await sandbox.leader_exited()  # it may have spoken before it was killed
    return Lost("its init did not answer and was killed", proof)
