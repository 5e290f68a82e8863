"""A process that takes the steps of a plan and then runs some code.

stdin: JSON with ``steps`` (packed, in hex) and ``code``. The code's own output is what it prints.
"""

from __future__ import annotations

import json
import os
import socket  # noqa: F401 - for the code: once the uid has changed, nothing more may be found
import sys

sys.path.append(sys.argv[1])

from sandbox import linux, root, wire

given = json.load(sys.stdin)
if os.getuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
for step in given["steps"]:
    layer, name, *arguments = wire.unpack_list(bytes.fromhex(step))
    root.STEPS[name](*arguments)
exec(given["code"])
