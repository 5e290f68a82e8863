"""A process in an environment that refuses things, and what a daemon would meet there, as JSON.

usage: refused.py [--user-namespaces] [--answer CALL=ERRNO|kill]... [--accept LAYER]...
                  [--cgroup ROOT]

With ``--user-namespaces`` none can be made inside its own; it says "unshared" and waits for its id
maps (a line on stdin). ``--answer`` puts a filter around everything: the call of that number
(``NUMBER`` or ``NUMBER:FIRST_ARGUMENT``) fails, as on an older kernel or in a container, or
``kill``s the caller, as under a unit's SystemCallFilter=.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import attrs
import trio

from sandbox import bpf, linux, seccomp
from sandbox.client import Launcher
from sandbox.probe import probe
from sandbox.spec import SandboxUnavailable, Spec
from tests.sandbox.support import IDS, launched, run_to_end

CLONE_NEWUSER = 0x10000000


async def attempt(launcher: Launcher, accepted: tuple[str, ...]) -> dict[str, object]:
    """What comes of one sandbox: a refusal, or the layers and what is seen from inside."""
    spec = Spec(accept_missing=accepted, tasks_max=600)
    try:
        sandbox = await launcher.prepare(spec)
        layers = list(sandbox.layers)
        await sandbox.discard()
        argv = ("/bin/grep", "-E", "^(NoNewPrivs|Seccomp_filters):", "/proc/self/status")
        end, out, _ = await run_to_end(launcher, argv, spec=spec)
    except SandboxUnavailable as error:
        return {"refused": [error.layer, error.cause, error.remedy]}
    inside = dict(line.split(":\t") for line in out.decode().splitlines())
    return {"layers": layers, "end": attrs.asdict(end), "inside": inside}


async def main(root: Path | None, accepted: tuple[str, ...]) -> dict[str, object]:
    async with launched(cgroup_root=root) as launcher:
        found: dict[str, object] = {"strict": await attempt(launcher, ())}
        if accepted:
            found["accepted"] = await attempt(launcher, accepted)
    layers = probe(**IDS, cgroup_root=root)
    found["probe"] = {layer.name: [layer.state, layer.cause, layer.remedy] for layer in layers}
    return found


def answering(answers: list[str]) -> bytes:
    """A program that fails these calls and lets all others through."""
    block = bpf.ALLOW
    for answer in answers:
        call, _, number = answer.partition("=")
        name, _, first = call.partition(":")
        fails = bpf.KILL if number == "kill" else bpf.fails(int(number))
        if first:
            fails = bpf.low(0, bpf.equal(int(first), fails, bpf.ALLOW))
        block = bpf.equal(int(name), fails, block)
    return bpf.assemble(bpf.load(bpf.NUMBER_AT, block))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--user-namespaces", action="store_true")
    parser.add_argument("--answer", action="append", default=[])
    parser.add_argument("--accept", action="append", default=[])
    parser.add_argument("--cgroup", type=Path)
    given = parser.parse_args()
    if given.user_namespaces:
        assert ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) == 0
        print("unshared", flush=True)
        sys.stdin.readline()
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
    if given.answer:
        if os.getuid() != 0:  # else it needs no permission, and shows what root would meet
            linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
        seccomp.take(answering(given.answer))
        seccomp.enforce()
    print(json.dumps(trio.run(main, given.cgroup, tuple(given.accept))))
