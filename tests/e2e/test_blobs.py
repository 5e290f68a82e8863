"""Results that are too large for their records: files of their own, by digest."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.support.api import Document
from tests.e2e.support.daemon import Daemon, new_daemon
from tests.e2e.support.journal_files import small_disk
from tests.e2e.support.processes import wait_until

PAD = 40_000


def large(daemon: Daemon, request_id: str, handler: str = "never", **more: object) -> Document:
    """An operation whose effects of that name returned something large."""
    given = {"tag": request_id, "effects": [handler], "large": PAD, **more}
    return daemon.api.dispatch(handler, given, request_id, wait_ms=60_000).ok()


def files(daemon: Daemon) -> list[Path]:
    return sorted((daemon.state / "blobs").iterdir())


def flip(blob: Path) -> None:
    content = bytearray(blob.read_bytes())
    content[len(content) // 2] ^= 1
    blob.write_bytes(content)


def made(operation: Document) -> Document:
    """What its one effect returned, as every object that carries it says."""
    result: Document = operation["result"]
    assert result == operation["call"]["result"]
    assert result["pad"] == "x" * PAD
    return result


def names(daemon: Daemon, operation: Document) -> tuple[str, str]:
    call_id: str = operation["call"]["call_id"]
    [effect] = daemon.api.call(call_id)["effects"]
    return call_id, effect["effect_id"]


@pytest.mark.guarantee("E8")
def test_a_large_result_is_a_file_that_a_restart_reads_back(daemon: Daemon) -> None:
    api = daemon.api
    operation = large(daemon, "first")
    result = made(operation)
    [blob] = files(daemon)
    assert operation["call"]["result_blob"] == {
        "digest": blob.name,
        "bytes": blob.stat().st_size,
    }
    assert all(b"xxxx" not in one.read_bytes() for one in (daemon.state / "journal").glob("*.jnl"))
    daemon.kill9()
    daemon.start()

    call_id, effect_id = names(daemon, operation)
    assert made(api.final(operation["operation_id"])) == result
    assert api.call(call_id)["result"] == api.effect(effect_id)["result"] == result
    assert api.get(f"calls/{call_id}/result") == result
    [listed] = api.get("operations")["items"]
    assert (listed["result"], listed["call"]["result"]) == (None, None)
    assert listed["call"]["result_available"]
    assert listed["call"]["result_blob"]["bytes"] == blob.stat().st_size


@pytest.mark.guarantee("E8")
def test_equal_results_share_a_file_and_small_ones_have_none(daemon: Daemon) -> None:
    for request_id in ("one", "two"):
        daemon.api.dispatch("plain", {"large": PAD}, request_id, wait_ms=60_000).ok()
    daemon.api.dispatch("plain", {"large": 10}, "three", wait_ms=60_000).ok()
    assert len(files(daemon)) == 1


@pytest.mark.guarantee("E8")
@pytest.mark.parametrize("loss", ["damaged", "missing"])
def test_a_lost_blob_is_an_unavailable_result_that_may_be_supplied_once(
    daemon: Daemon, loss: str
) -> None:
    api = daemon.api
    operation = large(daemon, "first")
    call_id, effect_id = names(daemon, operation)
    [blob] = files(daemon)
    content = blob.read_bytes()
    if loss == "damaged":
        flip(blob)
    else:
        blob.unlink()

    seen = api.effect(effect_id)
    assert (seen["result"], seen["result_available"]) == (None, False)
    assert seen["result_unavailable"] == loss
    refused = api.ask("GET", f"calls/{call_id}/result")
    assert refused.code == "EffectResultUnavailable"
    blob.write_bytes(content)  # too late: it was recorded
    daemon.restart()
    assert not api.effect(effect_id)["result_available"]
    assert not api.call(call_id)["result_available"]
    supplied = {"id": 7, "pad": "y" * PAD}
    api.resolve(effect_id, "applied", result=supplied).ok()
    assert api.get(f"calls/{call_id}/result") == supplied
    assert sum(daemon.world.changes("first").values()) == 1


@pytest.mark.guarantee("E8")
def test_a_relaunched_handler_gets_its_answer_from_the_file(daemon: Daemon) -> None:
    finished = _relaunched(daemon, lambda _: None)
    assert finished["state"] == "succeeded"
    assert finished["result"]["key"]
    assert sum(daemon.world.changes("pair").values()) == 2


@pytest.mark.guarantee("E8")
def test_a_relaunched_handler_whose_answer_is_lost_makes_nothing_again(daemon: Daemon) -> None:
    refused = _relaunched(daemon, flip)
    assert refused["call"]["attempts"][-1]["code"] == "EffectResultUnavailable"
    [key, _] = refused["call"]["effects"]
    assert (key["outcome"], key["result_unavailable"]) == ("applied", "damaged")
    assert sum(daemon.world.changes("pair").values()) == 1


def _relaunched(daemon: Daemon, harm: Callable[[Path], None]) -> Document:
    """A handler that is killed after its first effect's large answer, resumed after `harm`."""
    api, world = daemon.api, daemon.world
    given = {"tag": "pair", "effects": ["key", "other"], "large": PAD, "meet": ["leave other"]}
    world.hold("pair leave other")
    accepted = api.dispatch("pair", given, "pair").ok()
    world.arrived("pair leave other")
    daemon.kill9()
    daemon.start()
    world.release()  # not sooner: it had leave, and a moment to live
    [blob] = files(daemon)
    harm(blob)
    api.resume(accepted["operation_id"], "again")
    return api.final(accepted["operation_id"])


