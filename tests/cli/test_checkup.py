"""What doctor concludes: from mounts, layers and groups as values."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
import pytest

from config.load import Handler
from config.manifest import Manifest, SandboxDecl
from config.schema import Config
from sandbox import remedies
from sandbox.spec import LAYERS
from supervisor.cli import checkup, disk

MOUNTINFO = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 22 0:25 / /run rw,nosuid shared:5 - tmpfs tmpfs rw,size=1000k
40 22 8:2 / /var/lib/with\040space rw,noatime - xfs /dev/sdb1 rw,nobarrier
41 22 0:40 / /mnt/nfs rw - nfs4 server:/x rw,hard
42 22 0:41 / /ro ro,relatime - ext4 /dev/sdc1 rw
43 22 0:42 / /c rw - overlay overlay rw,lowerdir=/l
44 22 0:43 / /f rw - fuse.sshfs host: rw
45 22 0:44 / /odd rw - oddfs none rw
46 22 0:45 / /odd rw - btrfs /dev/sdd rw
garbage
"""
MOUNTS = disk.mounts(MOUNTINFO)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/var/lib/effectd", "ext4"),
        ("/run/x", "tmpfs"),
        ("/runner", "ext4"),
        ("/var/lib/with space/effectd", "xfs"),
        ("/odd", "btrfs"),  # the newest mount hides the older one
    ],
)
def test_a_path_is_on_the_mount_that_holds_it(path: str, kind: str) -> None:
    mount = disk.mount_of(path, MOUNTS)
    assert mount is not None
    assert mount.kind == kind


@pytest.mark.parametrize(
    ("path", "state", "said"),
    [
        ("/x", "ok", "survives a power loss"),
        ("/run/x", "warning", "nothing survives a restart"),
        ("/var/lib/with space", "wrong", "barriers"),
        ("/mnt/nfs/x", "warning", "the other side's choice"),
        ("/ro/x", "wrong", "read-only"),
        ("/c/x", "warning", "gone with the container"),
        ("/f/x", "warning", "locks may lie"),
    ],
)
def test_what_each_file_system_can_promise(path: str, state: str, said: str) -> None:
    mount = disk.mount_of(path, MOUNTS)
    assert mount is not None
    check = disk.promise(path, mount)
    assert check.state == state
    assert said in check.detail
    assert check.remedy or check.state == "ok"


def test_an_unknown_file_system_is_doubted() -> None:
    assert disk.promise("/x", disk.Mount("/x", "oddfs", frozenset({"rw"}))).state == "warning"


def test_a_sync_that_takes_no_time_is_doubted() -> None:
    assert disk.sync_check("/x", 3).state == "warning"
    assert disk.sync_check("/x", 900).state == "ok"


def test_room_is_compared_with_what_the_journal_may_use() -> None:
    assert disk.room("/x", 10 << 30, 5 << 30).state == "ok"
    assert disk.room("/x", 1 << 30, 5 << 30).state == "warning"


def test_a_sync_is_measured_without_leaving_a_file(tmp_path: Path) -> None:
    try:
        median_us = disk.measure_sync_us(str(tmp_path))
    except OSError as error:
        pytest.skip(f"no O_TMPFILE on this file system: {error}")
    assert median_us >= 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "state", "accepted", "expected"),
    [
        ("root", "in force", [], "ok"),
        ("root", "missing", [], "wrong"),
        ("root", "missing", ["root"], "warning"),
        ("cgroup", "missing", [], "warning"),
        ("uid", "degraded", [], "warning"),
    ],
)
@pytest.mark.guarantee("S9")
def test_a_layer_that_is_not_in_force_is_never_silent(
    name: str, state: str, accepted: list[str], expected: str
) -> None:
    layer = {"name": name, "state": state, "how": "tried", "cause": "why", "remedy": "do"}
    [check] = checkup.layer_checks([layer], accepted)
    assert check.state == expected
    if expected != "ok":
        assert "why" in check.detail
        assert check.remedy == "do"


def test_the_daemons_layers_are_read_from_its_status() -> None:
    missing = [{"layer": "proc", "cause": "masked", "remedy": "unmask", "refuses": True}]
    there = {"root": "in force", "proc": "missing: masked. unmask"}
    status = {"sandbox": {"layers": there, "missing": missing}}
    layers = checkup.daemons_layers(status)
    assert [(one["name"], one["state"], one["cause"]) for one in layers] == [
        ("root", "in force", ""),
        ("proc", "missing", "masked"),
    ]
    assert checkup.daemons_layers({}) == []


@pytest.mark.guarantee("S9")
def test_a_layer_that_a_working_daemon_does_without_is_named_all_the_same() -> None:
    there = {name: "in force" for name in LAYERS if name not in {"cgroup", "landlock"}}
    missing = [attrs.asdict(one) for one in remedies.left_out(there)]
    layers = checkup.daemons_layers({"sandbox": {"layers": there, "missing": missing}})
    assert [each["name"] for each in layers[len(there) :]] == ["cgroup", "landlock"]
    checks = {each.what: each for each in checkup.layer_checks(layers, [])}
    assert {checks[name].state for name in ("cgroup", "landlock")} == {"warning"}
    assert "Delegate=yes" in checks["cgroup"].remedy
    assert "lsm=" in checks["landlock"].remedy


def test_a_write_path_beside_the_journal_is_warned_of(tmp_path: Path) -> None:
    shared = Path("/dev/shm", f"effectd-test-{os.getpid()}")
    if shared.parent.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("/dev/shm is on the file system of the temporary directory")
    config = Config(state_dir=tmp_path / "not" / "yet")
    writes = (str(tmp_path / "data"), str(shared))
    handler = _writer("pay", writes, tmp_path)
    (found,) = checkup.write_checks(config, [handler])
    assert (found.state, found.what) == ("warning", f"pay: write {tmp_path}/data")
    assert "which the handler can fill up" in str(found)


def _writer(name: str, writes: tuple[str, ...], folder: Path) -> Handler:
    manifest = Manifest(
        manifest=1,
        command=("/bin/true",),
        timeout_ms=1_000,
        name=name,
        sandbox=SandboxDecl(write=writes),
    )
    return Handler(manifest, folder / f"{name}.toml", "", {}, None, None, ())
