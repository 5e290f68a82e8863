"""Results that are too large for their records: files of their own, by digest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.support.api import Document
from tests.e2e.support.daemon import Daemon
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
    world.release()
    daemon.start()
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
