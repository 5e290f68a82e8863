"""Each layer is probed by applying it; what is missing is refused or recorded, never silent."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbox import confine, plan, wire
from sandbox.probe import probe
from sandbox.spec import LAYERS, Spec
from tests.sandbox.support import HANDLER_UID, IDS, launched

REFUSED = Path(__file__).with_name("refused.py")


def where_user_namespaces_are_refused(*arguments: str | Path) -> dict[str, Any]:
    if os.statvfs("/proc/sys").f_flag & os.ST_RDONLY:
        pytest.skip(
            "/proc/sys is read-only here (a container), so nothing can be refused for a try"
        )
    process = subprocess.Popen(
        [sys.executable, REFUSED, "--user-namespaces", "--accept", "user_namespace", *arguments],
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
    out, _ = process.communicate("go\n", timeout=60)
    assert process.returncode == 0
    return json.loads(out)


def where(answers: list[str], accept: tuple[str, ...] = (), *more: str | Path) -> dict[str, Any]:
    """What a daemon meets where a filter answers these calls so."""
    words = [word for answer in answers for word in ("--answer", answer)]
    words += [word for layer in accept for word in ("--accept", layer)]
    done = subprocess.run(
        [sys.executable, REFUSED, *words, *more],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.guarantee("S9")
def test_without_user_namespaces_strict_is_refused_with_cause_and_remedy() -> None:
    found = where_user_namespaces_are_refused()
    layer, cause, remedy = found["strict"]["refused"]
    assert layer == "user_namespace"
    assert "No space left on device" in cause
    assert "user.max_user_namespaces" in remedy
    assert found["accepted"]["refused"][0] == "user_namespace", "it needs a delegated cgroup"
    probed = found["probe"]
    for name in ("user_namespace", "pid_namespace", "root", "network", "proc"):
        state, cause, remedy = probed[name]
        assert (state, "clone3" in cause) == ("missing", True)
        assert "AppArmor profile `effectd`" in remedy
    for name in ("limits", "no_new_privs", "seccomp"):
        assert probed[name] == ["in force", "", ""]


@pytest.mark.guarantee("S9", "S1")
def test_without_user_namespaces_a_cgroup_will_do_if_the_handler_accepts_it(
    cgroup_root: Path,
) -> None:
    found = where_user_namespaces_are_refused("--cgroup", cgroup_root)
    taken = found["accepted"]
    assert (taken["end"]["status"], taken["end"]["proof"]) == (0, "cgroup")
    assert taken["inside"] == {"NoNewPrivs": "1", "Seccomp_filters": "1"}
    assert set(taken["layers"]) >= {"cgroup", "no_new_privs", "seccomp"}
    assert not set(taken["layers"]) & {"user_namespace", "root", "pid_namespace", "network"}
    assert ("landlock" in taken["layers"]) == (found["probe"]["landlock"][0] == "in force")
    assert found["probe"]["cgroup"] == ["in force", "", ""]


CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ENVIRONMENTS = {
    # answers, the layer, what strict says: None when the layer's lack is recorded, else the cause
    "no Landlock": ([f"{CREATE_RULESET}={errno.ENOSYS}"], "landlock", None),
    "Landlock not among the modules": (
        [f"{CREATE_RULESET}={errno.EOPNOTSUPP}"],
        "landlock",
        None,
    ),
    "a filter refuses Landlock": (
        [f"{CREATE_RULESET}={errno.EPERM}"],
        "landlock",
        "landlock_create_ruleset: Operation not permitted",
    ),
    "a filter refuses Landlock rules": (
        [f"{ADD_RULE}={errno.EPERM}"],
        "landlock",
        "landlock_allow",
    ),
    "a filter refuses Landlock's last call": (
        [f"{RESTRICT_SELF}={errno.EPERM}"],
        "landlock",
        "landlock_enforce",
    ),
    "a unit's filter kills who asks for Landlock": (
        [f"{CREATE_RULESET}=kill"],
        "landlock",
        "landlock_create_ruleset: whoever asks is ended by SIGSYS",
    ),
    "no seccomp filters": ([f"PRCTL:22={errno.EINVAL}"], "seccomp", "seccomp: Invalid argument"),
    "a filter refuses seccomp": ([f"PRCTL:22={errno.EPERM}"], "seccomp", "not permitted"),
}


@pytest.mark.guarantee("S9")
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_confinement_that_cannot_be_had_is_refused_or_recorded(name: str) -> None:
    answers, layer, refused = ENVIRONMENTS[name]
    if layer == "landlock" and not confine.here().landlock:
        pytest.skip("this kernel has no Landlock to refuse")
    numbers = {"x86_64": "157", "aarch64": "167"}
    answers = [answer.replace("PRCTL", numbers[os.uname().machine]) for answer in answers]
    found = where(answers, (layer,))
    if refused is None:
        assert layer not in found["strict"]["layers"]
    else:
        named, cause, remedy = found["strict"]["refused"]
        assert (named, refused in cause) == (layer, True), cause
        assert f'accept_missing = ["{layer}"]' in remedy
        assert "SystemCallFilter=" in remedy
    taken = found["accepted"]
    assert layer not in taken["layers"]
    assert {"root", "network", "no_new_privs"} <= set(taken["layers"])
    around = 1
    own = 0 if layer == "seccomp" else 1
    assert taken["inside"] == {"NoNewPrivs": "1", "Seccomp_filters": str(around + own)}
    state, cause, remedy = found["probe"][layer]
    assert state == ("degraded" if refused is None else "missing")
    assert cause
    assert remedy
    others = {name: row[0] for name, row in found["probe"].items() if name != layer}
    assert {others[one] for one in ("user_namespace", "root", "proc", "network")} == {"in force"}


@pytest.mark.guarantee("S9")
@pytest.mark.parametrize("layer", ["seccomp", "root"])
def test_under_a_filter_that_kills_nothing_is_started_and_the_probe_names_the_layer(
    layer: str,
) -> None:
    """A unit's SystemCallFilter= does so unless it says SystemCallErrorNumber=."""
    x86 = os.uname().machine == "x86_64"
    prctl, mount = ("157", "165") if x86 else ("167", "40")
    found = where([f"{prctl}:22=kill" if layer == "seccomp" else f"{mount}=kill"])
    _, cause, remedy = found["strict"]["refused"]
    assert "ended while it was" in cause
    assert "SystemCallFilter=" in remedy
    state, cause, remedy = found["probe"][layer]
    assert (state, cause) == ("missing", f"the child was ended by signal {signal.SIGSYS:d}")
    assert "@sandbox" in remedy


