"""What doctor concludes: from mounts, layers and groups as values."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    status = {"sandbox": {"layers": {"root": "in force", "proc": "missing: masked"}}}
    layers = checkup.daemons_layers(status)
    assert [(one["name"], one["state"], one["cause"]) for one in layers] == [
        ("root", "in force", ""),
        ("proc", "missing", "masked"),
    ]
    assert checkup.daemons_layers({}) == []
