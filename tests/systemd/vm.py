"""A virtual machine with a kernel of its own: real cgroup controllers, Landlock, AppArmor."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.systemd import tree
from tests.systemd.machine import Done, Machine

PACKAGES = (*tree.PACKAGES, "initramfs-tools", "linux-image-cloud-amd64")
# An initrd with three drivers is unpacked sooner, and nothing else is needed.
HOOK = (
    '--essential-hook=mkdir -p "$1/etc/initramfs-tools/conf.d"; '
    'printf "MODULES=list\\nCOMPRESS=gzip\\n" > "$1/etc/initramfs-tools/conf.d/effectd"; '
    'printf "virtio_pci\\nvirtio_blk\\next4\\n" > "$1/etc/initramfs-tools/modules"'
)
IMAGE_SIZE = "2G"
_PORT = "effectd.test"
_KERNEL_LINE = "root=/dev/vda rw console=ttyS0 panic=-1 mitigations=off"
# Emulated without KVM, everything takes about twenty times as long.
BOOT_S, COMMAND_S = 400, 300
_KVM_SPEAKS_S = 10

AGENT = f"""
import json, subprocess
port = open("/dev/virtio-ports/{_PORT}", "r+b", buffering=0)
for line in port:
    asked = json.loads(line)
    done = subprocess.run(asked["argv"], input=asked["text"].encode(), capture_output=True)
    answer = [done.returncode, done.stdout.decode(), done.stderr.decode()]
    data = json.dumps(answer).encode() + b"\\n"
    while data:
        data = data[port.write(data):]
"""
AGENT_UNIT = """
[Unit]
After=multi-user.target
[Service]
ExecStart=/usr/bin/python3 -I /opt/agent.py
Environment=PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin LANG=C.UTF-8
Restart=always
[Install]
WantedBy=multi-user.target
"""


def missing() -> str:
    """Why no virtual machine can be made here; nothing when one can."""
    absent = [name for name in ("mkfs.ext4", "qemu-system-x86_64") if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)} (Debian: qemu-system-x86)" if absent else ""


class VirtualMachine(Machine):
    """Talks with the agent inside over a serial port; one command at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile("rb")

    def execute(self, argv: Sequence[str], text: str, timeout_s: float) -> Done:
        self._connection.settimeout(max(timeout_s, COMMAND_S))
        asked = {"argv": list(argv), "text": text}
        self._connection.sendall(json.dumps(asked).encode() + b"\n")
        status, out, err = json.loads(self._answers.readline())
        return Done(tuple(argv), status, out, err)


def prepare(root: Path) -> None:
    """Put the agent into a root directory that is to be booted."""
    (root / "opt" / "agent.py").write_text(AGENT)
    units = root / "etc" / "systemd" / "system"
    (units / "agent.service").write_text(AGENT_UNIT)
    wanted = units / "multi-user.target.wants"
    wanted.mkdir(exist_ok=True)
    (wanted / "agent.service").symlink_to("../agent.service")


@contextlib.contextmanager
def booted(root: Path, *, kernel_line: str = "") -> Iterator[VirtualMachine]:
    """Boot an image of `root`; it is switched off, and the image is gone, in the end."""
    image, port = root.with_suffix(".ext4"), root.with_suffix(".port")
    command = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-d", root, image, IMAGE_SIZE]
    subprocess.run(command, timeout=120, check=True)
    log = root.with_suffix(".console")
    process = _started(root, image, port, log, kernel_line)
    try:
        with _connected(process, port, log) as connection:
            yield VirtualMachine(connection)
    finally:
        process.kill()
        process.wait()
        image.unlink()


def _started(
    root: Path, image: Path, port: Path, log: Path, kernel_line: str
) -> subprocess.Popen[bytes]:
    """By KVM where that can run this kernel, else emulated."""
    accelerators = ["kvm"] if os.access("/dev/kvm", os.R_OK | os.W_OK) else []
    for accelerator in (*accelerators, "tcg,thread=multi"):
        port.unlink(missing_ok=True)
        with log.open("wb") as console:
            process = subprocess.Popen(
                _command(root, image, port, accelerator, kernel_line),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
            )
        if accelerator != "kvm" or _speaks(process, log):
            return process
        # Some hosts' KVM runs only kernels that were changed for it: this one then hangs
        # before its first line.
        process.kill()
        process.wait()
    raise AssertionError("unreachable")


def _command(root: Path, image: Path, port: Path, accelerator: str, kernel_line: str) -> list[str]:
    (kernel,) = (root / "boot").glob("vmlinuz-*")
    (initrd,) = (root / "boot").glob("initrd.img-*")
    processor = "host" if accelerator == "kvm" else "max"
    return [
        "qemu-system-x86_64", "-accel", accelerator, "-cpu", processor, "-smp", "2", "-m", "2G",
        "-nographic", "-nodefaults", "-no-reboot", "-serial", "stdio", "-monitor", "none",
        "-kernel", str(kernel), "-initrd", str(initrd),
        "-append", f"{_KERNEL_LINE} {kernel_line}",
        "-drive", f"file={image},format=raw,if=virtio,cache=unsafe",
        "-chardev", f"socket,id=agent,path={port},server=on,wait=off",
        "-device", "virtio-serial", "-device", f"virtserialport,chardev=agent,name={_PORT}",
    ]  # fmt: skip


def _speaks(process: subprocess.Popen[bytes], log: Path) -> bool:
    """Whether the kernel has said something."""
    deadline = time.monotonic() + _KVM_SPEAKS_S
    while time.monotonic() < deadline and process.poll() is None:
        if b"Linux version" in log.read_bytes():
            return True
        time.sleep(0.1)
    return False


def _connected(process: subprocess.Popen[bytes], port: Path, log: Path) -> socket.socket:
    """A connection to the agent, after its first answer. What is sent before it opened its end
    waits for it."""
    deadline = time.monotonic() + BOOT_S
    connection = _connect(port, deadline)
    connection.sendall(b'{"argv": ["true"], "text": ""}\n')
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-3_000:]
        with contextlib.suppress(TimeoutError):
            if connection.recv(65_536):
                return connection
    connection.close()
    raise AssertionError(f"no agent after {BOOT_S} s: {log.read_text(errors='replace')[-3_000:]}")


def _connect(port: Path, deadline: float) -> socket.socket:
    """Connected to qemu's end of the port, which may still be starting."""
    while True:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(1)
        try:
            connection.connect(str(port))
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            assert time.monotonic() < deadline, f"nobody listens on {port}"
            time.sleep(0.05)
        else:
            return connection
