"""How the service ends: killed, stopped, hung, failing; and what is left of it then."""

from __future__ import annotations

import subprocess

import pytest

from tests.systemd.machine import Machine
from tests.systemd.support import PROVIDER, UNIT, charge_and_stay, end_charges, kill_and_time_ms

# Long before TimeoutStopSec, and later than on any machine that is merely busy: what is killed
# with the daemon is gone within milliseconds.
LATE_MS = 15_000

pytestmark = pytest.mark.timeout(600)  # the first one makes and boots the machine


def main_pid(machine: Machine) -> int:
    return int(machine.show("effectd.service", "MainPID"))


def wait_for_another(machine: Machine, gone: int) -> None:
    machine.until(
        lambda: (
            machine.show("effectd.service", "ActiveState") == "active"
            and main_pid(machine) not in {0, gone}
        ),
        "systemd started it again",
        90,
    )


@pytest.mark.guarantee("S2")
@pytest.mark.parametrize("whom", ["daemon", "launcher", "daemon and launcher"])
def test_handlers_die_with_what_started_them(service: Machine, whom: str) -> None:
    operation, gone = charge_and_stay(service, "charge"), main_pid(service)
    try:
        assert kill_and_time_ms(service, whom) < LATE_MS
        if whom != "launcher":
            wait_for_another(service, gone)
    finally:
        end_charges(service, operation)


@pytest.mark.guarantee("S2")
def test_where_only_systemd_is_left_to_kill_it_does_so_at_once(service: Machine) -> None:
    """Without namespaces no death of ours takes the handler along, and it is deaf to SIGTERM:
    by KillMode=control-group it would live for the whole TimeoutStopSec."""
    operation, gone = charge_and_stay(service, "charge-trusted"), main_pid(service)
    try:
        assert kill_and_time_ms(service, "all but the handler") < LATE_MS
        wait_for_another(service, gone)
    finally:
        end_charges(service, operation)


@pytest.mark.guarantee("R1", "E4")
def test_a_killed_daemon_comes_back_and_the_effect_is_made_once(service: Machine) -> None:
    operation, gone = charge_and_stay(service, "charge"), main_pid(service)
    try:
        service.run("kill", "-KILL", str(gone))
        wait_for_another(service, gone)
        found = service.document("operations", "recovery", operation, user="ann")
        assert "resume" in found["allowed_actions"]
        assert [effect["verdict"] for effect in found["effects"]] == ["retry"]
        # A restart resumes nothing by itself.
        assert service.shell(f"cat {PROVIDER}/*") == "requested\n"
        done = service.document("operations", "resume", operation, user="ann")
        assert done["state"] == "succeeded"
        assert done["result"] == {"requests": 2}
        # Asked twice, with one key: one charge.
        assert service.shell(f"ls {PROVIDER} | wc -l").strip() == "1"
    finally:
        end_charges(service, operation)


@pytest.mark.guarantee("S2", "R14")
def test_a_stop_under_load_leaves_nothing_but_the_socket(service: Machine) -> None:
    operations = [charge_and_stay(service, "charge") for _ in range(4)]
    try:
        service.run("systemctl", "stop", "--no-block", "effectd.service")
        service.until(
            lambda: service.show("effectd.service", "SubState") == "stop-sigterm", "it stops"
        )
        # Refused as harmless, or waiting in the socket's queue until the service is back.
        ask = ["dispatch", "hello", "--input", "{}", "--request-id", "while-stopping"]
        during = service.run("effectctl", *ask, user="ann", check=False, timeout_s=90)
        assert during.status in {0, 75}, during
        service.until(
            lambda: service.show("effectd.service", "ActiveState") in {"inactive", "active"},
            "it has stopped",
            60,
        )
        assert service.show("effectd.service", "Result") == "success"
        if during.status == 75:
            assert service.processes("effectd", "effectd-run") == {}
            assert service.run("test", "-e", UNIT, check=False).status == 1
            assert service.show("effectd.service", "ActiveState") == "inactive"
        assert service.show("effectd.socket", "ActiveState") == "active"
        answer = service.document(*ask, user="ann")
        assert answer["state"] == "succeeded"
        for operation in operations:
            shown = service.document("operations", "show", operation)
            assert shown["state"] == "unknown"
    finally:
        end_charges(service, *operations)


