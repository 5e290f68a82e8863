"""One daemon, killed once with an operation of every kind held at its worst moment.

It is then restarted, restarted again, and killed once more in the middle of a resume.
"""

from __future__ import annotations

from typing import Any

import attrs

from tests.e2e.support.api import Api, Document
from tests.e2e.support.daemon import Daemon
from tests.e2e.support.manifests import CONTRACTS, TIMEOUT_MS
from tests.e2e.support.settle import offered
from tests.e2e.support.world import World

CELLS = [f"{word}{scope}" for word in CONTRACTS for scope in ("", "-call")]
SHORT_MS = 10_000


@attrs.frozen
class Held:
    """One operation, and the point where its handler waits when the daemon is killed."""

    handler: str
    effects: tuple[str, ...]
    at: str
    input: dict[str, Any] = attrs.field(factory=dict[str, Any])
    terms: dict[str, Any] = attrs.field(factory=dict[str, Any])


def _budget(max_run_ms: int) -> Held:
    """10,000 ms of so many are reserved when the daemon is killed."""
    terms = {"timeout_ms": SHORT_MS, "max_run_ms": max_run_ms}
    return Held("key", ("key",), "made key", terms=terms)


OPERATIONS = {
    # Made in the world, not recorded: one for each cell of the table.
    **{
        cell: Held(cell, (word,), f"made {word}") for cell in CELLS for word in [cell.split("-")[0]]
    },
    # Leave given, nothing made: the journal cannot tell this from the ones above.
    **{f"{word} unmade": Held(word, (word,), f"leave {word}") for word in CONTRACTS},
    # Nothing announced, so nothing can have been made.
    "before": Held("never", ("never",), "before never"),
    # Recorded, but the handler was not seen to end; no budget is left for anything.
    "recorded": Held("never", ("never",), "told never", terms={"max_run_ms": TIMEOUT_MS + 1}),
    "finish": Held("pair", ("key", "other"), "end"),
    "second of two": Held("pair", ("key", "other"), "made other"),
    "said no": Held("never", ("never",), "end", {"fails": ["never"]}),
    "cancelled": Held("lingering", ("never",), "made never", {"deaf": True}),
    "twice": Held("key", ("key",), "made key", terms={"max_run_ms": 10 * TIMEOUT_MS}),
    # B2's examples and the milliseconds beside equality; last, for their deadline is near.
    **{str(limit): _budget(limit) for limit in (15_000, 20_000, 20_001, 40_000)},
}


def request_of(name: str) -> str:
    """The request id of the operation with this name."""
    return "first." + name.replace(" ", ".")


class Story:
    """What was seen after each of three restarts; before the third one `twice` was resumed."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.api: Api = daemon.api
        self.world: World = daemon.world
        self.ids: dict[str, str] = {}
        self.effect_ids: dict[str, str] = {}
        self.seen: list[dict[str, Document]] = []
        self.operations: dict[str, Document] = {}
        self.resume: Document = {}
        self.survived_s = 0.0
        self.events: list[Document] = []
        self.handlers_alive: list[int] = []

    def tell(self) -> Story:
        self._reach_the_moment()
        position = self.api.status()["journal"]["position"]
        self.daemon.kill9()
        self.survived_s = self.daemon.gone()
        self.world.release()
        self._look_again()
        self.operations = {name: self.api.operation(one) for name, one in self.ids.items()}
        self.effect_ids = {
            name: seen["effects"][0]["effect_id"]
            for name, seen in self.seen[0].items()
            if len(seen["effects"]) == 1
        }
        self._look_again()
        self.events = self.api.events(after=position)
        self._crash_twice()
        self._look_again()
        return self

    def _look_again(self) -> None:
        self.daemon.restart()
        self.handlers_alive += self.daemon.handler_processes()
        self.seen.append({name: self.api.recovery(one) for name, one in self.ids.items()})

    def _reach_the_moment(self) -> None:
        api, world = self.api, self.world
        self._queue()
        for name, one in OPERATIONS.items():
            world.hold(f"{name} {one.at}")
            given = {"tag": name, "effects": one.effects, "meet": [one.at], **one.input}
            answer = api.dispatch(one.handler, given, request_of(name), **one.terms)
            self.ids[name] = answer.ok()["operation_id"]
        for name, one in OPERATIONS.items():
            world.arrived(f"{name} {one.at}")
        assert api.cancel(self.ids["cancelled"], wait_ms=0).ok()["cancel_requested"]

    def _queue(self) -> None:
        """`queued` is accepted while another holds its handler's only place: it never starts."""
        self.world.hold("blocking before never")
        for name in ("blocking", "queued"):
            given = {"tag": name, "effects": ["never"], "meet": ["before never"]}
            answer = self.api.dispatch("single", given, request_of(name))
            self.ids[name] = answer.ok()["operation_id"]
            if name == "blocking":
                self.world.arrived("blocking before never")

    def _crash_twice(self) -> None:
        self.world.hold("twice made key")
        offer = offered(self.seen[1]["twice"], "resume")
        assert offer is not None
        self.resume = {**offer["body"], "resume_request_id": "twice-1"}
        assert self.api.post(f"operations/{self.ids['twice']}/resume", self.resume).status == 202
        self.world.arrived("twice made key", times=2)
        self.daemon.kill9()
        self.world.release()

    # --- for the tests ----------------------------------------------------------------

    def now(self, name: str) -> Document:
        return self.api.operation(self.ids[name])

    def made(self, name: str) -> int:
        """How often the operation's one effect is in the world."""
        return self.world.made(self.effect_ids[name])

    def starts(self, name: str) -> int:
        """How many attempts were started for it."""
        calls = [self.api.call(call_id) for call_id in self.now(name)["calls"]]
        return sum(len(call["attempts"]) for call in calls)
