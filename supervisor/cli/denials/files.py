"""The rule for paths: a call that fails inside, and outside would not.

Pure but for its questions to `Outside`.
"""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from supervisor.cli.denials.lines import Call
from supervisor.cli.denials.noise import is_noise
from supervisor.cli.denials.values import Denial, Outside, Policy, is_broad

Want = Literal["read", "write", "create", "folder", "entry"]
"""`entry`: a directory's entry is changed, so it is the directory that must be writable; `create`
and `folder`: likewise, when nothing is there yet."""

MISSING = frozenset({"ENOENT", "ENOTDIR"})
REFUSED = frozenset({"EACCES", "EPERM", "EROFS"})


class _Argument(NamedTuple):
    want: Want
    path: int
    folder: int | None = None  # the descriptor that a relative path starts from


def _plain(want: Want, *paths: int) -> tuple[_Argument, ...]:
    return tuple(_Argument(want, path) for path in paths)


def _at(want: Want, *folders: int) -> tuple[_Argument, ...]:
    return tuple(_Argument(want, folder + 1, folder) for folder in folders)


_READS = (
    "open stat lstat stat64 lstat64 access readlink chdir statfs execve getxattr lgetxattr"
    " listxattr llistxattr"
)
_READS_AT = "openat openat2 newfstatat fstatat64 statx faccessat faccessat2 readlinkat execveat"
_WRITES = "chmod chown lchown utime utimes truncate setxattr lsetxattr removexattr"
_WRITES_AT = "fchmodat fchmodat2 fchownat utimensat futimesat"

CALLS: dict[str, tuple[_Argument, ...]] = {
    **dict.fromkeys(_READS.split(), _plain("read", 0)),
    **dict.fromkeys(_READS_AT.split(), _at("read", 0)),
    "inotify_add_watch": _plain("read", 1),
    **dict.fromkeys(_WRITES.split(), _plain("write", 0)),
    **dict.fromkeys(_WRITES_AT.split(), _at("write", 0)),
    "creat": _plain("create", 0),
    "mkdir": _plain("folder", 0),
    "mkdirat": _at("folder", 0),
    **dict.fromkeys(("mknod", "unlink", "rmdir"), _plain("entry", 0)),
    **dict.fromkeys(("mknodat", "unlinkat"), _at("entry", 0)),
    **dict.fromkeys(("rename", "link"), _plain("entry", 0, 1)),
    **dict.fromkeys(("renameat", "renameat2", "linkat"), _at("entry", 0, 2)),
    "symlink": _plain("entry", 1),
    "symlinkat": (_Argument("entry", 2, 1),),
}
# These change what a descriptor leads to: on a read-only mount too, if it was opened to read.
ON_DESCRIPTOR = frozenset({"fchmod", "fchown", "fsetxattr", "fremovexattr"})


class Touch(NamedTuple):
    """A path that a failed call was about, and what was wanted of it."""

    want: Want
    path: str


def touches(call: Call, folder: str) -> list[Touch]:
    """What a call wanted of which paths; `folder` is where its process stands."""
    if call.name in ON_DESCRIPTOR:
        place = call.place(0) or ""
        return [Touch("write", place)] if place.startswith("/") else []
    found: list[Touch] = []
    for want, index, at in CALLS.get(call.name, ()):
        text = call.text(index)
        if not text:
            continue
        start = folder if at is None else call.place(at) or folder
        path = os.path.normpath(os.path.join(start, text))  # noqa: PTH118 - by the letter, as the call
        found.append(Touch(_wanted(call, want), path))
    return found


def _wanted(call: Call, usual: Want) -> Want:
    """What an open or an access wants depends on its flags."""
    said = call.word
    if call.name.startswith("open"):
        if "O_CREAT" in said or "O_TMPFILE" in said:
            return "create"
        return "write" if any(f in said for f in ("O_WRONLY", "O_RDWR", "O_TRUNC")) else "read"
    if call.name in {"access", "faccessat", "faccessat2"} and "W_OK" in said:
        return "write"
    return usual


