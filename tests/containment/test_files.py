"""What a handler can reach by a path: what was put there."""

# These tests may hold up their event loop: nothing else is in it.

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Final

import pytest
import trio

from sandbox.spec import Ended
from tests.containment.support import (
    PYTHON,
    Found,
    Programs,
    as_handler,
    found,
    open_directory,
    reached,
    seen,
)
from tests.sandbox.support import HANDLER_GID, HANDLER_UID, launched, run_to_end

HANDLERS_OWN: Final = {"/run", "/tmp"}
DEVICES: Final = {
    "null": "1:3",
    "zero": "1:5",
    "full": "1:7",
    "random": "1:8",
    "urandom": "1:9",
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "shm": "../tmp",
}
SYSTEM: Final = {
    *("/bin", "/etc", "/gnu/store", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"),
    *("/opt", "/sbin", "/usr"),
}


@pytest.mark.guarantee("S4")
def test_every_mount_is_one_that_was_put_there(programs: Programs) -> None:
    points = {mount["point"] for mount in seen(programs)["mounts"]}
    devices = {f"/dev/{name}" for name, kind in DEVICES.items() if kind[0].isdigit()}
    assert points - SYSTEM == {"/", "/proc", "/run", "/tmp", str(programs.folder), *devices}


@pytest.mark.guarantee("S4")
def test_every_mount_ignores_set_id_and_is_read_only_unless_it_is_the_handlers(
    programs: Programs,
) -> None:
    for mount in seen(programs)["mounts"]:
        point, options = mount["point"], mount["options"]
        assert "nosuid" in options, mount
        may_write = point in HANDLERS_OWN or point == "/proc" or point.startswith("/dev/")
        assert ("ro" in options) != may_write, mount


@pytest.mark.guarantee("S4")
def test_no_mount_hears_of_the_hosts(programs: Programs) -> None:
    for mount in seen(programs)["mounts"]:
        assert mount["propagation"] == [], mount


@pytest.mark.guarantee("S4")
def test_files_can_be_made_in_tmp_and_run_and_nowhere_else(programs: Programs) -> None:
    assert set(seen(programs)["writable"]) <= {"/run", "/run/credentials", "/tmp", "/tmp/home"}


@pytest.mark.guarantee("S4")
def test_dev_holds_five_devices_and_five_links(programs: Programs) -> None:
    assert seen(programs)["devices"] == DEVICES


@pytest.mark.guarantee("S4")
def test_sys_and_the_hosts_other_directories_are_absent(programs: Programs) -> None:
    own = {"bin", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc"}
    own |= {"run", "sbin", "tmp", "usr", "var"}
    assert set(seen(programs)["root"]) <= own


# --- paths

FORBIDDEN: Final[dict[str, tuple[str, str]]] = {
    # What the kernel tells of the host, and what it would let be changed.
    "/sys": ("list", "ENOENT"),
    "/sys/fs/cgroup": ("list", "ENOENT"),
    "/dev/kvm": ("stat", "ENOENT"),
    "/dev/fuse": ("stat", "ENOENT"),
    "/dev/kmsg": ("stat", "ENOENT"),
    "/dev/mem": ("stat", "ENOENT"),
    "/dev/tty": ("stat", "ENOENT"),
    "/dev/ptmx": ("stat", "ENOENT"),
    "/dev/mqueue": ("stat", "ENOENT"),
    "/dev/loop0": ("stat", "ENOENT"),
    "/dev/net/tun": ("stat", "ENOENT"),
    "/proc/kcore": ("read", "EACCES EPERM ENOENT"),
    "/proc/kmsg": ("read", "EACCES EPERM ENOENT"),
    "/proc/sysrq-trigger": ("write", "EACCES EPERM EROFS ENOENT"),
    "/proc/sys/kernel/core_pattern": ("write", "EACCES EPERM EROFS"),
    "/proc/sys/kernel/hostname": ("write", "EACCES EPERM EROFS"),
    "/proc/sys/kernel/ns_last_pid": ("put 1", "EACCES EPERM EROFS ENOENT"),
    "/proc/sys/kernel/keys/maxkeys": ("write", "EACCES EPERM EROFS ENOENT"),
    "/proc/sys/vm/drop_caches": ("write", "EACCES EPERM EROFS"),
    "/proc/sys/fs/file-max": ("write", "EACCES EPERM EROFS"),
    "/proc/sys/net/ipv4/ip_forward": ("write", "EACCES EPERM EROFS"),
    "/proc/sys/net/ipv4/ping_group_range": ("write", "EACCES EPERM EROFS"),
    "/proc/sys/user/max_user_namespaces": ("write", "EACCES EPERM EROFS"),
    # Init: it holds the slot, and it is what ends the tree.
    "/proc/1/environ": ("read", "EACCES EPERM"),
    "/proc/1/mem": ("read", "EACCES EPERM"),
    "/proc/1/maps": ("read", "EACCES EPERM"),
    "/proc/1/auxv": ("read", "EACCES EPERM"),
    "/proc/1/io": ("read", "EACCES EPERM"),
    "/proc/1/syscall": ("read", "EACCES EPERM ENOENT"),
    "/proc/1/stack": ("read", "EACCES EPERM ENOENT"),
    "/proc/1/fd": ("list", "EACCES EPERM"),
    "/proc/1/map_files": ("list", "EACCES EPERM"),
    "/proc/1/root": ("list", "EACCES EPERM"),
    "/proc/1/cwd": ("enter", "EACCES EPERM"),
    "/proc/1/exe": ("link", "EACCES EPERM"),
    "/proc/1/ns/mnt": ("read", "EACCES EPERM"),
    "/proc/1/oom_score_adj": ("put 0", "EACCES EPERM"),
    "/proc/1/comm": ("write", "EACCES EPERM"),
    "/proc/1/clear_refs": ("write", "EACCES EPERM ENOENT"),
    "/proc/1/coredump_filter": ("write", "EACCES EPERM ENOENT"),
    "/proc/1/timerslack_ns": ("put 1", "EACCES EPERM ENOENT"),
    "/proc/1/uid_map": ("write", "EACCES EPERM"),
    "/proc/1/timens_offsets": ("write", "EACCES EPERM ENOENT"),
    # Its own, where that is more than itself.
    "/proc/self/uid_map": ("put 0 0 1", "EACCES EPERM"),
    "/proc/self/gid_map": ("put 0 0 1", "EACCES EPERM"),
    "/proc/self/setgroups": ("put allow", "EACCES EPERM"),
    "/proc/self/timens_offsets": ("put monotonic 1000 0", "EACCES EPERM ENOENT"),
    # It could take back what offers it to the OOM killer before the daemon.
    "/proc/self/oom_score_adj": ("put 0", "EACCES EPERM"),
    # What was not put there.
    "/root": ("list", "ENOENT"),
    "/home": ("list", "ENOENT"),
    "/srv": ("list", "ENOENT"),
    "/mnt": ("list", "ENOENT"),
    "/media": ("list", "ENOENT"),
    "/boot": ("list", "ENOENT"),
    "/var/lib": ("list", "ENOENT"),
    "/var/spool": ("list", "ENOENT"),
    "/var/log": ("list", "ENOENT"),
    "/run/systemd": ("list", "ENOENT"),
    "/run/dbus": ("list", "ENOENT"),
    "/run/docker.sock": ("stat", "ENOENT"),
    "/run/effectd": ("list", "ENOENT"),
    "/etc/made-by-a-handler": ("create", "EROFS EACCES EPERM"),
    "/usr/made-by-a-handler": ("create", "EROFS EACCES EPERM"),
    "/usr/bin/python3": ("write", "EROFS EACCES EPERM"),
    "/var/made-by-a-handler": ("create", "EROFS EACCES EPERM"),
    "/dev/made-by-a-handler": ("create", "EROFS EACCES EPERM"),
    "/made-by-a-handler": ("create", "EROFS EACCES EPERM"),
}


@functools.cache
def forbidden(programs: Programs) -> Found:
    wanted = [(how, path) for path, (how, _) in FORBIDDEN.items()]
    return trio.run(reached, programs, wanted)


@pytest.mark.guarantee("S4")
@pytest.mark.parametrize("path", FORBIDDEN)
def test_the_path_is_closed(programs: Programs, path: str) -> None:
    assert forbidden(programs)[path] in FORBIDDEN[path][1].split()


@pytest.mark.guarantee("S4")
def test_every_other_way_to_name_the_root_stays_inside(programs: Programs, folder: Path) -> None:
    (folder / "secret").write_text("the host's")
    (folder / "secret").chmod(0o666)
    hidden = str(folder / "secret")
    above = "/.." * 40
    ways = [
        hidden,
        f"{above}{hidden}",
        f"/proc/self/root{hidden}",
        f"/proc/self/cwd{above}{hidden}",
        f"/proc/thread-self/root{above}{hidden}",
        f"/proc/1/root{hidden}",
        f"/tmp{above}{hidden}",
        f"/dev/shm{above}{hidden}",
        *(f"/proc/self/fd/{fd}/..{above}{hidden}" for fd in range(4)),
    ]
    wanted = [(how, way) for way in ways for how in ("read", "write")]
    got = trio.run(reached, programs, wanted)
    assert set(got.values()) <= {"ENOENT", "ENOTDIR", "EACCES"}, got
    control = as_handler(
        PYTHON, str(programs.folder / "reach.py"), input=json.dumps(wanted).encode()
    )
    assert json.loads(control.stdout)[hidden] == "open", "outside it can be had"


@pytest.mark.guarantee("S4")
async def test_a_links_target_in_a_writable_directory_is_not_followed_out(
    programs: Programs, folder: Path
) -> None:
    """What a handler writes into a link of its own lands inside, or nowhere."""
    shared, outside = open_directory(folder), folder / "outside"
    outside.write_text("before")
    outside.chmod(0o666)
    script = f"ln -s {outside} {shared}/link; echo after > {shared}/link; cat {shared}/link; true"
    async with launched() as launcher:
        spec = programs.spec(write=(str(shared),))
        end, out, _ = await run_to_end(launcher, ("/bin/sh", "-c", script), spec=spec)
    assert isinstance(end, Ended)
    assert b"before" not in out
    assert (shared / "link").is_symlink(), "it could make the link"
    assert outside.read_text() == "before"


@pytest.mark.guarantee("S4")
async def test_a_hard_link_or_rename_takes_nothing_across(programs: Programs, folder: Path) -> None:
    read, write = open_directory(folder), open_directory(folder)
    (read / "file").write_text("original")
    (read / "file").chmod(0o666)
    code = (
        "import os, json\n"
        f"source, target = {str(read / 'file')!r}, {str(write / 'mine')!r}\n"
        "found = {}\n"
        "for name, call in (('link', os.link), ('rename', os.rename), ('truncate', None)):\n"
        "    try:\n"
        "        os.truncate(source, 0) if call is None else call(source, target)\n"
        "        found[name] = 'open'\n"
        "    except OSError as error:\n"
        "        found[name] = os.strerror(error.errno)\n"
        "for name, call in (('chmod', lambda: os.chmod(source, 0)),\n"
        "                   ('utime', lambda: os.utime(source, (0, 0))),\n"
        "                   ('setxattr', lambda: os.setxattr(source, 'user.x', b'y'))):\n"
        "    try:\n"
        "        call()\n"
        "        found[name] = 'open'\n"
        "    except OSError as error:\n"
        "        found[name] = os.strerror(error.errno)\n"
        "print(json.dumps(found))\n"
    )
    if os.getuid() == 0:
        os.chown(read / "file", HANDLER_UID, HANDLER_GID)
    spec = programs.spec(read=(str(read),), write=(str(write),))
    async with launched() as launcher:
        got = await found(launcher, (PYTHON, "-I", "-S", "-c", code), spec)
    assert "open" not in got.values(), got
    assert (read / "file").read_text() == "original"
    assert (read / "file").stat().st_mode & 0o777 == 0o666
