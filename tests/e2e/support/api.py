"""A small client of the daemon's API: one connection for each request, nothing is sent twice."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import socket
from typing import Any
from urllib.parse import urlencode

import attrs

TIMEOUT_S = 90.0
_serials = itertools.count()

Document = dict[str, Any]


class NoAnswer(Exception):
    """The daemon went away, or never was there: nobody knows whether it heard the request."""


@attrs.frozen
class Answer:
    """One answer; every status is one."""

    status: int
    document: Any
    headers: dict[str, str] = attrs.field(factory=dict, repr=False)

    @property
    def code(self) -> str | None:
        """The problem's code; None when the answer is no problem."""
        return self.document.get("code") if self.status >= 400 else None

    def ok(self) -> Document:
        """The document of an answer that must not be a refusal."""
        assert self.status < 300, self
        document: Document = self.document
        return document


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def without_the_time(found: Any) -> Any:
    """JSON types without what is another thing each time that somebody asks."""
    return json.loads(json.dumps(found), object_hook=_lasting)


def _lasting(document: Document) -> Document:
    return {key: one for key, one in document.items() if key not in {"age_ms", "as_of"}}


def fresh_id(word: str = "r") -> str:
    """A client's id that was never used."""
    return f"{word}-{os.getpid()}-{next(_serials)}"


class Api:
    """The API at one socket. Threads may share it. `ok` answers raise AssertionError otherwise."""

    def __init__(self, socket_path: str) -> None:
        self.socket_path = socket_path

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: dict[str, Any] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Answer:
        """One request, sent once. Raises NoAnswer when the connection fails or ends early."""
        target = f"/v1/{path}" + (f"?{urlencode(query)}" if query else "")
        data = body if isinstance(body, bytes) else json.dumps(body) if body is not None else None
        connection = _Connection(self.socket_path, timeout_s)
        try:
            connection.request(method, target, data, {"content-type": "application/json"})
            response = connection.getresponse()
            read = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{method} {target}: {error!r}") from error
        finally:
            connection.close()
        headers = {name.lower(): value for name, value in response.getheaders()}
        is_json = "json" in headers.get("content-type", "") and "ndjson" not in headers.get(
            "content-type", ""
        )
        return Answer(response.status, json.loads(read) if is_json and read else read, headers)

    def get(self, path: str, **query: Any) -> Document:
        return self.ask("GET", path, query=query).ok()

    def post(self, path: str, body: Any) -> Answer:
        return self.ask("POST", path, body)

    # --- reading ----------------------------------------------------------------------

    def operation(self, operation_id: str, wait_ms: int = 0) -> Document:
        return self.get(f"operations/{operation_id}", **({"wait_ms": wait_ms} if wait_ms else {}))

    def final(self, operation_id: str) -> Document:
        """The operation when nothing of it runs or queues any more."""
        document = self.operation(operation_id, wait_ms=60_000)
        assert document["state"] not in {"accepted", "running"}, document
        return document

    def call(self, call_id: str) -> Document:
        return self.get(f"calls/{call_id}")

    def effect(self, effect_id: str) -> Document:
        return self.get(f"effects/{effect_id}")

    def recovery(self, operation_id: str) -> Document:
        return self.get(f"operations/{operation_id}/recovery")

    def status(self) -> Document:
        return self.get("status")

    def events(self, after: int = 0) -> list[Document]:
        """Every event behind a position, as far as there are any now."""
        answer = self.ask("GET", "events", query={"after": after})
        assert answer.status == 200, answer
        lines = answer.document.splitlines()
        return [json.loads(line) for line in lines if line.strip()]

    # --- asking for something ---------------------------------------------------------

    def dispatch(self, handler: str, given: Any, request_id: str = "", **more: Any) -> Answer:
        """`given` is the input; `more`: timeout_ms, max_run_ms, labels, wait_ms."""
        body = {"request_id": request_id or fresh_id(), "handler": handler, "input": given, **more}
        return self.post("dispatch", body)

    def resume(
        self, operation_id: str, request_id: str = "", *, wait_ms: int = 60_000, **changed: Any
    ) -> Answer:
        """Resume from the checkpoint as it is now. `changed` overrides members of the body."""
        checkpoint = self.recovery(operation_id)["checkpoint"]
        body = {
            "schema_version": "effectd-operation-resume-request-v1",
            "operation_id": operation_id,
            "checkpoint_revision": checkpoint["revision"],
            "checkpoint_digest": checkpoint["digest"],
            "resume_request_id": request_id or fresh_id("resume"),
            "wait_ms": wait_ms,
            **changed,
        }
        return self.post(f"operations/{operation_id}/resume", body)

    def cancel(self, operation_id: str, *, wait_ms: int = 60_000) -> Answer:
        body = {"reason": "the test says so", "wait_ms": wait_ms}
        return self.post(f"operations/{operation_id}/cancel", body)

    def extend(self, operation_id: str, max_run_ms: int) -> Answer:
        body = {"max_run_ms": max_run_ms, "reason": "the test says so"}
        return self.post(f"operations/{operation_id}/extend", body)

    def reconcile(self, effect_id: str) -> Answer:
        return self.post(f"effects/{effect_id}/reconcile", {"wait_ms": 60_000})

    def resolve(self, effect_id: str, outcome: str, **more: Any) -> Answer:
        """`more`: result, if_revision (the present one unless given)."""
        if "if_revision" not in more:
            more["if_revision"] = self.effect(effect_id)["revision"]
        body = {"outcome": outcome, "evidence": "the world was asked", **more}
        return self.post(f"effects/{effect_id}/resolve", body)
