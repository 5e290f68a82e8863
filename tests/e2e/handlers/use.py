"""A handler for tests that uses as much of one thing as it gets, and tells how much that was.

input: {"do": WHAT}. `cpu` and `deaf cpu` count for ever; `file` lets one file grow; `space` and
`inodes` fill /tmp; `tasks` forks; `memory` fills memory; `child memory` lets a child do it and
goes on; `orphans` uses processor time in processes that nobody waits for; `nothing` does nothing.
With `bytes` or `seconds` it stops there. Its result is {"errno": E, "count": N}.
"""

import errno
import json
import os
import signal
import sys
import time

MIB = 1 << 20


def until_refused(step):
    count = 0
    try:
        while True:
            step(count)
            count += 1
    except OSError as refusal:
        return {"errno": errno.errorcode[refusal.errno], "count": count}


def spin(seconds=float("inf")):
    while time.process_time() < seconds:
        pass


def grow_file(given):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
    with open("/tmp/big", "wb", buffering=0) as file:
        return until_refused(lambda _: file.write(bytes(MIB)))


def fill_space(given):
    with open("/tmp/big", "wb", buffering=0) as file:
        return until_refused(lambda _: file.write(bytes(MIB)))


def fill_inodes(given):
    return until_refused(lambda n: os.close(os.open(f"/tmp/{n}", os.O_CREAT | os.O_WRONLY)))


def fork_many(given):
    def step(_):
        if os.fork() == 0:
            time.sleep(3600)

    return until_refused(step)


def fill_memory(given):
    kept = []
    while len(kept) * MIB < given.get("bytes", float("inf")):
        kept.append(b"x" * MIB)
    return {"count": len(kept)}


def child_fills_memory(given):
    if os.fork() == 0:
        fill_memory(given)
        os._exit(0)
    os.wait()
    return {"count": 0}


def orphans(given):
    # Nobody is told of a child's time whose end nobody waits for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    read, write = os.pipe()
    for _ in range(2):
        if os.fork() == 0:
            os.close(read)
            spin(given["seconds"] / 2)
            os._exit(0)
    os.close(write)
    os.read(read, 1)
    return {"count": 2}


def count_for_ever(given):
    if given["do"] == "deaf cpu":
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    spin()


DO = {
    "cpu": count_for_ever,
    "deaf cpu": count_for_ever,
    "file": grow_file,
    "space": fill_space,
    "inodes": fill_inodes,
    "tasks": fork_many,
    "memory": fill_memory,
    "child memory": child_fills_memory,
    "orphans": orphans,
    "nothing": lambda given: {},
}
given = json.load(sys.stdin)
print(json.dumps(DO[given["do"]](given)))
