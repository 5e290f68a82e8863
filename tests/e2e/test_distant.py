"""A handler on a file system that stops answering is refused alone; nobody else waits for it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.config.dead import served_mount
from tests.e2e.support.daemon import Daemon

PROGRAM = "#!/bin/sh\necho '\"far\"'\n"
# An answer that needs no look at a file comes in milliseconds; a loop that hangs gives none.
PROMPT_S = 5.0


def promptly(daemon: Daemon) -> None:
    """The daemon answers, runs others' handlers and ends them."""
    began = time.monotonic()
    daemon.api.status()
    assert time.monotonic() - began < PROMPT_S
    assert daemon.api.dispatch("plain", {}, wait_ms=60_000).ok()["state"] == "succeeded"


@pytest.mark.guarantee("S10")
def test_files_that_stop_answering_cost_their_own_handler_alone(daemon: Daemon) -> None:
    api = daemon.api
    with served_mount(daemon.base, {"run": PROGRAM}) as far, ThreadPoolExecutor() as threads:
        daemon.add_handler(
            "far",
            f'manifest = 1\ncommand = ["{far.place}/run"]\ntimeout_ms = 5_000\nread_only = true\n',
        )
        first = api.dispatch("far", {}, wait_ms=60_000).ok()
        assert (first["state"], first["result"]) == ("succeeded", "far")
        far.hang()
        try:
            asked = [threads.submit(api.dispatch, "far", {}, wait_ms=60_000) for _ in range(12)]
            while not all(one.done() for one in asked):
                promptly(daemon)
            for one in asked:
                refused = one.result().ok()["call"]
                assert refused["state"] == "refused"
                assert refused["error"]["code"] == "SandboxUnavailable"
                assert "do not answer" in refused["error"]["detail"]
                assert "file system that hangs" in refused["error"]["detail"]
            said = api.ask("GET", f"operations/{first['operation_id']}/recovery")
            assert (said.status, said.code) == (503, "SandboxUnavailable")
            promptly(daemon)
        finally:
            far.go_on()
        assert api.dispatch("far", {}, wait_ms=60_000).ok()["state"] == "succeeded"
    assert daemon.stop() == 0