@pytest.mark.guarantee("S9")
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_a_container_that_refuses_clone3_is_told_from_a_kernel_setting(number: int) -> None:
    found = where([f"435={number}"])
    layer, cause, remedy = found["strict"]["refused"]
    assert layer == "user_namespace"
    assert os.strerror(number) in cause
    assert "in a container a seccomp profile that permits clone3" in remedy
    for name in ("user_namespace", "root", "network", "limits"):
        assert found["probe"][name][1:] == [f"clone3: {os.strerror(number)}", remedy]


@pytest.mark.guarantee("S9")
def test_a_kernel_without_mount_setattr_has_no_new_root() -> None:
    found = where([f"442={errno.ENOSYS}"])
    layer, cause, remedy = found["strict"]["refused"]
    assert (layer, "Function not implemented" in cause) == ("root", True)
    assert "5.12" in remedy
    assert found["probe"]["root"][0] == "missing"


@pytest.mark.guarantee("S9")
@pytest.mark.parametrize("answer", ["428=1", "MOUNT=13"])
def test_a_user_namespace_without_rights_is_named_as_what_it_is(answer: str) -> None:
    """Ubuntu lets anyone make one and then denies what it is for, mounts first of all."""
    mount = {"x86_64": "165", "aarch64": "40"}[os.uname().machine]
    found = where([answer.replace("MOUNT", mount)])
    layer, cause, remedy = found["strict"]["refused"]
    assert (layer, "not permitted" in cause or "denied" in cause) == ("root", True)
    assert "AppArmor profile `effectd`" in remedy
    assert found["probe"]["user_namespace"][0] == "in force"
    state, cause, remedy = found["probe"]["root"]
    assert (state, "AppArmor profile `effectd`" in remedy) == ("missing", True), cause


@pytest.mark.guarantee("S9")
async def test_the_probe_and_a_sandbox_agree_on_what_is_in_force() -> None:
    layers = {layer.name: layer for layer in probe(**IDS)}
    assert tuple(layers) == LAYERS
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
    spec = Spec(accept_missing=("proc",), file_size_max=2_345_678)  # no other test's
    root, attempt, *rest = wire.unpack_list(plan.template(spec))
    steps = wire.unpack_list(attempt)
    at = next(n for n, step in enumerate(steps) if wire.unpack_list(step)[1] == b"proc")
    # EINVAL stands for the refusal, which takes a container to produce.
    steps.insert(at, wire.pack_list([b"proc?", b"oom_score", b"no number"]))
    whole = wire.pack_list([root, wire.pack_list(steps), *rest])
    monkeypatch.setattr(plan, "template", lambda *_: whole)
    async with launched() as launcher:
        sandbox = await launcher.prepare(spec)
        assert "proc" not in sandbox.layers
        assert {"root", "seccomp"} <= set(sandbox.layers)
        await sandbox.discard()
