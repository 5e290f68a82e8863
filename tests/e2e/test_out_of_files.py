"""A daemon without a descriptor left refuses what it cannot start, stays up, ends what runs, and
heals by itself."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from tests.e2e.support.api import Document, fresh_id
from tests.e2e.support.daemon import Daemon
from tests.e2e.support.processes import wait_until

# More than a daemon at rest and one attempt take together.
LIMIT_MAX = 120
HEALED_S = 30
ROUNDS = 4
# More than the sandboxes that stand ready may take, fewer than one for each refusal of a round.
READY_FILES = 24


@pytest.fixture
def daemon(calm_daemon: Daemon) -> Daemon:
    return calm_daemon


class Line:
    """One connection for all requests: the daemon may be unable to accept another."""

    def __init__(self, daemon: Daemon) -> None:
        self._http = HTTPConnection("localhost")
        self._http.sock = socket.socket(socket.AF_UNIX)
        self._http.sock.settimeout(60)
        self._http.sock.connect(daemon.api.socket_path)
        self.get("status")

    def get(self, path: str) -> Document:
        return self._ask("GET", path, None)

    def post(self, path: str, body: Document) -> Document:
        return self._ask("POST", path, body)

    def dispatch(self, handler: str, tag: str, wait_ms: int = 60_000) -> Document:
        given = {"tag": tag, "effects": []}
        request = {"request_id": fresh_id(), "handler": handler, "input": given}
        return self.post("dispatch", {**request, "wait_ms": wait_ms})

    def _ask(self, method: str, path: str, body: Document | None) -> Document:
        data = json.dumps(body) if body is not None else None
        self._http.request(method, f"/v1/{path}", data, {"content-type": "application/json"})
        document: Document = json.loads(self._http.getresponse().read())
        return document

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def line(daemon: Daemon) -> Iterator[Line]:
    made = Line(daemon)
    yield made
    made.close()


@contextlib.contextmanager
def limited(daemon: Daemon, files: int) -> Iterator[None]:
    """Whatever the daemon has beyond, it keeps; nothing more can be had there."""
    soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (files, hard))
    try:
        yield
    finally:
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.guarantee("S9")
def test_it_refuses_stays_up_and_heals(daemon: Daemon, line: Line) -> None:
    # What it had to be allowed until all of a dispatch fitted.
    fits: list[int] = []
    for _ in range(ROUNDS):
        for limit in range(3, LIMIT_MAX):
            with limited(daemon, limit):
                operation = line.dispatch("plain", f"files-{limit}")
            if operation["state"] == "succeeded":
                fits.append(limit)
                break
            error, attempts = operation["call"]["error"], operation["call"]["attempts"]
            assert "Too many open files" in error["detail"], error
            if attempts:
                assert [one["outcome"] for one in attempts] == ["not_started"]
                assert operation["state"] in {"interrupted", "failed"}, operation
            else:
                assert (operation["state"], error["code"]) == ("failed", "SandboxUnavailable")
        assert line.dispatch("plain", "healed")["state"] == "succeeded"
    assert len(fits) == ROUNDS, "it fits at last"
    assert max(fits) < min(fits) + READY_FILES, f"something leaked: {fits}"
    wait_until(lambda: daemon.api.status()["state"] == "ready", HEALED_S, "it is ready")


@pytest.mark.guarantee("S1")
def test_what_runs_is_ended_and_told(daemon: Daemon, line: Line) -> None:
    daemon.world.hold("held made never")
    operation = line.post(
        "dispatch",
        {
            "request_id": fresh_id(),
            "handler": "tree",
            "input": {"tag": "held", "effects": ["never"], "tree": 3, "deaf": True},
        },
    )
    daemon.world.arrived("held made never")
    with limited(daemon, 3):
        path = f"operations/{operation['operation_id']}"
        body = {"reason": "the test says so", "wait_ms": 60_000}
        ended = line.post(f"{path}/cancel", body)
        assert ended["state"] == "unknown", ended
        (attempt,) = ended["call"]["attempts"]
        assert attempt["outcome"] == "cancelled"
        assert attempt["proven_dead"] is True
    daemon.world.release()
    assert (
        daemon.api.dispatch("plain", {"effects": []}, wait_ms=60_000).ok()["state"] == "succeeded"
    )
