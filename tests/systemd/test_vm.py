"""With a kernel of its own: the controllers, Landlock and AppArmor of a plain Debian.

Where KVM cannot run its kernel the machine is emulated, so nothing here measures time.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.systemd.machine import Machine
from tests.systemd.support import UNIT, charge_and_stay, end_charges

pytestmark = [pytest.mark.long, pytest.mark.timeout(1_800)]

MIB = 1 << 20


def greedy(machine: Machine, given: str, expect: int = 0) -> dict[str, Any]:
    """The attempt of a dispatch of the handler that takes what it is told to."""
    done = machine.document("dispatch", "greedy", "--input", given, user="ann", expect=expect)
    attempt = done["call"]["attempts"][-1]
    assert isinstance(attempt, dict)
    return attempt


def test_it_came_up_by_itself_with_every_layer(virtual: Machine) -> None:
    assert virtual.show("effectd.service", "ActiveState") == "active"
    assert virtual.show("effectd.service", "NRestarts") == "0"
    doctor = virtual.run("effectctl", "doctor", check=False)
    for layer in ("cgroup", "memory", "tasks", "uid", "landlock", "seccomp"):
        assert f"✓ {layer}:" in doctor.out, doctor.out
    assert doctor.status == 0, doctor.out


def test_the_controllers_are_handed_down_and_the_supervisor_is_outside(virtual: Machine) -> None:
    handed = virtual.shell(f"cat {UNIT}/runs/cgroup.subtree_control").split()
    assert {"memory", "pids"} <= set(handed)
    main = virtual.show("effectd.service", "MainPID")
    assert virtual.shell(f"cat /proc/{main}/cgroup").strip().endswith("effectd.service/supervisor")


@pytest.mark.guarantee("S11")
def test_a_handler_of_another_uid_is_born_in_its_own_cgroup(virtual: Machine) -> None:
    operation = charge_and_stay(virtual, "charge")
    try:
        found = virtual.processes("effectd-run").values()
        stay = [one for one in found if "charge.py" in one["argv"]]
        assert len(stay) == 2
        assert len({one["cgroup"] for one in stay}) == 1
        assert "/effectd.service/runs/slot-" in stay[0]["cgroup"]
        outside = [one for one in found if "/effectd.service/" not in one["cgroup"]]
        assert outside == []
    finally:
        end_charges(virtual, operation)
    assert "charge.py" not in str(virtual.processes("effectd-run"))


@pytest.mark.guarantee("S6")
def test_too_much_memory_ends_that_attempt_alone_and_is_told(virtual: Machine) -> None:
    operation = charge_and_stay(virtual, "charge")
    try:
        attempt = greedy(virtual, f'{{"memory": {200 * MIB}}}', expect=1)
        assert (attempt["outcome"], attempt["code"]) == ("failed", "LimitExceeded")
        assert "memory" in attempt["layers"]
        assert attempt["usage"]["limit"] == "memory"
        assert "memory_max" in attempt["detail"]
        assert 32 * MIB < attempt["usage"]["memory_peak_bytes"] <= 64 * MIB
        assert attempt["proven_dead"]
        # Its neighbour and the daemon live.
        assert "charge.py" in str(virtual.processes("effectd-run"))
        assert virtual.show("effectd.service", "NRestarts") == "0"
    finally:
        end_charges(virtual, operation)


@pytest.mark.guarantee("S6")
def test_processes_are_counted_and_bounded_by_the_kernel(virtual: Machine) -> None:
    attempt = greedy(virtual, '{"tasks": 100}')
    assert "tasks" in attempt["layers"]
    assert 12 <= attempt["usage"]["tasks_peak"] <= 18
    assert attempt["leftovers_killed"] >= 12


@pytest.mark.guarantee("S6")
def test_cpu_time_is_that_of_the_whole_tree(virtual: Machine) -> None:
    attempt = greedy(virtual, '{"cpu_ms": 1500}')
    assert 1_500 <= attempt["usage"]["cpu_ms"] < 60_000


@pytest.mark.guarantee("S1")
def test_without_namespaces_the_cgroup_ends_the_tree(virtual: Machine) -> None:
    operation = charge_and_stay(virtual, "charge-trusted")
    shown = virtual.run(
        "effectctl", "operations", "cancel", operation, "--reason", "x", check=False
    )
    assert shown.status in {0, 6, 9}, shown
    assert "charge.py" not in str(virtual.processes("effectd-run"))
    end_charges(virtual, operation)


def test_a_unit_that_names_a_profile_which_is_not_loaded_still_starts(virtual: Machine) -> None:
    assert virtual.shell("cat /sys/module/apparmor/parameters/enabled").strip() == "Y"
    main = virtual.show("effectd.service", "MainPID")
    assert virtual.shell(f"cat /proc/{main}/attr/current").strip() == "unconfined"


@pytest.mark.guarantee("S2")
def test_a_stop_leaves_nothing(virtual: Machine) -> None:
    operation = charge_and_stay(virtual, "charge")
    virtual.run("systemctl", "stop", "effectd.service")
    assert virtual.processes("effectd", "effectd-run") == {}
    assert virtual.run("test", "-e", UNIT, check=False).status == 1
    virtual.run("systemctl", "start", "effectd.service")
    end_charges(virtual, operation)
