"""A daemon with some of its layers taken away, and what one handler of it could do then.

usage: thinned.py [--without seccomp|landlock|namespaces]... [--cgroup ROOT]

Reads JSON: ``argv``, ``closure``, ``read``, ``hidden`` and ``stdin``. Prints what the handler
printed, and its layers, as JSON. What is taken away is refused from outside, as an old kernel or a
container would; namespaces are given up for a cgroup, as a handler may accept.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import trio

from sandbox import bpf, linux, seccomp
from sandbox.pool import Pool
from sandbox.spec import DEFAULT_ENVIRONMENT, LAYERS, Command, Ended, Spec, Started
from tests.sandbox.support import launched, read_all, refused_namespaces

PRCTL = {"x86_64": 157, "aarch64": 167}[os.uname().machine]
PR_SET_SECCOMP = 22
LANDLOCK_CREATE_RULESET = 444


def refuse(layers: list[str]) -> None:
    """Have the kernel answer from now on as if it had none of these."""
    block = bpf.ALLOW
    if "landlock" in layers:
        block = bpf.equal(LANDLOCK_CREATE_RULESET, bpf.fails(errno.ENOSYS), block)
    if "seccomp" in layers:
        fails = bpf.low(0, bpf.equal(PR_SET_SECCOMP, bpf.fails(errno.EINVAL), bpf.ALLOW))
        block = bpf.equal(PRCTL, fails, block)
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    seccomp.take(bpf.assemble(bpf.load(bpf.NUMBER_AT, block)))
    seccomp.enforce()


async def main(given: dict[str, Any], without: list[str], cgroup: Path | None) -> None:
    accepted = set(without) & {"seccomp", "landlock"}
    if "namespaces" in without:
        accepted |= set(LAYERS)
        Pool.take = refused_namespaces  # type: ignore[method-assign]  # this process is for that
    spec = Spec(
        closure=tuple(given["closure"]),
        read=tuple(given["read"]),
        hidden=tuple(given["hidden"]),
        accept_missing=tuple(sorted(accepted)),
        tasks_max=1_000,
    )
    async with launched(cgroup_root=cgroup) as launcher:
        sandbox = await launcher.prepare(spec)
        try:
            command = Command(
                tuple(given["argv"]), DEFAULT_ENVIRONMENT, stdin=given["stdin"].encode()
            )
            started = await sandbox.dispatch(command)
            assert isinstance(started, Started), started
            out = await read_all(sandbox.stdout)
            err = await read_all(sandbox.stderr)
            end = await sandbox.leader_exited()
            assert isinstance(end, Ended), end
            assert end.status == 0, err.decode()
            print(json.dumps({"found": json.loads(out), "layers": sandbox.layers}))
        finally:
            await sandbox.discard()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--cgroup", type=Path)
    options = parser.parse_args()
    refuse(options.without)
    trio.run(main, json.load(sys.stdin), options.without, options.cgroup)
