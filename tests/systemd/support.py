"""What several of these tests do with the handlers that they install."""

from __future__ import annotations

import json

from tests.systemd.machine import Machine

PROVIDER = "/srv/provider"
UNIT = "/sys/fs/cgroup/system.slice/effectd.service"

# Runs inside, because a process for each look would be too slow: sends SIGKILL to what it is
# told to and prints how long the others of these users stayed, in milliseconds.
_KILL_AND_TIME = """
import os, pwd, signal, sys, time

users = {pwd.getpwnam(name).pw_uid for name in ("effectd", "effectd-run")}
whom = sys.argv[1]

def processes():
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = open(f"/proc/{pid}/status").read()
            argv = open(f"/proc/{pid}/cmdline").read()
        except OSError:
            continue
        fields = dict(line.split(":\\t", 1) for line in status.splitlines() if ":\\t" in line)
        if int(fields["Uid"].split()[0]) in users and not fields["State"].startswith("Z"):
            found[int(pid)] = argv
    return found

before = processes()
main = int(sys.argv[2])
deaf = {pid for pid, argv in before.items() if "charge.py" in argv}
assert len(deaf) >= 2, before
launcher = {pid for pid, argv in before.items() if "sandbox.launcher" in argv}
victims = {
    "daemon": {main},
    "launcher": launcher,
    "daemon and launcher": {main} | launcher,
    "all but the handler": set(before) - deaf,
}[whom]
started = time.monotonic()
for pid in victims:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # its parent's death took it along
stayed = deaf
while stayed and time.monotonic() < started + 30:
    stayed = deaf & set(processes())
    time.sleep(0.002)
print(round(1000 * (time.monotonic() - started)) if not stayed else "for ever")
"""


def charge_and_stay(machine: Machine, handler: str, user: str = "ann") -> str:
    """Dispatch a charge that is made and never confirmed; the operation's id."""
    known = set(machine.shell(f"ls {PROVIDER}").split())
    started = machine.document("dispatch", handler, "-d", "--input", '{"stay": true}', user=user)
    machine.until(
        lambda: set(machine.shell(f"ls {PROVIDER}").split()) - known, "the provider has the charge"
    )
    operation = started["operation_id"]
    assert isinstance(operation, str)
    return operation


def knows(machine: Machine, handler: str) -> bool:
    """Whether the daemon has this handler."""
    return machine.run("effectctl", "handlers", "show", handler, check=False).status == 0


def end_charges(machine: Machine, *operations: str) -> None:
    """Whatever state they are in by now; a cancel ends what still runs."""
    for operation in operations:
        machine.run("effectctl", "operations", "cancel", operation, "--reason", "x", check=False)
    machine.shell(f"rm -f {PROVIDER}/*")


def kill_and_time_ms(machine: Machine, whom: str) -> int:
    """SIGKILL to the daemon's own processes; how long its handlers lived on. `whom` is daemon,
    launcher, both, or everything of the unit's but the handler and its grandchild."""
    main = machine.show("effectd.service", "MainPID")
    done = machine.run("/usr/bin/python3", "-I", "-", whom, main, text=_KILL_AND_TIME)
    found = json.loads(done.out)
    assert isinstance(found, int), done.out
    return found
