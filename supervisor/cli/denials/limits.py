"""The rules for limits, and for what no key allows because every sandbox refuses it."""

from __future__ import annotations

import errno

from sandbox.filter import JUDGED, REFUSED
from supervisor.cli.denials.lines import Call, Signal
from supervisor.cli.denials.values import FOREIGN, Denial, Key

STARTS = frozenset({"clone", "clone3", "fork", "vfork"})
WRITES = (
    "write", "pwrite64", "writev", "pwritev", "pwritev2", "fallocate", "ftruncate", "truncate",
    "sendfile", "copy_file_range",
)  # fmt: skip
OPENS = ("pipe", "pipe2", "dup", "epoll_create1", "eventfd2", "inotify_init1", "memfd_create")


# Not the filter's: the user namespace has one user, and the kernel says so.
_USERS = "only one user exists inside: a handler cannot become another user, and sudo has no effect"
_OWNERS = "only one user exists inside, so nothing can be given to another"
OF_USERS: dict[str, str] = {
    **dict.fromkeys(("setuid", "setgid", "setreuid", "setregid", "setresuid"), _USERS),
    **dict.fromkeys(("setresgid", "setgroups", "setfsuid", "setfsgid"), _USERS),
    **dict.fromkeys(("chown", "fchown", "lchown", "fchownat"), _OWNERS),
}
# Of the calls whose arguments decide, those that nothing else would refuse. The others fail for
# an ordinary user outside as well, and sockets have a rule of their own.
JUDGED_HERE = ("clone", "unshare", "personality")
# What the filter answers to what is forbidden. Its ENOSYS is for calls that programs try first and
# do without.
FORBIDDEN = frozenset({"EPERM", "EACCES"})
TRACED = (
    *(name for name, (number, _) in REFUSED.items() if errno.errorcode[number] in FORBIDDEN),
    *JUDGED_HERE,
    *OF_USERS,
    *OPENS,
    *WRITES,
    *("fchmod", "fsetxattr", "fremovexattr", "clone3", "fchdir"),
)
"""What is to be traced for these rules beside the calls on files, sockets and processes."""

OF_SIGNALS: dict[str, tuple[Key, str]] = {
    "SIGXFSZ": ("file_size_max", "a file grew beyond file_size_max"),
    "SIGXCPU": ("cpu_max_ms", "it used more processor time than cpu_max_ms"),
}


def of_call(call: Call) -> Denial | None:
    """The limit that a failed call met, or the refusal that no key lifts."""
    path = call.text(0)
    said = f"{call.name} {path}: {call.error}" if path else f"{call.name}: {call.error}"
    if call.name in STARTS and call.error == "EAGAIN":
        return Denial("tasks_max", "", said, "as many processes and threads as tasks_max allows")
    if call.error == "EMFILE":
        return Denial("files_max", "", said, "as many open files as files_max allows")
    if call.error == "EFBIG" and call.name in WRITES:
        return Denial("file_size_max", "", said, "a file would grow beyond file_size_max")
    if call.error in {"ENOSPC", "EDQUOT"} and call.name in WRITES:
        return _full(call, said)
    if call.error in FORBIDDEN and (call.name in REFUSED or call.name in JUDGED_HERE):
        return Denial("", "", said, _why(call.name))
    # An id that is not mapped inside is what the kernel calls an invalid argument.
    if call.error in {"EPERM", "EINVAL"} and call.name in OF_USERS:
        return Denial("", "", said, OF_USERS[call.name])
    return None


def _why(name: str) -> str:
    """Why a call is refused in every sandbox, as the filter itself has it."""
    why = REFUSED[name][1] if name in REFUSED else JUDGED[name]
    return f"refused in every sandbox: {why}"


def _full(call: Call, said: str) -> Denial | None:
    place = call.place(0) or ""
    if not place.startswith("/tmp/"):  # noqa: S108 - the sandbox's own
        return None
    why = "/tmp inside is in memory, and 64 MiB"  # noqa: S108 - words
    fix = "Declare a directory with write = [...], and set TMPDIR to it in env."
    return Denial("", "", f"{said} ({place})", why, fix)


def of_signal(signal: Signal) -> Denial | None:
    """What a signal from the kernel says of a limit or a refusal."""
    if signal.name == "SIGSYS":
        return Denial("", "", signal.name, FOREIGN, "Use a program of the host's own architecture.")
    if signal.name in OF_SIGNALS:
        key, why = OF_SIGNALS[signal.name]
        return Denial(key, "", signal.name, why)
    return None
