"""Real file systems of the tests' own: small, on loop devices or in memory, and soon full.

Only root of the machine can have them; `missing` says what keeps a test from one.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

KINDS = ("tmpfs", "ext4", "xfs")
# The smallest that mkfs.xfs makes; an image is sparse, so only what is written takes room.
MIB = {"ext4": 16, "xfs": 300}
# `-m 0`: root, as whom the tests run, gets no reserve; `nodiscard` and the rest: quickly made.
_MAKE = {
    "ext4": ("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-K"),
}
# The same number and argument for both: nothing more reaches the disk, its own log included.
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2
_RELEASE_S = 30
_CAP_SYS_ADMIN = 21
_libc = ctypes.CDLL(None, use_errno=True)


def may_mount() -> bool:
    """Root of the first user namespace, not one that was stripped of it."""
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text("ascii")
    effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff"))
    return bool(int(effective, 16) >> _CAP_SYS_ADMIN & 1)


def missing(kind: str) -> str | None:
    """Why there can be none of this kind here, or None."""
    if not may_mount():
        return "mounting a file system needs CAP_SYS_ADMIN"
    known = Path("/proc/filesystems").read_text("ascii").split()
    if kind not in known:
        return f"this kernel has no {kind}"
    if kind == "tmpfs":
        return None
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    tool = _MAKE[kind][0]
    return None if shutil.which(tool) else f"{tool} is not installed"


def require(kind: str) -> None:
    """Skip the test, with the reason, where there can be none of this kind."""
    if why := missing(kind):
        pytest.skip(why)


@contextlib.contextmanager
def loop_device(image: Path, kind: str) -> Iterator[str]:
    """A block device with an empty file system of that kind; `image` is the file behind it."""
    with open(image, "wb") as file:
        file.truncate(MIB[kind] << 20)
    subprocess.run([*_MAKE[kind], str(image)], check=True, capture_output=True)
    with _attached(image) as device:
        yield device


@contextlib.contextmanager
def _attached(file: Path) -> Iterator[str]:
    attach = ["losetup", "--find", "--show", str(file)]
    device = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextlib.contextmanager
def mounted(source: str, at: Path, kind: str, options: str = "") -> Iterator[None]:
    mount(source, at, kind, options)
    try:
        yield
    finally:
        unmount(at)


def mount(source: str, at: Path, kind: str, options: str = "") -> None:
    """The system call itself: a test of many mounts starts no process for each."""
    if kind != "tmpfs":  # whose source names nothing
        _wait_until_released(Path("/sys/fs") / kind / Path(source).name)
    _call("mount", source.encode(), bytes(at), kind.encode(), 0, options.encode())


def _wait_until_released(live: Path) -> None:
    """A device that is mounted somewhere would be given as it is, a cut power included: a sandbox
    of another test may just have copied the namespace, and not emptied its own yet."""
    until = time.monotonic() + _RELEASE_S
    while live.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"{live}: still mounted in some namespace after {_RELEASE_S} s")
        time.sleep(0.002)


def unmount(at: Path) -> None:
    try:
        _call("umount2", bytes(at), 0)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        _call("umount2", bytes(at), 2)  # MNT_DETACH: a failed test may have left somebody in it


def _call(name: str, *arguments: bytes | int) -> None:
    if getattr(_libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


@contextlib.contextmanager
def small(kind: str, at: Path, image: Path, tmpfs_bytes: int = 1 << 20) -> Iterator[None]:
    """One that is made, mounted at `at`, which must be there, and gone in the end."""
    if kind == "tmpfs":
        with mounted("tmpfs", at, kind, f"size={tmpfs_bytes}"):
            yield
    else:
        with loop_device(image, kind) as device, mounted(device, at, kind):
            yield


def fill(ballast: Path) -> None:
    """Take every byte that is left: in large pieces without writing them, then by writing."""
    with ballast.open("ab", buffering=0) as file:
        for size in (64 << 20, 4 << 20, 256 << 10, 16 << 10, 4096):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), size)
        for size in (4096, 512, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass


def cut_power(at: Path) -> None:
    """The file system there writes nothing any more, as if the machine had lost its power."""
    fd = os.open(at, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
    finally:
        os.close(fd)


@contextlib.contextmanager
def failing_device(folder: Path) -> Iterator[tuple[str, Path]]:
    """A block device with an empty ext4, and a file: while that exists, each write fails with EIO.

    nbdkit's error filter behind FUSE behind a loop device: what fails is the writing back, after
    the page cache has taken the bytes, as with a disk that dies. FileNotFoundError without nbdkit.
    """
    image, refuse, seen = folder / "image", folder / "refuse", folder / "fuse"
    with open(image, "wb") as file:
        file.truncate(MIB["ext4"] << 20)
    subprocess.run([*_MAKE["ext4"], str(image)], check=True, capture_output=True)
    seen.mkdir()
    server = ["nbdkit", "--filter=error", "file", str(image), "error-pwrite=EIO"]
    server += ["error-pwrite-rate=100%", f"error-pwrite-file={refuse}"]
    command = ["nbdfuse", str(seen / "disk"), "--socket-activation", *server]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as fuse:
        try:
            _appears(seen / "disk", fuse)
            with _attached(seen / "disk") as device:
                yield device, refuse
        finally:
            refuse.unlink(missing_ok=True)
            subprocess.run(["fusermount3", "-u", "-z", str(seen)], check=False)
            fuse.wait(60)


def _appears(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert process.poll() is None, f"{process.args} ended with {process.returncode}"
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def make_read_only(device: str) -> None:
    """Have ext4, mounted with errors=remount-ro, believe that it met an error of its own."""
    name = Path(device).name
    Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("a test's")


def from_disk(file: Path) -> bytes:
    """What is on the device, past the page cache, which after a failed write shows more."""
    fd = os.open(file, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, -(-os.fstat(fd).st_size // 4096) * 4096) as buffer:
            count = os.preadv(fd, [buffer], 0)
            return buffer[:count]
    finally:
        os.close(fd)
