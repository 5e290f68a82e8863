"""A handler for tests that says far too much, as fast as it can, on any of its three streams.

input: {"streams": [NAME, ...], "kind": KIND, "bytes": N}. Streams are `out`, `err` and `words`
(fd 3). A stream is written to for ever, or for so many bytes, in big pieces, or one write for
each line (`tiny`). Kinds: `raw` has no newline; `lines`, `progress`, `junk`, `blank` and `results`
are lines; `announce` announces the effect `many`, `unknown` one that is not declared; `dispute`
announces one effect and then confirms and denies it by turns. With `last` it confirms the effect
`many`, which it announced first, when it is told to end. With `hears` it reads its answers.
"""

import json
import os
import signal
import socket
import sys
import threading

FDS = {"out": 1, "err": 2, "words": 3}
PIECE = 1 << 18


def line(**said):
    return json.dumps(said).encode() + b"\n"


APPLIED = line(type="confirm", ordinal=0, outcome="applied", result=1)
DENIED = line(type="confirm", ordinal=0, outcome="not_applied", reason="no")
KINDS = {
    "raw": b"x" * PIECE,
    "lines": b"a line of output, as long as lines are\n",
    "progress": line(type="progress", fraction=0.5, message="half"),
    "junk": b"no JSON\n",
    "blank": b"\n",
    "results": line(type="result", value=1),
    "announce": line(type="announce", effect="many", request={"pad": "x" * 30_000}),
    "unknown": line(type="announce", effect="nobody", request={}),
    "dispute": APPLIED + DENIED,
}


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def announce():
    write_all(3, line(type="announce", effect="many", request={}))
    with socket.socket(fileno=os.dup(3)) as channel, channel.makefile("rb") as answers:
        return json.loads(answers.readline())


def hear():
    while os.read(3, PIECE):
        pass


def flood(stream, kind, most, tiny):
    unit = KINDS[kind if stream == "words" or kind in ("raw", "lines") else "lines"]
    piece = unit if tiny else unit * max(1, PIECE // len(unit))
    written = 0
    while most is None or written < most:
        write_all(FDS[stream], piece)
        written += len(piece)


def main():
    given = json.load(sys.stdin)
    kind = given["kind"]
    if kind == "dispute" or given.get("last"):
        assert announce()["type"] == "leave"
    if given.get("last"):
        signal.signal(signal.SIGTERM, lambda *_: (write_all(3, APPLIED), os._exit(0)))
    most = given.get("bytes")
    threads = [
        threading.Thread(target=flood, args=(one, kind, most, given.get("tiny", False)))
        for one in given["streams"]
    ]
    if given.get("hears"):
        threading.Thread(target=hear, daemon=True).start()
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.1)


main()
