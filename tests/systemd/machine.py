"""A machine with a booted systemd, as the tests see one, whatever it is made of."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import attrs


@attrs.frozen
class Done:
    """How a command ended inside."""

    argv: tuple[str, ...]
    status: int
    out: str
    err: str

    def checked(self) -> str:
        """Its output; an AssertionError with all that it said when it failed."""
        assert self.status == 0, f"{' '.join(self.argv)}: {self.status}\n{self.out}\n{self.err}"
        return self.out


class Machine(ABC):
    """Runs commands as root, or as one of its users, and knows a few nouns of systemd's."""

    @abstractmethod
    def execute(self, argv: Sequence[str], text: str, timeout_s: float) -> Done:
        """Run a command inside as root, with `text` as its input, to its end."""

    def run(
        self, *argv: str, user: str = "", text: str = "", timeout_s: float = 60, check: bool = True
    ) -> Done:
        """Run a command as `user`, by default root."""
        command = ("runuser", "-u", user, "--", *argv) if user else argv
        done = self.execute(command, text, timeout_s)
        if check:
            done.checked()
        return done

    def shell(self, script: str, **how: Any) -> str:
        """What a script prints; it stops at the first command that fails."""
        return self.run("/bin/sh", "-euc", script, **how).out

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        script = f'mkdir -p "$(dirname {path})"; cat > {path}; chmod {mode:o} {path}'
        self.run("/bin/sh", "-euc", script, text=text)

    def show(self, unit: str, name: str) -> str:
        """A property of a unit."""
        return self.run("systemctl", "show", "-P", name, unit).out.strip()

    def journal(self, unit: str, *arguments: str) -> str:
        """What a unit said, and systemd about it."""
        return self.run("journalctl", "--no-pager", "-o", "cat", "-u", unit, *arguments).out

    def document(self, *argv: str, user: str = "root", expect: int = 0) -> Any:
        """The JSON that effectctl prints, run by `user`; it ends with the status `expect`."""
        done = self.run("effectctl", *argv, "-o", "json", user=user, check=False)
        assert done.status == expect, (done.argv, done.status, done.out, done.err)
        return json.loads(done.out)

    def until(self, holds: Callable[[], object], what: str, seconds: float = 60) -> None:
        """Wait until something holds, by asking again; each question costs a process."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"after {seconds} s still not: {what}"
            time.sleep(0.05)

    def processes(self, *users: str) -> dict[int, dict[str, str]]:
        """What each process of these users is, by pid: the lines of /proc/PID/status.

        Kept short on purpose: the tests compare identities, not names.
        """
        script = f"""
import json, os, pwd
wanted = {{pwd.getpwnam(name).pw_uid for name in {users!r}}}
found = {{}}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        lines = open(f"/proc/{{pid}}/status").read().splitlines()
        cgroup = open(f"/proc/{{pid}}/cgroup").read().strip().splitlines()[-1]
        argv = open(f"/proc/{{pid}}/cmdline").read().replace("\\0", " ").strip()
    except OSError:
        continue
    status = dict(line.split(":\\t", 1) for line in lines if ":\\t" in line)
    if int(status["Uid"].split()[0]) in wanted and not status["State"].startswith("Z"):
        found[pid] = {{**status, "cgroup": cgroup, "argv": argv}}
print(json.dumps(found))
"""
        found = json.loads(self.run("/usr/bin/python3", "-I", "-", text=script).out)
        return {int(pid): status for pid, status in found.items()}
