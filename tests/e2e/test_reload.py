"""A reload puts configuration and manifests in force whole or not at all, and disturbs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from supervisor.cli.__main__ import run
from supervisor.cli.exits import Exit
from tests.e2e.support.daemon import Daemon, new_daemon


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with new_daemon() as daemon:
        daemon.start()
        yield daemon


def test_what_runs_keeps_the_manifest_that_it_began_with(daemon: Daemon) -> None:
    api, manifest = daemon.api, daemon.handlers / "single.toml"
    daemon.world.hold("kept made never")
    operation = api.dispatch("single", {"tag": "kept", "effects": ["never"]}).ok()
    daemon.world.arrived("kept made never")
    manifest.write_text(re.sub(r"(?m)^timeout_ms = .*", "timeout_ms = 1", manifest.read_text()))
    answer = api.ask("POST", "reload").ok()
    assert "single" in answer["handlers"]
    after = api.dispatch("single", {"effects": ["never"]}).ok()
    daemon.world.release()
    assert api.final(operation["operation_id"])["state"] == "succeeded"
    (attempt,) = api.final(after["operation_id"])["call"]["attempts"]
    assert attempt["outcome"] == "timed_out"


def test_a_broken_one_is_refused_with_all_that_is_wrong(
    daemon: Daemon, capsys: pytest.CaptureFixture[str]
) -> None:
    socket = daemon.api.socket_path
    broken = {name: daemon.handlers / f"{name}.toml" for name in ("bad-key", "bad-value")}
    broken["bad-key"].write_text('manifest = 1\ncommand = ["/bin/true"]\ntimeout_mz = 1\n')
    broken["bad-value"].write_text('manifest = 1\ncommand = ["/bin/true"]\ntimeout_ms = "1"\n')
    answer = daemon.api.ask("POST", "reload")
    assert (answer.status, answer.code) == (409, "ConfigurationRefused")
    told = "\n".join(answer.document["problems"])
    assert f"{broken['bad-key']}: timeout_mz" in told
    assert f"{broken['bad-value']}: timeout_ms" in told
    assert run(["--socket", socket, "reload"]) == Exit.REFUSED
    said = capsys.readouterr()
    assert said.out == ""
    assert all(str(file) in said.err for file in broken.values())
    assert "the old configuration stays in force" in said.err
    assert daemon.api.dispatch("plain", {}, wait_ms=60_000).ok()["state"] == "succeeded"
    for file in broken.values():
        file.unlink()
    assert run(["--socket", socket, "reload"]) == Exit.DONE
    assert "reloaded: " in capsys.readouterr().out
    assert run(["--socket", socket, "reload", "-o", "ids"]) == Exit.DONE
    assert "single" in capsys.readouterr().out.split()
