"""What a handler can see of itself and around it, as one JSON object."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import stat


def mounts() -> list[dict[str, object]]:
    """mountinfo, without what depends on the host's disks."""
    found = []
    with open("/proc/self/mountinfo") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            number, _, _, _, point, options, *shared = before.split()
            found.append(
                {
                    "id": int(number),
                    "point": point,
                    "options": options.split(","),
                    "propagation": shared,
                    "type": after.split()[0],
                }
            )
    return found


def descriptors() -> dict[str, dict[str, object]]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            kind = os.fstat(int(name)).st_mode
        except OSError:
            continue  # the one that listed them
        try:
            os.close(os.open("..", os.O_PATH, dir_fd=int(name)))
            above = "open"
        except OSError as error:
            above = os.strerror(error.errno)
        found[name] = {
            "directory": stat.S_ISDIR(kind),
            "target": os.readlink(f"/proc/self/fd/{name}"),
            "above": above,
            "nonblocking": bool(fcntl.fcntl(int(name), fcntl.F_GETFL) & os.O_NONBLOCK),
        }
    return found


def directory_mounts() -> dict[str, int]:
    """Of each directory that this process holds by a link of /proc, the mount that it is in."""
    found = {}
    for name in ("cwd", "root"):
        fd = os.open(f"/proc/self/{name}", os.O_PATH)
        with open(f"/proc/self/fdinfo/{fd}") as file:
            words = file.read().split()
        found[name] = int(words[words.index("mnt_id:") + 1])
        os.close(fd)
    return found


def devices() -> dict[str, str]:
    found = {}
    for name in os.listdir("/dev"):
        at = os.lstat(f"/dev/{name}")
        if stat.S_ISLNK(at.st_mode):
            found[name] = os.readlink(f"/dev/{name}")
        elif stat.S_ISCHR(at.st_mode):
            found[name] = f"{os.major(at.st_rdev)}:{os.minor(at.st_rdev)}"
        else:
            found[name] = oct(at.st_mode)
    return found


def writable() -> list[str]:
    """Mount points and directories at the top in which a file can be made."""
    places = {mount["point"] for mount in mounts()} | {f"/{name}" for name in os.listdir("/")}
    found = []
    for place in sorted({"/", "/var", "/run/credentials", "/tmp/home", *map(str, places)}):
        probe = f"{place}/written-by-a-handler"
        try:
            os.close(os.open(probe, os.O_CREAT | os.O_WRONLY))
        except OSError:
            continue
        os.unlink(probe)
        found.append(place)
    return found


def text(path: str) -> str:
    with open(path) as file:
        return file.read()


def status() -> dict[str, str]:
    with open("/proc/self/status") as file:
        return {key: value.strip() for key, _, value in (line.partition(":") for line in file)}


def id_map(name: str) -> list[list[int]]:
    with open(f"/proc/self/{name}") as file:
        return [[int(word) for word in line.split()] for line in file]


if __name__ == "__main__":
    print(
        json.dumps(
            {
                "root": sorted(os.listdir("/")),
                "mounts": mounts(),
                "descriptors": descriptors(),
                "directory_mounts": directory_mounts(),
                "devices": devices(),
                "writable": writable(),
                "status": status(),
                "uid_map": id_map("uid_map"),
                "gid_map": id_map("gid_map"),
                "core_limit": resource.getrlimit(resource.RLIMIT_CORE),
                "processes": sorted(int(n) for n in os.listdir("/proc") if n.isdigit()),
                "hostname": os.uname().nodename,
                "cgroup": text("/proc/self/cgroup"),
                "pid": os.getpid(),
                "parent": os.getppid(),
                "session": os.getsid(0),
                "umask": os.umask(0),
            }
        )
    )
