"""What programs look for out of habit and do without: no denial of it is worth a line.

Each is there on some hosts and in no sandbox, so that the rule alone would tell of it.
"""

from __future__ import annotations

from supervisor.cli.denials.values import within

PATHS = (
    # How many processors, how much memory: the C library, Node, Java, Go at their start.
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/sys/fs/selinux",
    "/sys/kernel/security",
    "/selinux",
    # Caches and brokers of the name service: it goes on with its files when they do not answer.
    "/run/nscd",
    "/var/run/nscd",
    "/var/cache/nscd",
    "/var/db/nscd",
    "/run/systemd/userdb",
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/systemd/machines",
    "/run/dbus/system_bus_socket",
    "/var/run/dbus/system_bus_socket",
    "/run/avahi-daemon/socket",
    "/var/run/avahi-daemon/socket",
    "/var/lib/sss",
    "/run/winbindd",
    # A terminal to ask on: a handler has none.
    "/dev/tty",
    "/dev/console",
    # Left by another Java on the host.
    "/tmp/hsperfdata",  # noqa: S108 - a path to compare with
    # Every process's own affairs, or the whole host's; a sandbox has a /proc of its own.
    "/proc",
)


def is_noise(path: str) -> bool:
    """Whether it is looked for out of habit."""
    return within(path, PATHS)
