"""What can be wrong with a journal: one class a remedy, each with its `fix` in words.

Standard library only: the offline tools raise these on a bare Python.
"""

from __future__ import annotations

import errno
from typing import NamedTuple


class Damage(NamedTuple):
    """Where the proven prefix ends and what stands behind it.

    `first` is the first position that cannot be read; `last` the last one known to be
    lost, or None when nothing behind the damage says how far it reaches.
    """

    file: str
    offset: int
    first: int
    last: int | None
    why: str
    after: str

    def describe(self) -> str:
        """One line for people."""
        reach = f"position {self.first}" if self.first == self.last else f"from {self.first}"
        if self.last is not None and self.last > self.first:
            reach = f"positions {self.first}..{self.last}"
        return f"{self.file} at byte {self.offset} ({reach}): {self.why}; {self.after}"


class JournalError(Exception):
    """Base of the journal's faults. `fix` says what a person can do about it."""

    fix = "Run `effectctl journal verify` on the journal's directory."


class JournalLocked(JournalError):  # noqa: N818 - the names are the public error codes
    """Another process holds the journal. `holder` names it as far as the kernel tells."""

    def __init__(self, directory: str, holder: str) -> None:
        super().__init__(f"{directory} is held by {holder}")
        self.holder = holder
        self.fix = f"End {holder}, or use another state directory; the lock ends with its holder."


class JournalCorrupt(JournalError):  # noqa: N818
    """Bytes that were durable are damaged or missing. Nothing was changed on disk."""

    def __init__(self, report: Damage) -> None:
        super().__init__(f"journal damaged: {report.describe()}")
        self.report = report
        self.fix = (
            (
                f"Copy the directory first, then move {report.file} out of it: the older snapshot "
                "or the whole journal serves in its place."
            )
            if report.file.startswith("snap-")
            else (
                f"Copy the directory first, then restore {report.file} from a backup; "
                "without one, `effectctl journal repair` says what is lost and can give it up."
            )
        )


class JournalTooNew(JournalError):  # noqa: N818
    """Written by a newer version than this one. Nothing was changed on disk."""

    def __init__(self, file: str, what: str) -> None:
        super().__init__(f"{file}: {what} is newer than this version reads")
        self.file = file
        self.fix = "Start the version that wrote it, or a newer one."


class JournalRolledBack(JournalError):  # noqa: N818
    """The witness has seen what the journal does not have. Nothing was changed on disk."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


class WitnessUnusable(JournalError):  # noqa: N818
    """The witness cannot be read or kept, so a roll-back would not be noticed."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


class AnchorUnreadable(JournalError):  # noqa: N818
    """What was given as anchors is none, or was altered on its way."""

    fix = "Give the file with the lines that `effectctl journal anchor` printed, unchanged."


class NothingToAnchor(JournalError):  # noqa: N818
    """No line is proven durable yet."""

    def __init__(self, directory: str) -> None:
        super().__init__(f"{directory}: no decision is proven durable yet")
        self.fix = "Start the daemon on it once; a quiet moment later there is something to anchor."


class BackupRefused(JournalError):  # noqa: N818
    """No backup was made, and nothing of one is left."""

    fix = "Name a directory that is new; remove what an interrupted backup left (.NAME.partial)."


_NO_ROOM = "Free space on the journal's file system, then start again."
_FIXES = {
    errno.EIO: "Look at the kernel's messages about this disk, then start again.",
    errno.ENOSPC: _NO_ROOM,
    errno.EDQUOT: _NO_ROOM,
    errno.EROFS: (
        "Look at the kernel's messages about this disk; mount it writable, then start again."
    ),
}


class JournalIOError(JournalError):
    """The system refused to read or prepare the journal. Nothing is known to be damaged."""

    def __init__(self, what: str, cause: OSError) -> None:
        super().__init__(f"{what}: {cause}")
        self.errno = cause.errno
        self.fix = _FIXES.get(cause.errno or 0, _FIXES[errno.EIO])


class JournalFull(JournalError):  # noqa: N818
    """The frame would use room that is kept for outcomes. Nothing was queued."""

    def __init__(self, size: int, keep: int, room: int, reason: str | None) -> None:
        why = f" ({reason})" if reason else ""
        super().__init__(f"{size} bytes with {keep} kept back need more than the {room} left{why}")
        self.fix = "Free space on the journal's file system; new work is taken again by itself."


class JournalPoisoned(JournalError):  # noqa: N818
    """A write or sync failed: what was queued since may or may not be on disk.

    `durable_position` is the last position that is certain; `cause` what the system said.
    """

    fix = "Look at the kernel's messages about this disk, then restart: the restart reads the disk."

    def __init__(self, file: str, cause: BaseException, durable_position: int) -> None:
        super().__init__(
            f"writing {file} failed: {cause}; whether anything after position "
            f"{durable_position} is on disk is unknown until a restart reads it"
        )
        self.file = file
        self.cause = cause
        self.durable_position = durable_position
