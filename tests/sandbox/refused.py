"""A process in whose user namespace no other can be made.  usage: refused.py [CGROUP_ROOT]

Waits for its id maps (a line on stdin), then prints as JSON what a daemon would meet there.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import attrs
import trio

from sandbox.probe import probe
from sandbox.spec import SandboxUnavailable, Spec
from tests.sandbox.support import IDS, launched, run_to_end

CLONE_NEWUSER = 0x10000000


async def main(root: Path | None) -> dict[str, object]:
    found: dict[str, object] = {}
    async with launched(cgroup_root=root) as launcher:
        try:
            await launcher.prepare(Spec())
        except SandboxUnavailable as error:
            found["refused"] = [error.layer, error.cause, error.remedy]
        spec = Spec(accept_missing=("user_namespace",))
        try:
            end, out, _ = await run_to_end(
                launcher, ("/bin/grep", "NoNewPrivs", "/proc/self/status"), spec=spec
            )
            found["accepted"] = [attrs.asdict(end), out.decode()]
        except SandboxUnavailable as error:
            found["accepted"] = error.layer
    layers = probe(**IDS, cgroup_root=root)
    found["probe"] = {layer.name: [layer.state, layer.cause, layer.remedy] for layer in layers}
    return found


if __name__ == "__main__":
    assert ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) == 0
    print("unshared", flush=True)
    sys.stdin.readline()
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    print(json.dumps(trio.run(main, Path(sys.argv[1]) if len(sys.argv) > 1 else None)))
