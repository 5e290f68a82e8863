"""Small daemons to be killed, forked one after another from a process that has loaded all.

Each line of stdin is a JSON object: ``how`` is ``settled``, ``burst`` or ``birth``, ``modes`` are
those of the adversary ``program``, with ``tag``, and pages in ``folder``. The daemon prints its pid
and its launcher's, then ``ready``. A ``settled`` one says so when each adversary has set up its
tree. The others prepare two sandboxes for each, one of them for nobody: a ``birth`` says so before
the first template is asked for, a ``burst`` when the first sandbox is there. When the daemon is
dead, ``reaped`` is printed.

Whoever is orphaned becomes a child of this process, and so none can be missed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import trio

from sandbox.client import Launcher
from sandbox.spec import SandboxFault
from tests.sandbox.adversaries.crowd import Crowd, Pages, gathered
from tests.sandbox.support import IDS


async def main(launcher: Launcher, asked: dict[str, Any]) -> None:
    crowd = Crowd(launcher, asked["program"], Pages(Path(asked["folder"])), asked["tag"])
    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        print(launcher.pid, flush=True)
        if asked["how"] == "settled":
            async with gathered(crowd, tuple(asked["modes"]), "30000"):
                print("ready", flush=True)
                await trio.sleep_forever()
        kept: list[object] = []
        if asked["how"] == "burst":
            kept.append(await launcher.prepare(crowd.spec("")))
        print("ready", flush=True)
        # Whoever's launcher was killed has no more to do than to wait for its own end.
        with contextlib.suppress(SandboxFault, AssertionError):
            for mode in asked["modes"]:
                for_nobody, sandbox = [await launcher.prepare(crowd.spec(mode)) for _ in range(2)]
                kept += [for_nobody, await crowd.dispatch(sandbox, mode, "30000")]
        await trio.sleep_forever()


def become_subreaper() -> None:
    prctl: Any = importlib.import_module("prctl")  # python-prctl has no types
    prctl.set_child_subreaper(1)


if __name__ == "__main__":
    become_subreaper()
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            print(os.getpid(), flush=True)
            started = Launcher.start(**IDS)
            trio.run(main, started, json.loads(line))
        os.waitpid(child, 0)
        while True:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                break
        print("reaped", flush=True)