@pytest.mark.guarantee("S1")
def test_attempts_leave_no_cgroup_behind(service: Machine) -> None:
    for number in range(5):
        service.document("dispatch", "hello", "--input", f'{{"n": {number}}}', user="ann")
    operation = charge_and_stay(service, "charge")
    end_charges(service, operation)

    def empty() -> list[str]:
        """Cgroups for processes without one. `runs` itself may be empty."""
        script = f"cd {UNIT}; grep -l 'populated 0' $(find . -name cgroup.events) || true"
        found = [path.removesuffix("/cgroup.events") for path in service.shell(script).split()]
        return [path for path in found if path not in {"./runs", "."}]

    service.until(lambda: not empty(), "every cgroup that is left holds a process")
    slots = service.shell(f"find {UNIT}/runs -mindepth 1 -type d").split()
    # Sandboxes kept ready, and what they are forked from: bounded, however many attempts ran.
    assert len(slots) <= 8 + 8


def test_a_daemon_that_hangs_is_replaced(service: Machine) -> None:
    """systemd asks for a sign of life every WatchdogSec, here a second."""
    drop_in = "/run/systemd/system/effectd.service.d/watchdog.conf"
    service.write(drop_in, "[Service]\nWatchdogSec=1s\n")
    try:
        service.shell("systemctl daemon-reload; systemctl restart effectd.service")
        gone = main_pid(service)
        service.run("kill", "-STOP", str(gone))
        wait_for_another(service, gone)
        assert "Watchdog timeout" in service.journal("effectd.service", "-n", "60")
    finally:
        service.shell(f"rm {drop_in}; systemctl daemon-reload; systemctl restart effectd.service")


def test_a_wrong_configuration_is_a_failure_and_not_a_loop(service: Machine) -> None:
    """Exit status 78: another start changes nothing."""
    restarts = service.show("effectd.service", "NRestarts")
    service.shell("cp /etc/effectd/effectd.toml /root/kept.toml")
    service.write("/etc/effectd/effectd.toml", "drain_ms = 'soon'\n")
    try:
        done = service.run("systemctl", "restart", "effectd.service", check=False)
        assert done.status != 0
        assert service.show("effectd.service", "ActiveState") == "failed"
        assert service.show("effectd.service", "ExecMainStatus") == "78"
        assert service.show("effectd.service", "NRestarts") in {"0", restarts}
        log = service.journal("effectd.service", "-n", "20")
        assert "effectd.toml" in log
        assert "drain_ms" in log
    finally:
        service.shell("mv /root/kept.toml /etc/effectd/effectd.toml")
        service.shell("systemctl reset-failed; systemctl restart effectd.service")


def test_what_never_starts_is_given_up_with_its_socket_and_clients_hear_it(
    service: Machine,
) -> None:
    drop_in = "/run/systemd/system/effectd.service.d/broken.conf"
    # RestartSec= as short as can be: what is tried here is the limit and what follows from it.
    broken = "[Service]\nExecStart=\nExecStart=/bin/false\nRestartSec=1ms\nRestartSteps=0\n"
    service.write(drop_in, broken)
    try:
        service.shell("systemctl daemon-reload; systemctl stop effectd.service")
        service.run("effectctl", "status", user="ann", check=False)
        service.until(
            lambda: service.show("effectd.socket", "Result") == "service-start-limit-hit",
            "systemd has given up",
            60,
        )
        assert service.show("effectd.service", "ActiveState") == "failed"
        done = service.run("effectctl", "status", user="ann", check=False)
        assert done.status == 3
        assert "nobody listens" in done.out + done.err
    finally:
        service.shell(f"rm {drop_in}; systemctl daemon-reload")
        service.shell("systemctl reset-failed effectd.service effectd.socket")
        service.shell("systemctl start effectd.socket effectd.service")


def test_a_stop_by_force_is_still_bounded(service: Machine) -> None:
    """A daemon that does not even hear SIGTERM gets SIGKILL at TimeoutStopSec, all with it."""
    operation = charge_and_stay(service, "charge")
    drop_in = "/run/systemd/system/effectd.service.d/short.conf"
    service.write(drop_in, "[Service]\nTimeoutStopSec=1s\nWatchdogSec=0\n")
    try:
        service.run("systemctl", "daemon-reload")
        service.run("kill", "-STOP", str(main_pid(service)))
        try:
            service.run("systemctl", "stop", "effectd.service", timeout_s=30)
        except subprocess.TimeoutExpired:
            pytest.fail("the stop took more than 30 s")
        assert service.processes("effectd", "effectd-run") == {}
    finally:
        service.shell(f"rm {drop_in}; systemctl daemon-reload")
        service.run("systemctl", "start", "effectd.service")
        end_charges(service, operation)
