"""Tries paths. On standard input a JSON list of [how, path]; on standard output {path: outcome}.

How: `list`, `stat`, `read` (the first bytes), `write` (opened for writing, not written), `put TEXT`
(written: some files of /proc can be opened by all and refuse the write), `create` (a file that is
removed again), `enter` (chdir), `link` (the target of a symbolic link). The outcome is `open`, or
the name of the errno.
"""

from __future__ import annotations

import errno
import json
import os
import sys


def attempt(how: str, path: str) -> None:
    if how == "list":
        os.listdir(path)
    elif how == "stat":
        os.stat(path)
    elif how == "link":
        os.readlink(path)
    elif how == "enter":
        os.chdir(path)
    elif how == "read":
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.read(fd, 16)
    elif how.startswith("put "):
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, how[4:].encode())
    elif how == "write":
        os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.unlink(path)


if __name__ == "__main__":
    found = {}
    for how, path in json.load(sys.stdin):
        try:
            attempt(how, path)
            found[path] = "open"
        except OSError as error:
            found[path] = errno.errorcode[error.errno]
    print(json.dumps(found))
