"""The witness: the newest position and digest, kept in a second directory (J10).

Whoever restores an old copy of the journal restores a history that is intact, and that
has forgotten effects which were made. The witness remembers how far the journal was, so
that the next start refuses (JournalRolledBack) until a person accepts it with a reason.

It is written at start, every few seconds while decisions are made, and at a clean stop:
each time whole, synced and renamed. So a roll-back by less than that is not seen, and
nor is one that took the witness back as well, as a restored virtual machine does.

Only decisions are witnessed: a mark says nothing that could be lost. Standard library
only. One thread at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from supervisor.journal import durably, lock
from supervisor.journal.anchor import Sightings, identity_of, now
from supervisor.journal.chain import UNKNOWN, Tip
from supervisor.journal.codec import Line
from supervisor.journal.errors import JournalIOError, JournalRolledBack, WitnessUnusable
from supervisor.journal.file import REAL

FORMAT = 1
NAME = "witness.json"
_REFUSED = (
    "Restore the newest journal. If it is lost, settle what was done since (docs/backup.md), "
    "then start once with --accept-rollback REASON."
)


class Witnessed(NamedTuple):
    """What the witness saw last. `generation` counts accepted roll-backs from 1; `accepted`
    is the reason that was given for the newest of them."""

    journal: str
    position: int
    digest: str
    at: str
    generation: int = 1
    accepted: str = ""


def encode(testimony: Witnessed) -> bytes:
    body = json.dumps({"format": FORMAT, **testimony._asdict()}, sort_keys=True)
    return f"{body} {crc32(body.encode()):08x}\n".encode("ascii")


def decode(content: bytes) -> Witnessed:
    """Raises ValueError for anything that `encode` did not make."""
    body, _, check = content.decode("ascii").rstrip("\n").rpartition(" ")
    if check != f"{crc32(body.encode()):08x}":
        raise ValueError("its checksum does not fit")
    value: dict[str, Any] = json.loads(body)
    if value.pop("format") != FORMAT:
        raise ValueError("a newer version wrote it")
    return Witnessed(**value)


class Witness:
    """One daemon's hold on a witness directory.

    It watches a journal being read (`see`), judges it (`settle`), then goes with it
    (`keep`). `told` is the last testimony on disk, None before the first.
    """

    def __init__(self, directory: Path, fd: int, told: Witnessed | None, accept: str) -> None:
        """Use `open`."""
        self.directory = directory
        self.told = told
        self.accepted = ""
        """What an accepted roll-back forgets and why, to be journaled; "" when there is none."""
        self._fd = fd
        self._accept = accept
        self._journal = UNKNOWN
        self._generation = 1 if told is None else told.generation
        self._reason = "" if told is None else told.accepted
        self._seen = Sightings([] if told is None else [told.position])

    @classmethod
    def open(cls, directory: Path, *, accept: str = "", lock_wait_ms: int = 0) -> Witness:
        """Make the directory, lock it, read it. `accept` is the reason for a roll-back.

        Raises JournalLocked and WitnessUnusable.
        """
        try:
            durably.make_directory(directory)
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise _unusable(directory, error) from error
        try:
            lock.take(REAL, fd, directory, wait_ms=lock_wait_ms)
            return cls(directory, fd, _read(directory / NAME), accept)
        except BaseException:
            os.close(fd)
            raise

    @property
    def positions(self) -> tuple[int, ...]:
        """Where the journal must show what was seen."""
        return () if self.told is None else (self.told.position,)

    def see(self, line: Line) -> None:
        """One line of the journal as it is read, in order; not all that are at no such place."""
        self._seen.see(line)

    def settle(self, tip: Tip) -> None:
        """Judge what was seen. Raises JournalRolledBack unless a new reason accepts it."""
        self._journal = tip.journal
        told = self.told
        if told is None:
            return
        if self._journal == UNKNOWN and tip.position:
            self._journal = told.journal
        contradiction = self._contradiction(told, tip)
        if not contradiction:
            return
        if not self._accept:
            raise JournalRolledBack(contradiction, self._fix(tip))
        if self._accept == told.accepted:
            fix = "Give a reason of its own: each is good for one roll-back, so that an option left"
            raise JournalRolledBack(
                f"{contradiction}; and the reason {self._accept!r} accepted an earlier roll-back",
                f"{fix} behind accepts nothing by itself.",
            )
        self.accepted = f"{contradiction}; accepted: {self._accept}"

    def _contradiction(self, told: Witnessed, tip: Tip) -> str:
        """What the journal lacks that the witness saw, in a sentence; "" when nothing."""
        if self._seen.shows(told.position, told.digest):
            return ""
        saw = f"the witness in {self.directory} saw position {told.position} at {told.at}"
        if UNKNOWN != self._journal != told.journal != UNKNOWN:
            return f"{saw} of journal {told.journal}, and this is journal {self._journal}"
        if tip.position == 0:
            return f"{saw}, and the journal is empty: what was done up to it is forgotten"
        if tip.position < told.position:
            return (
                f"{saw}, and the journal ends at position {tip.position}: an old state was "
                "restored, and what was done after it is forgotten"
            )
        if self._seen.first is not None and told.position <= self._seen.first:
            return ""  # before what was read: the state it began with vouches for that
        if not self._seen.stands(told.position):  # nothing but a repair leaves positions out
            return (
                f"{saw}, and a repair of the journal gave it up: what was done in it is forgotten"
            )
        return (
            f"{saw}, and the journal has something else there: an old state was restored and "
            "written on, and what the witness saw is forgotten"
        )

    def _fix(self, tip: Tip) -> str:
        if tip.position:
            return _REFUSED
        return f"{_REFUSED} If all is meant to begin anew, remove {self.directory} as well."

    @property
    def unneeded(self) -> bool:
        """Whether a reason was given and there was nothing to accept."""
        return bool(self._accept) and not self.accepted

    def keep(self, directory: Path, position: int, digest: str) -> None:
        """Bear witness to a durable decision of the journal in `directory`. Two syncs, or
        none when it was told already. Raises OSError; then the old testimony stands."""
        told = self.told
        same = told is not None and (told.position, told.digest) == (position, digest)
        if same and not self.accepted:
            return
        if self._journal == UNKNOWN:
            self._journal = identity(directory)
        if self.accepted and told is not None:
            durably.replace(self.directory / f"forgotten-{told.generation}.json", encode(told))
            self._generation, self._reason = told.generation + 1, self._accept
        made = Witnessed(self._journal, position, digest, now(), self._generation, self._reason)
        durably.replace(self.directory / NAME, encode(made))
        self.told, self.accepted = made, ""

    def close(self) -> None:
        """Let another daemon have the directory."""
        with contextlib.suppress(OSError):
            REAL.unlock(self._fd)
        os.close(self._fd)


def identity(directory: Path) -> str:
    """The identity of a journal, from its first segment alone."""
    first = min((one for one in directory.iterdir() if one.suffix == ".jnl"), default=None)
    return UNKNOWN if first is None else identity_of(lambda most: _beginning(first, most))


def _beginning(file: Path, most: int) -> bytes:
    with file.open("rb") as opened:
        return opened.read(most)


def _read(file: Path) -> Witnessed | None:
    try:
        return decode(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JournalIOError(f"reading {file}", error) from error
    except (ValueError, TypeError, KeyError) as error:
        raise WitnessUnusable(
            f"the witness {file} cannot be read: {error}",
            "Restore it, or move it away: then the next start begins a new one, and cannot "
            "tell whether the journal was rolled back.",
        ) from error


def _unusable(directory: Path, error: OSError) -> WitnessUnusable:
    return WitnessUnusable(
        f"witness_dir {directory}: {error.strerror}",
        "Create it for the daemon's user, best on another disk than the journal, or name "
        "another one.",
    )