class FileRule:
    """Judges failed calls on paths for one handler, which runs as `uid`."""

    def __init__(self, policy: Policy, outside: Outside, uid: int) -> None:
        self._policy, self._outside, self._uid = policy, outside, uid

    def judge(self, call: Call, folder: str) -> Denial | None:
        """The denial that a failed call was, if it was one."""
        if call.error not in MISSING | REFUSED:
            return None
        for want, path in touches(call, folder):
            found = self.judge_path(path, want, call.error, f"{call.name} {path}")
            if found is not None:
                return found
        return None

    def judge_path(self, path: str, want: Want, error: str, said: str) -> Denial | None:
        """The same for one path, whoever tells of it; `said` is how the call is shown."""
        if is_noise(path):
            return None
        shown = f"{said}: {error}"
        if self._policy.hides(path):
            return self._own(path, shown)
        if path.startswith("/run/credentials/"):
            return self._secret(path, shown)
        if want == "read":
            return self._missing(path, "read", error, shown)
        there = self._outside.kind(path)
        if want == "write" or (want == "create" and there == "file"):
            if error in MISSING:
                return self._missing(path, "write", error, shown)
            return self._write(path, error, shown)
        if want == "folder" and there:
            return None  # it fails outside as well
        return self._write(os.path.dirname(path), error, shown)  # noqa: PTH120 - by the letter

    def _own(self, path: str, shown: str) -> Denial | None:
        if not self._outside.kind(path):
            return None
        return Denial("", "", shown, "it is effectd's own, and no handler sees it", OWN_FIX)

    @staticmethod
    def _secret(path: str, shown: str) -> Denial:
        name = path.removeprefix("/run/credentials/").partition("/")[0]
        fix = f'Declare it above the tables: secrets = ["{name}"], and put it into secrets_dir.'
        return Denial("", "", shown, "the manifest does not declare this secret", fix)

    def _missing(
        self, path: str, key: Literal["read", "write"], error: str, shown: str
    ) -> Denial | None:
        """A path that is to be read, or a file to be written to, and is not seen inside."""
        outside, policy = self._outside, self._policy
        if not outside.kind(path):
            return None
        if not policy.shows(path):
            return self._suggested(key, path, shown, "it is there, and hidden from this handler")
        target = outside.real(path)
        if error in MISSING and target != path and not policy.shows(target):
            if policy.hides(target):
                return self._own(target, shown)
            return self._suggested(key, target, shown, f"it leads to {target}, which is hidden")
        if error in REFUSED and not outside.may(path, "read"):
            fix = f"Give it to uid {self._uid}, or let others read it (chmod o+r)."
            return Denial("", "", shown, f"uid {self._uid} may not read it", fix)
        return None

    def _write(self, place: str, error: str, shown: str) -> Denial | None:
        outside, policy = self._outside, self._policy
        if not outside.kind(place):
            return None
        if policy.writes(place):
            return self._unwritable(place, error, shown)
        if is_broad(place):
            return Denial("", "", shown, f"{place} is the whole system's", BROAD_FIX)
        hidden = "read-only" if policy.shows(place) else "hidden"
        return self._suggested("write", place, shown, f"{place} is {hidden} for this handler")

    def _unwritable(self, place: str, error: str, shown: str) -> Denial | None:
        """It is declared, and still cannot be written to."""
        if error == "EROFS":
            fix = f"When the unit protects it, a drop-in: [Service] ReadWritePaths={place}"
            return Denial("", "", shown, f"{place} is mounted read-only outside too", fix)
        if error not in MISSING and not self._outside.may(place, "write"):
            fix = f"chown {self._uid} {place}"
            return Denial("", "", shown, f"uid {self._uid} may not write to {place}", fix)
        return None

    def _suggested(self, key: Literal["read", "write"], path: str, shown: str, why: str) -> Denial:
        if is_broad(path):
            return Denial("", "", shown, f"{path} is there, and too broad to be shown", BROAD_FIX)
        fix = ""
        if not self._outside.may(path, key):
            way = "read it (chmod o+r)" if key == "read" else f"write to it (chown {self._uid})"
            fix = f"let uid {self._uid} {way}"
        return Denial(key, path, shown, why, fix)


OWN_FIX = "A secret of its own is declared with secrets = [...], and is a file in /run/credentials."
BROAD_FIX = "Give the handler a directory of its own, say below /var/lib, and declare that."
