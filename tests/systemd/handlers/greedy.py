#!/usr/bin/python3 -I
"""A handler that takes what its input says.

input: {"memory": BYTES, "tasks": N, "cpu_ms": N}, all of it optional. Its result is how many
processes it got.
"""

import json
import os
import sys
import time

given = json.load(sys.stdin)
taken = bytearray(given.get("memory", 0))
for page in range(0, len(taken), 4096):
    taken[page] = 1
started = 0
for _ in range(given.get("tasks", 0)):
    try:
        if os.fork() == 0:
            time.sleep(600)
    except BlockingIOError:
        break
    started += 1
while time.process_time() * 1_000 < given.get("cpu_ms", 0):
    pass
print(json.dumps(started))
