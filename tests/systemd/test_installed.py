"""effectd on a booted Debian, installed by the commands of docs/install.md."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.systemd import instructions
from tests.systemd.machine import Machine
from tests.systemd.support import charge_and_stay, end_charges, knows

pytestmark = pytest.mark.timeout(600)  # the first one makes and boots the machine


def test_a_user_of_the_clients_group_calls_the_first_handler(service: Machine) -> None:
    call = instructions.commands("first-call")
    done = service.run("/bin/sh", "-c", call, user="ann")
    assert json.loads(done.out) == {"who": "world"}


def test_a_user_of_no_group_is_told_which_one_is_missing(service: Machine) -> None:
    done = service.run("effectctl", "status", user="bob", check=False)
    assert done.status != 0
    assert "effectd-clients" in done.out + done.err


def test_a_client_that_connects_starts_the_service(service: Machine) -> None:
    service.run("systemctl", "stop", "effectd.service")
    assert service.show("effectd.service", "ActiveState") == "inactive"
    assert service.show("effectd.socket", "ActiveState") == "active"
    answer = service.document("dispatch", "hello", "--input", '{"n": 1}', user="ann")
    assert answer["state"] == "succeeded"
    assert service.show("effectd.service", "ActiveState") == "active"


@pytest.mark.guarantee("S11")
def test_nobody_is_root_and_only_the_launcher_may_become_another(service: Machine) -> None:
    operation = charge_and_stay(service, "charge")
    try:
        main = int(service.show("effectd.service", "MainPID"))
        daemons, handlers = service.processes("effectd"), service.processes("effectd-run")
        ids = dict(
            line.split(":")[::2]
            for line in service.shell("getent passwd effectd effectd-run").splitlines()
            for line in [":".join(line.split(":")[:3])]
        )
        setuid_setgid = 1 << 7 | 1 << 6
        assert len(daemons) == 2
        launcher = next(pid for pid in daemons if pid != main)
        assert daemons[launcher]["PPid"] == str(main)
        assert int(daemons[main]["CapEff"], 16) == 0
        assert int(daemons[launcher]["CapEff"], 16) == setuid_setgid
        for process in daemons.values():
            assert int(process["CapBnd"], 16) == setuid_setgid
        # Everything else: templates, inits, handlers and what they started.
        assert len(handlers) >= 3
        for process in handlers.values():
            assert process["Uid"].split() == [ids["effectd-run"]] * 4
            assert process["Groups"].split() in ([], [ids["effectd-run"]])
        every = {**daemons, **handlers}
        assert all(process["NoNewPrivs"] == "1" for process in every.values())
        in_the_unit = service.shell(
            "cat $(find /sys/fs/cgroup/system.slice/effectd.service -name cgroup.procs)"
        )
        assert {int(pid) for pid in in_the_unit.split()} == set(every)
    finally:
        end_charges(service, operation)


@pytest.mark.guarantee("S11", "S4")
def test_a_handler_has_no_group_no_capability_and_no_way_to_the_daemon(service: Machine) -> None:
    uid, gid = (int(n) for n in service.shell("id -u effectd-run; id -g effectd-run").split())
    found = service.document("dispatch", "look", "--input", "{}", user="ann")["result"]
    assert (found["uid"], found["gid"]) == (uid, gid)
    assert (found["effective"], found["bounding"]) == ("0" * 16, "0" * 16)
    assert found["no_new_privs"] == "1"
    # The unit's own -900 would make the kernel kill everybody else first.
    assert int(found["oom_score_adj"]) > 0
    assert found["state"] == "No such file or directory"
    assert "HTTP/1.1 200" not in found["socket"]


@pytest.mark.guarantee("S11")
def test_a_handler_without_a_sandbox_is_refused_by_the_socket_itself(service: Machine) -> None:
    def socket_answer() -> str:
        return str(
            service.document("dispatch", "look-trusted", "--input", "{}")["result"]["socket"]
        )

    assert socket_answer() == "Permission denied"
    # And where somebody opened the socket to all: by what the peer is.
    service.shell("chmod 0666 /run/effectd/effectd.sock")
    try:
        answer = socket_answer()
    finally:
        service.shell("chmod 0660 /run/effectd/effectd.sock")
    assert answer.startswith("HTTP/1.1 403"), answer
    assert "AccessDenied" in answer


def test_what_is_private_is_private(service: Machine) -> None:
    paths = {
        "/var/lib/effectd": "700 effectd effectd",
        "/var/lib/effectd-witness": "700 effectd effectd",
        "/run/effectd-private": "700 effectd effectd",
        "/run/effectd": "755 root root",
        "/run/effectd/effectd.sock": "660 root effectd-clients",
    }
    for path, expected in paths.items():
        assert service.shell(f"stat -c '%a %U %G' {path}").strip() == expected, path
    opened = service.shell("find /var/lib/effectd -perm /077 -printf '%p %m\n'")
    assert opened == ""


def test_a_reload_takes_manifests_whole_or_not_at_all(service: Machine) -> None:
    later = "/etc/effectd/handlers.d/later.toml"
    try:
        service.write(later, 'manifest = 1\ncommand = ["/bin/true"]\ntimeout_ms = "soon"\n')
        assert service.run("systemctl", "reload", "effectd.service", check=False).status != 0
        assert "later.toml: timeout_ms" in service.journal("effectd.service", "-n", "5")
        # Who sends the signal without asking first finds the reason in the log.
        service.run("systemctl", "kill", "-s", "HUP", "--kill-who=main", "effectd.service")
        refused = "not reloaded, the old configuration stays in force"
        service.until(
            lambda: refused in service.journal("effectd.service", "-n", "3"), "it is refused"
        )
        assert service.show("effectd.service", "ActiveState") == "active"
        service.run("effectctl", "handlers", "show", "look")
        service.write(later, 'manifest = 1\ncommand = ["/bin/true"]\ntimeout_ms = 1_000\n')
        service.run("systemctl", "reload", "effectd.service")
        # SIGHUP is not waited for: it is done when the daemon says so.
        service.until(lambda: knows(service, "later"), "the new manifest is in force")
    finally:
        service.shell(f"rm {later}; systemctl reload effectd.service")


def test_the_exposure_is_what_the_page_says_and_each_reason_stands_in_the_unit(
    service: Machine,
) -> None:
    done = service.run(
        "systemd-analyze", "security", "--json=short", "--no-pager", "effectd.service"
    )
    text = (instructions.PAGE.parents[1] / "systemd" / "effectd.service").read_text()
    # Made by systemd for ProtectClock=, and not a setting of ours.
    implied = {"DeviceAllow="}
    for finding in json.loads(done.out):
        if finding["set"] or float(finding["exposure"] or 0) == 0:
            continue
        name = finding["name"].partition("=")[0]
        assert f"{name}=" in implied or any(part in text for part in name.split("/")), (
            f"{finding['name']} is off and the unit does not say why"
        )
    shown = service.run("systemd-analyze", "security", "--no-pager", "effectd.service").out
    (rated,) = re.findall(r"Overall exposure level for effectd.service: ([\d.]+)", shown)
    (said,) = re.findall(r"rates it\s+([\d.]+)", instructions.PAGE.read_text())
    # Other versions of systemd count other things.
    assert abs(float(rated) - float(said)) <= 0.3


def test_upgrading_keeps_the_journal_and_removing_leaves_what_the_page_names(
    service: Machine,
) -> None:
    known = service.document("dispatch", "hello", "--input", '{"n": 2}', user="ann")
    directory = "cd /root/effectd\n"
    service.shell(directory + instructions.commands("upgrade"), timeout_s=300)
    service.document("operations", "show", known["operation_id"])
    service.shell(instructions.commands("remove"))
    assert service.processes("effectd", "effectd-run") == {}
    left = service.shell(
        "find / -xdev '(' -path /proc -o -path /sys -o -path /root -o -path /srv ')' -prune"
        " -o -iname '*effectd*' -print -prune"
    )
    assert set(left.split()) == {"/etc/effectd", "/var/lib/effectd", "/var/lib/effectd-witness"}
    service.shell(directory + instructions.commands("install"), timeout_s=300)
    service.document("operations", "show", known["operation_id"])
    assert shlex.split(service.shell("systemctl is-enabled effectd.socket effectd.service")) == [
        "enabled", "enabled",
    ]  # fmt: skip
