"""Where decisions meet the world: durable first, then leave, spawn and answer.

`engine` is the one place that orders those two; `attempt` and `reconcile` are the only
ones (beside the restart's recovery) that start or end a process.
"""

from supervisor.dispatch.engine import Engine, Unavailable
from supervisor.dispatch.events import Event, Events

__all__ = ["Engine", "Event", "Events", "Unavailable"]
