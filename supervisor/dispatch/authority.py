"""Whether a requester may still run a handler, right before it is started."""

from __future__ import annotations

from config.access import may_run, missing_role, missing_run, roles
from config.load import Handler
from supervisor.core.errors import Refusal
from supervisor.dispatch.engine import Engine


async def authority(
    engine: Engine, handler: Handler, uid: int, lent: frozenset[int]
) -> Refusal | None:
    """Whether that user may run this handler now. Groups that the database knows are looked up
    again; a service manager gives a process others, which only the process shows: `lent`."""
    if uid == 0:
        return None
    gids = lent | await engine.groups(uid)
    held = roles(engine.config, uid, gids)
    if "run" not in held:
        denial = missing_role(engine.config, "run", str(uid))
    elif not may_run(handler.manifest, uid, gids, held):
        denial = missing_run(handler.manifest, str(uid))
    else:
        return None
    return Refusal("AuthorityRevoked", denial.detail, fix=denial.fix, needs=denial.needs)
