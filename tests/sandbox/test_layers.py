"""Each layer is probed by applying it; what is missing is refused or recorded, never silent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.probe import probe
from sandbox.spec import LAYERS, Spec
from tests.sandbox.support import HANDLER_UID, IDS, launched

REFUSED = Path(__file__).with_name("refused.py")


def where_user_namespaces_are_refused(*arguments: Path) -> dict[str, object]:
    if os.statvfs("/proc/sys").f_flag & os.ST_RDONLY:
        pytest.skip(
            "/proc/sys is read-only here (a container), so nothing can be refused for a try"
        )
    process = subprocess.Popen(
        [sys.executable, REFUSED, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "unshared\n"
    maps = Path(f"/proc/{process.pid}")
    if os.getuid() == 0:
        ids = {"uid_map": "0 0 4294967295", "gid_map": "0 0 4294967295"}
    else:
        ids = {
            "setgroups": "deny",
            "uid_map": f"{os.getuid()} {os.getuid()} 1",
            "gid_map": f"{os.getgid()} {os.getgid()} 1",
        }
    for name, text in ids.items():
        (maps / name).write_text(text)
    out, _ = process.communicate("go\n", timeout=30)
    assert process.returncode == 0
    return json.loads(out)


@pytest.mark.guarantee("S9")
def test_without_user_namespaces_strict_is_refused_with_cause_and_remedy() -> None:
    found = where_user_namespaces_are_refused()
    layer, cause, remedy = found["refused"]
    assert layer == "user_namespace"
    assert "No space left on device" in cause
    assert "user.max_user_namespaces" in remedy
    assert found["accepted"] == "user_namespace", "accepting it needs a delegated cgroup"
    probed = found["probe"]
    for name in ("user_namespace", "pid_namespace", "root", "network", "proc"):
        state, cause, remedy = probed[name]
        assert (state, "clone3" in cause) == ("missing", True)
        assert "AppArmor" in remedy
    for name in ("limits", "no_new_privs"):
        assert probed[name] == ["in force", "", ""]


@pytest.mark.guarantee("S9", "S1")
def test_without_user_namespaces_a_cgroup_will_do_if_the_handler_accepts_it(
    cgroup_root: Path,
) -> None:
    found = where_user_namespaces_are_refused(cgroup_root)
    end, out = found["accepted"]
    assert (end["status"], end["proof"]) == (0, "cgroup")
    assert out.split() == ["NoNewPrivs:", "1"]
    assert found["probe"]["cgroup"] == ["in force", "", ""]


@pytest.mark.guarantee("S9")
async def test_the_probe_and_a_sandbox_agree_on_what_is_in_force() -> None:
    layers = {layer.name: layer for layer in probe(**IDS)}
    assert tuple(layers) == (*LAYERS, "memory")
    async with launched() as launcher:
        sandbox = await launcher.prepare(Spec())
        here = {name for name, layer in layers.items() if layer.state == "in force"}
        assert set(sandbox.layers) == here
        assert list(sandbox.layers) == [name for name in LAYERS if name in here]
        await sandbox.discard()
    assert layers["uid"].state == ("degraded" if os.getuid() == HANDLER_UID else "in force")
    for layer in layers.values():
        assert bool(layer.cause and layer.remedy) == (layer.state != "in force"), layer


@pytest.mark.guarantee("S9")
async def test_a_layer_that_may_be_missing_is_left_out_of_the_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A /proc that something is mounted over refuses a fresh one, as in many containers."""
    from sandbox import plan, wire

    whole = plan.strict(Spec(accept_missing=("proc",)))
    steps = wire.unpack_list(whole)
    at = next(n for n, step in enumerate(steps) if wire.unpack_list(step)[1] == b"proc")
    # Not mounted twice: EEXIST stands for the refusal, which takes a container to produce.
    monkeypatch.setattr(plan, "strict", lambda spec: wire.pack_list(steps[: at + 1] + steps[at:]))
    async with launched() as launcher:
        sandbox = await launcher.prepare(Spec(accept_missing=("proc",)))
        assert "proc" not in sandbox.layers
        assert "root" in sandbox.layers
        await sandbox.discard()
