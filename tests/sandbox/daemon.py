"""Small daemons to be killed, forked one after another from a process that has loaded all.

Each line of stdin is a JSON list: ``settled`` or ``burst``, then commands. The daemon prints its
pid, its launcher's pid, starts each command in a sandbox of its own and prints ``ready``. A
``settled`` one waits until each has said ``ready``; a ``burst`` prints it as soon as its
launcher works, and prepares one more sandbox, never used, before each. When it is dead, ``reaped``
is printed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import trio

from sandbox.client import Launcher
from sandbox.spec import DEFAULT_ENVIRONMENT, Command, Spec, Started
from tests.sandbox.support import IDS, read_line


async def main(launcher: Launcher, burst: bool, commands: list[tuple[str, ...]]) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        print(launcher.pid, flush=True)
        kept = []
        if burst:
            kept.append(await launcher.prepare(Spec()))
            print("ready", flush=True)
        for argv in commands:
            if burst:
                kept.append(await launcher.prepare(Spec(closure=(argv[0],))))
            sandbox = await launcher.prepare(Spec(closure=(argv[0],)))
            kept.append(sandbox)
            assert isinstance(await sandbox.dispatch(Command(argv, DEFAULT_ENVIRONMENT)), Started)
            if not burst:
                await read_line(sandbox.stdout)
        print("ready", flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    for line in sys.stdin:
        how, *commands = json.loads(line)
        if (child := os.fork()) == 0:
            print(os.getpid(), flush=True)
            started = Launcher.start(**IDS)
            trio.run(main, started, how == "burst", [tuple(argv) for argv in commands])
        os.waitpid(child, 0)
        print("reaped", flush=True)
