#!/usr/bin/python3 -I
"""A handler with one effect at a provider that keeps idempotency keys: a directory, in which a
file is a charge and its lines are the requests for it.

input: {"stay": bool}. With `stay` the first request is made and then never confirmed, and a
grandchild in a session of its own that is deaf to signals stays too.
"""

import json
import os
import signal
import socket
import sys
import time


def leave_a_grandchild():
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    while True:
        time.sleep(3600)


given = json.load(sys.stdin)
channel = socket.socket(fileno=3).makefile("rwb")


def say(**said):
    channel.write(json.dumps(said).encode() + b"\n")
    channel.flush()
    return json.loads(channel.readline())


leave = say(type="announce", effect="charge", request={"amount": 1})
receipt = f"/srv/provider/{leave['idempotency_key']}"
with open(receipt, "a") as file:
    file.write("requested\n")
with open(receipt) as file:
    requests = len(file.readlines())
if given.get("stay") and requests == 1:
    leave_a_grandchild()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(3600)
say(type="confirm", ordinal=0, outcome="applied", result={"requests": requests})