@pytest.mark.guarantee("E8", "R10")
def test_a_blob_goes_when_nothing_names_it(daemon: Daemon) -> None:
    large(daemon, "kept")
    [named] = files(daemon)
    left = daemon.state / "blobs" / ("0" * 64)
    half = daemon.state / "blobs" / f"{named.name}.1-0.tmp"
    for one in (left, half):
        one.write_bytes(b"left")
    daemon.restart()
    wait_until(lambda: files(daemon) == [named], 30, "what nobody names is gone")


@pytest.mark.guarantee("R7")
def test_no_secret_is_in_a_blob(daemon: Daemon) -> None:
    secret = b"hunter2-and-a-long-tail"
    secrets = daemon.state / "secrets"
    secrets.mkdir()
    (secrets / "token").write_bytes(secret)
    daemon.add_program("leak", f"import os\nprint(os.environ['TOKEN'] + 'x' * {PAD})\n")
    daemon.add_handler(
        "leak",
        f'manifest = 1\ncommand = ["{daemon.programs}/leak"]\ntimeout_ms = 60_000\n'
        'read_only = true\nsecrets = ["token"]\nenv_from = { TOKEN = "token" }\n',
    )
    operation = daemon.api.dispatch("leak", {}, wait_ms=60_000).ok()
    [blob] = files(daemon)
    assert operation["result"].startswith("[secret hidden]x")
    assert secret not in blob.read_bytes()


def verified(directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "supervisor.cli", "journal", "verify", str(directory)]
    command += ["--require", "chain", *more]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.guarantee("E8", "J5")
def test_a_verification_names_the_results_that_are_lost(daemon: Daemon, tmp_path: Path) -> None:
    """Beside the daemon, behind a stop, and of a copy that has the journal alone."""
    small = daemon.api.dispatch("plain", {"large": 10}, "small", wait_ms=60_000).ok()
    assert "of its own" not in verified(daemon.state).stdout
    one, other = (large(daemon, tag) for tag in ("one", "other"))
    said = verified(daemon.state)
    assert said.returncode == 0
    assert "2 results are files of their own: each is what the journal says" in said.stdout

    by_operation = {
        operation["operation_id"]: daemon.state / "blobs" / digest
        for operation in (one, other)
        if (digest := operation["call"]["result_blob"]["digest"])
    }
    flip(by_operation[one["operation_id"]])
    by_operation[other["operation_id"]].unlink()
    assert daemon.stop() == 0
    said = verified(daemon.state)
    assert said.returncode == 2
    assert "2 results are files of their own, and 2 of them are lost" in said.stdout
    assert "the chain itself is intact" in said.stdout
    document = json.loads(verified(daemon.state, "-o", "json").stdout)
    assert document["verdict"] == "intact"
    assert document["results"]["files"] == 2
    lost = {each["operation_id"]: each["why"] for each in document["results"]["lost"]}
    assert lost == {one["operation_id"]: "damaged", other["operation_id"]: "missing"}
    assert small["operation_id"] not in lost

    alone = shutil.copytree(daemon.state / "journal", tmp_path / "journal")
    said = verified(alone)
    assert said.returncode == 0
    assert "2 results are files of their own, and there is no blobs/" in said.stdout

    daemon.start()  # and what is recorded as lost is no more to be missed
    for operation in (one, other):
        assert not daemon.api.final(operation["operation_id"])["call"]["result_available"]
    assert verified(daemon.state).returncode == 0


@pytest.fixture
def narrow() -> Iterator[Daemon]:
    """A daemon whose blobs have a file system of their own, with room for none."""
    with new_daemon() as made:
        made.state.mkdir(mode=0o700, exist_ok=True)
        with small_disk(made.state / "blobs", "size=16k"):
            made.start()
            yield made
            made.stop()


@pytest.mark.guarantee("E8")
def test_a_full_disk_under_a_blob_loses_a_value_and_no_outcome_and_heals(narrow: Daemon) -> None:
    api, blobs = narrow.api, narrow.state / "blobs"
    operation = large(narrow, "full")
    assert operation["state"] == "succeeded"
    assert operation["result"] is None
    call_id, effect_id = names(narrow, operation)
    effect = api.effect(effect_id)
    assert (effect["outcome"], effect["result_unavailable"]) == ("applied", "no_space")
    assert api.ask("GET", f"calls/{call_id}/result").code == "EffectResultUnavailable"
    assert "bytes was not kept: [Errno 28]" in narrow.log
    assert list(blobs.iterdir()) == []
    assert sum(narrow.world.changes("full").values()) == 1
    subprocess.run(["mount", "-o", "remount,size=1m", str(blobs)], check=True)
    made(large(narrow, "room"))
    narrow.restart()
    again = api.final(operation["operation_id"])
    assert (again["state"], again["result"]) == ("succeeded", None)
    assert sum(narrow.world.changes("full").values()) == 1
