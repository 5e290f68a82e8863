"""A daemon as systemd starts it: an ordinary uid with two ambient capabilities.

usage: service.py HANDLER_UID. Prints as JSON what its handlers are, before and after its launcher
was killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import trio

from sandbox import group
from sandbox.client import Launcher
from sandbox.protect import protect_daemon
from sandbox.spec import DEFAULT_ENVIRONMENT, Command, Ended, Spec, Started
from tests.sandbox.support import poll, read_line


async def main(launcher: Launcher) -> None:
    found = []
    async with trio.open_nursery() as nursery:
        await nursery.start(launcher.run)
        for last in (False, True):
            sandbox = await launcher.prepare(Spec())
            command = Command(("/bin/sh", "-c", "id -u; exec sleep 60"), DEFAULT_ENVIRONMENT)
            assert isinstance(await sandbox.dispatch(command), Started)
            uid = int(await read_line(sandbox.stdout))
            end = await group.end(sandbox, grace_ms=1_000, ask=True)
            assert isinstance(end, Ended)
            unused = await launcher.prepare(Spec())
            found.append({"uid": uid, "layers": sandbox.layers, "kill": await unused.kill()})
            await sandbox.aclose()
            await unused.aclose()
            first = launcher.pid
            if not last:
                os.kill(first, signal.SIGKILL)
                await poll(lambda gone=first: launcher.pid != gone)
        await launcher.close()
    print(json.dumps(found))


if __name__ == "__main__":
    uid = int(sys.argv[1])
    started = Launcher.start(handler_uid=uid, handler_gid=uid)
    protect_daemon()
    trio.run(main, started)
