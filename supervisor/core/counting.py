"""How the tally of an operation follows its calls and effects, one at a time or all at once."""

from __future__ import annotations

from supervisor.core.changed import changed
from supervisor.core.lineage import unresolved
from supervisor.core.state import Call, Effect, Operation
from supervisor.core.tally import Tally


def with_call(tally: Tally, before: Call | None, after: Call) -> Tally:
    """The tally when one call became another, or was accepted."""
    changes: dict[str, object] = {}
    if after.moves is not (after.call_id in tally.moving):
        one, moving = after.call_id, tally.moving
        changes["moving"] = moving.set(one, None) if after.moves else moving.delete(one)
    if before is None:
        changes["handlers"] = _with(tally.handlers, after.terms.handler)
    attempts, alive = _attempts(before), _attempts(after)
    if attempts != alive:
        changes["attempts"] = tally.attempts + alive[0] - attempts[0]
        changes["alive"] = tally.alive + alive[1] - attempts[1]
    return changed(tally, **changes) if changes else tally


def with_effect(tally: Tally, before: Effect | None, after: Effect) -> Tally:
    """The tally when one effect became another, or was announced."""
    was, now = _counted(before), _counted(after)
    if was == now:
        return tally
    counts: dict[str, int] = {}
    for names, by in ((was, -1), (now, 1)):
        for one in names:
            count: int = counts[one] if one in counts else getattr(tally, one)
            counts[one] = count + by
    return changed(tally, **counts)


def tally_of(operation: Operation) -> Tally:
    """The tally of an operation that is there whole."""
    tally = Tally()
    for call in operation.calls.values():
        tally = with_call(tally, None, call)
    for effect in operation.effects.values():
        tally = with_effect(tally, None, effect)
    return tally


def _with(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else tuple(sorted((*names, name)))


def _attempts(call: Call | None) -> tuple[int, int]:
    """How many there are, and how many are not proven dead."""
    if call is None or not call.attempts:
        return 0, 0
    return len(call.attempts), sum(not one.dead for one in call.attempts)


def _counted(effect: Effect | None) -> list[str]:
    """The members of a tally that count this effect."""
    if effect is None:
        return []
    names = [effect.outcome.value]
    if unresolved(effect):
        names.append("unresolved")
    if effect.reconciling is not None:
        names.append("reconciling")
    return names
