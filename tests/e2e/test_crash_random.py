"""The daemon is killed at random moments under load, again and again, and held to its word."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.support.clients import Clients, every
from tests.e2e.support.daemon import GONE_S, Daemon
from tests.e2e.support.settle import settle

KILLS = 40 if os.environ.get("CI") == "true" else 12
# A kill comes when so many effects were made in its round, and a moment later; from before the
# first frame to the middle of many handlers, however fast the machine is.
EFFECTS_MOST = 12
MOMENT_S = 0.05
NEVER_LATER_S = 10.0
ONCE = {"reconciliation", "no_safe_retry", "idempotency_key"}


def seed_of_this_run() -> int:
    """EFFECTD_SEED repeats the choices of a run that failed."""
    return int(os.environ.get("EFFECTD_SEED") or random.SystemRandom().randrange(2**32))


@pytest.mark.guarantee("B1", "E1", "E6", "E9", "J1", "R1", "R8", "R9", "R11", "S2")
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kills", [KILLS, pytest.param(200, marks=pytest.mark.long)])
def test_killed_at_random_under_load_nothing_is_repeated_lost_or_left_alive(
    daemon: Daemon, kills: int
) -> None:
    seed = seed_of_this_run()
    print(f"EFFECTD_SEED={seed}")
    chance = random.Random(seed)
    clients = Clients(daemon.api, daemon.world, seed)
    for _ in range(kills):
        clients.run(lambda: kill_in_the_middle(daemon, chance))
        daemon.gone(within_s=GONE_S)
        daemon.start()
        assert_nothing_runs(daemon)
        assert_every_word_was_kept(daemon, clients)
    clients.settle_doubts()
    assert_all_come_to_their_end(daemon, clients)
    assert clients.heard.faults == []


def kill_in_the_middle(daemon: Daemon, chance: random.Random) -> None:
    daemon.world.traffic(chance.randint(0, EFFECTS_MOST), NEVER_LATER_S)
    time.sleep(chance.random() * MOMENT_S)
    daemon.kill9()


def assert_nothing_runs(daemon: Daemon) -> None:
    """Right after a restart: zero spawns, and nobody is said to run."""
    assert daemon.handler_processes() == []
    counts = daemon.api.status()["counts"]
    assert (counts["running"], counts["queued"]) == (0, 0)
    assert not {"running", "accepted"} & set(counts["operations"]), counts


def assert_every_word_was_kept(daemon: Daemon, clients: Clients) -> None:
    """What was acknowledged exists, what was recorded is applied, every gap is *unknown*."""
    operations = {one["operation_id"]: one for one in every(daemon.api, "operations")}
    for request in clients.heard.requests:
        if request.operation_id is not None:
            known = operations[request.operation_id]
            assert known["request_id"] == request.body["request_id"]
    for one, state in clients.heard.terminal.items():
        assert operations[one]["state"] == state
    effects = {one["effect_id"]: one for one in every(daemon.api, "effects")}
    for one in daemon.world.recorded():
        assert effects[one]["outcome"] == "applied"
    for one, made in daemon.world.everything().items():
        assert effects[one]["outcome"] in {"applied", "unknown"}, effects[one]
        assert made == 1 or effects[one]["contract"] not in ONCE, effects[one]
    made_up = [
        one
        for one in effects.values()
        if one["outcome"] == "applied" and not daemon.world.made(one["effect_id"])
    ]
    assert made_up == []
    assert Counter(one["outcome"] for one in effects.values())["announced"] == 0


def assert_all_come_to_their_end(daemon: Daemon, clients: Clients) -> None:
    """Everything can be settled, and is then what the world says."""
    ids = [one["operation_id"] for one in every(daemon.api, "operations")]
    with ThreadPoolExecutor(4) as threads:
        ends = list(threads.map(lambda one: settle(daemon.api, daemon.world, one), ids))
    for done in ends:
        assert done["state"] == "succeeded", done
        clients.heard.saw(done)
        for effect in done["call"]["effects"]:
            made = daemon.world.made(effect["effect_id"])
            assert effect["outcome"] == "applied"
            assert made == 1 or (made > 1 and effect["contract"] not in ONCE), effect
    known = {one["request_id"] for one in every(daemon.api, "operations")}
    assert known == {request.body["request_id"] for request in clients.heard.requests}
    assert daemon.handler_processes() == []
