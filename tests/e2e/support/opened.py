"""One open operation of a daemon, and the client that drives it."""

from __future__ import annotations

from typing import Any

from tests.e2e.support.api import Answer, Api, Document, fresh_id


class Opened:
    """A message with `open: true`, in a session of its own unless one is given."""

    def __init__(self, api: Api, session_id: str = "", **more: Any) -> None:
        self.api = api
        self.session_id = session_id or api.post("sessions", {}).ok()["session_id"]
        body = {"message_id": fresh_id("m"), "max_run_ms": 3_600_000, "open": True, **more}
        answer = api.post(f"sessions/{self.session_id}/messages", body)
        assert answer.status == 202, answer
        self.operation_id: str = answer.document["operation_id"]

    def path(self, *more: object) -> str:
        return "/".join(["operations", self.operation_id, *map(str, more)])

    # --- asking -----------------------------------------------------------------------

    def ask(
        self, handler: str, given: Any, request_id: str = "", wait_ms: int = 60_000, **more: Any
    ) -> Answer:
        """One call; answered when it is final, unless `wait_ms` says otherwise."""
        body = {"request_id": request_id or fresh_id("t"), "handler": handler, "input": given}
        return self.api.post(self.path("calls"), {**body, "wait_ms": wait_ms, **more})

    def called(self, handler: str, given: Any, request_id: str = "", **more: Any) -> Document:
        """What answers it, which must not be a refusal."""
        answered: Document = self.ask(handler, given, request_id, **more).ok()["call"]
        return answered

    def go_on(self, trigger: str = "manual", after: int | None = None, name: str = "") -> Answer:
        after = len(self.continuations) - 1 if after is None else after
        body = {"trigger": trigger, "after": after, "request_id": name or fresh_id("c")}
        return self.api.post(self.path("continuations"), body)

    def end(self, reason: str = "time_limit", n: int | None = None) -> Answer:
        n = len(self.continuations) - 1 if n is None else n
        return self.api.post(self.path("continuations", n, "end"), {"reason": reason})

    # --- looking ----------------------------------------------------------------------

    @property
    def document(self) -> Document:
        return self.api.operation(self.operation_id)

    @property
    def continuations(self) -> list[Document]:
        found: list[Document] = self.document["continuations"]
        return found

    @property
    def note(self) -> str:
        text: str = self.api.get(self.path("note"))["note"]
        return text
