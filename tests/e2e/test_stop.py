"""Stopping: what runs is given time, then it is ended as seen; nothing is left."""

from __future__ import annotations

import signal
import threading

import pytest

from tests.e2e.support.api import Api, NoAnswer
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.processes import wait_until
from tests.e2e.support.service import new_service


@pytest.mark.guarantee("R14")
def test_a_stop_waits_for_what_runs_and_takes_nothing_new(daemon: Daemon) -> None:
    daemon.world.hold("t made never")
    operation_id = daemon.api.dispatch("never", {"tag": "t", "effects": ["never"]}, "first").ok()[
        "operation_id"
    ]
    daemon.world.arrived("t made never")
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGTERM)
    wait_until(lambda: daemon.api.status()["state"] == "draining", 60, "it drains")
    refused = daemon.api.dispatch("never", {"tag": "other", "effects": ["never"]}, "second")
    assert (refused.status, refused.code) == (503, "Draining")
    assert refused.document["retryable"] is True
    same = daemon.api.dispatch("never", {"tag": "t", "effects": ["never"]}, "first")
    assert same.document["operation_id"] == operation_id
    daemon.world.release()
    assert daemon.process.wait(60) == 0
    daemon.start()
    assert daemon.api.operation(operation_id)["state"] == "succeeded"
    assert (
        daemon.api.dispatch(
            "never", {"tag": "other", "effects": ["never"]}, "second", wait_ms=60_000
        ).status
        == 200
    )


@pytest.mark.guarantee("R14", "B5")
def test_a_second_signal_ends_what_is_left_as_seen(daemon: Daemon) -> None:
    daemon.world.hold("t before short-grace", "t made never")
    operation_id = daemon.api.dispatch("never", {"tag": "t", "effects": ["never"]}).ok()[
        "operation_id"
    ]
    daemon.world.arrived("t made never")
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGTERM)
    wait_until(lambda: daemon.api.status()["state"] == "draining", 60, "it drains")
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.process.wait(60) == 0
    assert daemon.everything_alive() == []
    daemon.start()
    document = daemon.api.operation(operation_id)
    (attempt,) = document["call"]["attempts"]
    assert attempt["phase"] == "ended"
    assert (attempt["outcome"], attempt["code"]) == ("cancelled", "Draining")
    assert document["budget"]["reserved_ms"] == 0
    assert document["budget"]["confirmed_ms"] == attempt["active_ms"] < 120_000
    # Its effect had leave and no confirmation: unknown, and not cancelled.
    assert document["state"] == "unknown"
    error, (effect,) = document["call"]["error"], document["call"]["effects"]
    assert error["code"] == "EffectOutcomeUnknown"
    assert error["detail"].startswith("the daemon was stopped while it ran; effect 'never'")
    assert f"effectctl effects resolve {effect['effect_id']}" in error["fix"]


@pytest.mark.guarantee("R14")
def test_what_was_stopped_before_it_announced_is_interrupted_and_can_be_resumed(
    daemon: Daemon,
) -> None:
    daemon.world.hold("t before never")
    asked = {"tag": "t", "effects": ["never"], "meet": ["before never"]}
    operation_id = daemon.api.dispatch("never", asked).ok()["operation_id"]
    daemon.world.arrived("t before never")
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGTERM)
    wait_until(lambda: daemon.api.status()["state"] == "draining", 60, "it drains")
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(60) == 0
    daemon.world.release()
    daemon.start()
    interrupted = daemon.api.operation(operation_id)
    assert interrupted["state"] == "interrupted"
    assert interrupted["call"]["error"]["code"] == "Draining"
    assert f"operations recovery {operation_id}" in interrupted["call"]["error"]["fix"]
    assert daemon.api.resume(operation_id).ok()["state"] == "succeeded"
    assert daemon.world.arrivals("t made never") == 1


def test_an_idle_daemon_stops_at_once_and_starts_again_on_the_same_socket(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    with pytest.raises(NoAnswer):
        daemon.api.status()
    daemon.start()
    assert daemon.api.status()["journal"]["recovery"]["verdict"] == "clean"


@pytest.mark.guarantee("R9")
def test_a_client_that_goes_away_leaves_its_operation_running(daemon: Daemon) -> None:
    daemon.world.hold("t made never")
    asked = {
        "request_id": "r",
        "handler": "never",
        "input": {"tag": "t", "effects": ["never"]},
        "wait_ms": 60_000,
    }

    def impatient() -> None:
        with pytest.raises(NoAnswer):
            daemon.api.ask("POST", "dispatch", asked, timeout_s=0.5)

    client = threading.Thread(target=impatient)
    client.start()
    daemon.world.arrived("t made never")
    client.join()
    daemon.world.release()
    document = daemon.api.get("operations", request_id="r")["items"][0]
    assert daemon.api.final(document["operation_id"])["state"] == "succeeded"


def test_a_socket_that_cannot_be_made_is_said_at_once() -> None:
    with new_service() as service:
        service.api = Api(str(service.handlers / "plain.toml" / "run" / "effectd.sock"))
        failed = service.start_another()
        assert failed.returncode == 1
        assert f"socket {service.api.socket_path}: Not a directory: create" in failed.stderr
        assert "Traceback" not in failed.stderr


def test_a_state_directory_that_cannot_be_written_is_said_at_once() -> None:
    with new_daemon() as daemon:
        daemon.state.write_text("a file stands here")
        failed = daemon.start_another()
        assert failed.returncode == 1
        assert str(daemon.state) in failed.stderr
        assert "Traceback" not in failed.stderr
