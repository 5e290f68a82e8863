"""From a trace to what was denied: every rule applied, each denial once."""

from __future__ import annotations

import os

from supervisor.cli.denials.files import FileRule, touches
from supervisor.cli.denials.limits import of_call, of_signal
from supervisor.cli.denials.lines import Call, Reader
from supervisor.cli.denials.sockets import SocketRule
from supervisor.cli.denials.values import Denial, Outside, Policy, is_broad, within

MOST = 200
START = "/tmp"  # noqa: S108 - where every handler starts, in the sandbox's own
# So many files of one directory are told as that directory.
MANY = 4
# These only ask whether something is there.
_LOOKS = (
    "stat lstat stat64 lstat64 newfstatat fstatat64 statx access faccessat faccessat2 readlink"
    " readlinkat statfs"
)
LOOKS = frozenset(_LOOKS.split())
# Judged when they succeed too: they tell whom a socket is for, and how it went.
_TELLING = frozenset({"connect", "bind", "getsockopt"})


class Judge:
    """Takes a trace line by line; `found` is what was denied so far.

    `init` is the pid of the sandbox's PID 1, whose own calls are nobody's concern.
    """

    def __init__(self, policy: Policy, outside: Outside, uid: int, *, init: int) -> None:
        self._files = FileRule(policy, outside, uid)
        self._sockets = SocketRule(policy, outside)
        self._outside = outside
        self._init = init
        self._reader = Reader()
        self._folders: dict[int, str] = {}
        self._found: dict[tuple[str, str], Denial] = {}
        self._made: set[str] = set()

    @property
    def found(self) -> list[Denial]:
        """Each denial once, in the order of their first; what covers others in their place."""
        return gathered(list(self._found.values()), self._made, self._outside)

    def feed(self, line: str) -> None:
        """One line of strace's, without its end."""
        for one in self._reader.feed(line):
            if one.pid == self._init:
                continue
            denial = self._of_call(one) if isinstance(one, Call) else of_signal(one)
            if denial is not None and len(self._found) < MOST:
                # Where nothing in particular was wanted, once for each reason.
                self._found.setdefault((denial.key, denial.value or denial.why), denial)

    def _of_call(self, call: Call) -> Denial | None:
        folder = self._folder(call)
        if not call.error and call.name not in _TELLING:
            return None
        if call.name in {"mkdir", "mkdirat"}:
            self._made.update(touch.path for touch in touches(call, folder))
        return of_call(call) or self._sockets.judge(call) or self._files.judge(call, folder)

    def _folder(self, call: Call) -> str:
        """Where the process stands: as a descriptor of the call says, or as it last went."""
        known = self._folders.get(call.pid, START)
        said = call.place(0) if call.arguments[0].startswith("AT_FDCWD<") else None
        if call.name == "chdir" and not call.error:
            said = os.path.normpath(os.path.join(known, call.text(0) or "."))  # noqa: PTH118 - by the letter
        if call.name == "fchdir" and not call.error:
            said = call.place(0)
        if said and said.startswith("/"):
            self._folders[call.pid] = known = said
        return known


def gathered(found: list[Denial], made: set[str], outside: Outside) -> list[Denial]:
    """Denials with what covers others in their place.

    A directory that the handler wanted to make, and that is there, is where it would have written:
    what it looked for there is wanted to write.
    """
    turned = [
        one._replace(key="write")
        if one.key == "read" and within(one.value, made) and outside.kind(one.value) == "directory"
        else one
        for one in found
    ]
    others = [one for one in turned if one.key not in {"read", "write"}]
    writes = _covered([one for one in turned if one.key == "write"])
    # What may be written to is seen as well.
    seen = [one.value for one in writes]
    reads = [one for one in turned if one.key == "read" and not within(one.value, seen)]
    return [*others, *_covered(reads), *writes]


def _covered(found: list[Denial]) -> list[Denial]:
    """Of one key: a directory for many files in it, and nothing that lies in another's path."""
    paths = {one.value for one in found}
    # That a directory was looked at on the way to something in it is no wish for all of it.
    kept = {
        one.value: one
        for one in found
        if not (_looked(one) and any(within(p, [one.value]) for p in paths - {one.value}))
    }
    for folder, group in _by_folder(list(kept.values())).items():
        if len(group) >= MANY and not is_broad(folder):
            kept[folder] = group[0]._replace(value=folder)
    return [
        one
        for path, one in kept.items()
        if not any(within(path, [other]) for other in kept if other != path)
    ]


def _looked(denial: Denial) -> bool:
    return denial.call.partition(" ")[0] in LOOKS


def _by_folder(found: list[Denial]) -> dict[str, list[Denial]]:
    groups: dict[str, list[Denial]] = {}
    for one in found:
        groups.setdefault(os.path.dirname(one.value), []).append(one)  # noqa: PTH120 - by the letter
    return groups
