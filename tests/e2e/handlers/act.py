"""A handler for tests: it does in the world what its input says, and tells the daemon.

input: {"tag": T, "effects": [NAME, ...], "meet": [POINT, ...], "tree": N, "deaf": bool,
"fails": [NAME], "note": bool, "large": N, "exit": N}, all of it optional. For each effect it
passes the world's points, as far as `meet` names them:
`T before NAME` (nothing announced yet), `T leave NAME` (leave was given, nothing made yet),
always `T made NAME` (made, not confirmed), `T told NAME` (confirmed), and `T end`.
With `large` every result has so many bytes more.
With `note` the world is told of each effect that the daemon recorded.
A name in `fails` is a provider that says no: confirmed as not applied. `tree` makes so many
double-forked grandchildren in sessions of their own that ignore every signal they can; `deaf`
makes the handler itself ignore SIGTERM. Its result is what it made: {name: receipt}.
"""

import json
import os
import signal
import socket
import sys
import time

PORT = int(os.environ["WORLD_PORT"])
# Names whose provider keeps idempotency keys: it makes one change for each key.
KEEPS_KEYS = {"key", "other"}


def ask(**asked):
    with socket.create_connection(("127.0.0.1", PORT)) as world:
        world.sendall(json.dumps(asked).encode() + b"\n")
        with world.makefile("rb") as answers:
            return json.loads(answers.readline())


def say(channel, **said):
    channel.write(json.dumps(said).encode() + b"\n")
    channel.flush()


def ignore_signals():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)


def grow(count):
    """Grandchildren whom nobody waits for, in sessions of their own, deaf to signals."""
    for _ in range(count):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        os.setsid()
        if os.fork():
            os._exit(0)
        ignore_signals()
        while True:
            time.sleep(3600)


class Handler:
    def __init__(self, given):
        self.given = given
        self.tag = given.get("tag", "")
        self.made = {}
        self.padding = {"pad": "x" * given["large"]} if "large" in given else {}

    def meet(self, point):
        if point in self.given.get("meet", ()):
            ask(do="meet", point=f"{self.tag} {point}")

    def make(self, name, effect_id):
        self.meet(f"leave {name}")
        point = f"{self.tag} made {name}"
        made = ask(
            do="make", effect_id=effect_id, once=name in KEEPS_KEYS, point=point, tag=self.tag
        )
        self.made[name] = made["receipt"]
        return made

    def announced(self, channel, name):
        self.meet(f"before {name}")
        say(channel, type="announce", effect=name, request={"amount": 100, "name": name})
        heard = json.loads(channel.readline())
        if heard["type"] == "applied":
            self.made[name] = (heard.get("result") or {}).get("receipt")
        elif heard["type"] == "leave":
            self.confirm(channel, name, heard)
        else:
            print(json.dumps(heard), file=sys.stderr)
            sys.exit(9)

    def confirm(self, channel, name, leave):
        if name in self.given.get("fails", ()):
            said = {"outcome": "not_applied", "reason": "the provider said no"}
        else:
            made = self.make(name, leave["effect_id"])
            said = {"outcome": "applied", "result": {**made, **self.padding}}
        say(channel, type="confirm", ordinal=leave["ordinal"], **said)
        assert json.loads(channel.readline())["type"] == "recorded"
        if self.given.get("note"):
            ask(do="note", effect_id=leave["effect_id"])
        self.meet(f"told {name}")

    def run(self):
        if self.given.get("deaf"):
            ignore_signals()
        grow(self.given.get("tree", 0))
        whole = os.environ.get("EFFECTD_EFFECT_ID")
        if whole is not None:
            for name in self.given.get("effects", ()):
                self.make(name, whole)
        else:
            with socket.socket(fileno=int(os.environ["EFFECTD_FD"])) as stream:
                channel = stream.makefile("rwb")
                for name in self.given.get("effects", ()):
                    self.announced(channel, name)
        self.meet("end")
        print(json.dumps({**self.made, **self.padding}))
        return self.given.get("exit", 0)


sys.exit(Handler(json.load(sys.stdin)).run())
