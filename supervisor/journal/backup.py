"""Copy a journal while its daemon runs: a consistent one, or none.

The copy is made under another name, proven, synced, and renamed. Of the newest segment
it holds what is proven durable and filler behind that, so it reads as a journal that
stopped there. Everything else in the directory goes along, known or not, but what the
next start makes anew (LOCK, spares, temporary files). The blobs beside the journal are
copied after it: what the copied journal names is there already.

Nothing is locked or changed in the original. Standard library only.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import NamedTuple

from supervisor.journal import anchor as anchors
from supervisor.journal import durably
from supervisor.journal.anchor import HOLDS, Anchor
from supervisor.journal.codec import FILLER, Header, Line, aligned, parse, parse_header
from supervisor.journal.errors import BackupRefused, JournalCorrupt, JournalIOError
from supervisor.journal.verify import verify

ANCHOR = "ANCHOR"
JOURNAL = "journal"
# Beside the journal in a state directory; handlers' output may go, and is large.
BESIDE = ("blobs",)
_MADE_ANEW = frozenset({".spare", ".tmp"})
_QUIET_MS = 250
_LOOK_MS = 25
# Each meets a segment that was completed meanwhile: under a small `segment_bytes` that is often.
_ROUNDS = 20


class _MovedOnError(FileNotFoundError):
    """The journal that was looked at is not there any more as it was."""


class Backup(NamedTuple):
    """`place` holds `journal/`, what stood beside it, and the file ANCHOR, whose line is
    `anchor`; `unknown` names what was copied without knowing what it is."""

    place: Path
    anchor: Anchor
    files: int
    bytes: int
    unknown: tuple[str, ...]


def backup(directory: Path, place: Path) -> Backup:
    """Copy the journal in `directory` (and what stands beside it) to `place`, which is new.

    Raises BackupRefused, JournalCorrupt (a damaged journal is no backup), JournalTooNew,
    NothingToAnchor and JournalIOError; then nothing is left at `place`.
    """
    place = place.absolute()
    partial = place.with_name(f".{place.name}.partial")
    known = anchors.newest(directory)
    try:
        _refuse_taken(place, partial)
        partial.mkdir(mode=0o700)
    except OSError as error:
        raise JournalIOError(f"making {partial}", error) from error
    try:
        copied, unknown, durable = _copy(directory, partial / JOURNAL)
        made = _proven(partial / JOURNAL, known, durable)
        for name in BESIDE:
            copied += _copy_tree(directory.parent / name, partial / name)
        durably.append_line(partial / ANCHOR, made.text)
        _sync_tree(partial)
        _refuse_taken(place, None)
        partial.rename(place)
        durably.sync(place.parent)
    except OSError as error:
        raise JournalIOError(f"copying {directory} to {place}", error) from error
    finally:
        if partial.exists():
            shutil.rmtree(partial, ignore_errors=True)
    return Backup(place, made, len(copied), sum(copied), tuple(unknown))


def _refuse_taken(place: Path, partial: Path | None) -> None:
    for one in (place, partial):
        if one is not None and (one.exists() or one.is_symlink()):
            raise BackupRefused(f"{one} is there already; nothing was copied")


def _proven(copy: Path, known: Anchor, durable: int) -> Anchor:
    """An anchor for the copy, which is whole and has at least what was `known` before it.

    What proved its last batch `durable` in the original may be too new to be in the copy.
    """
    report = verify(copy, anchors=[known])
    if report.damage is not None:
        raise JournalCorrupt(report.damage)
    if [one.finding for one in report.anchors] != [HOLDS]:
        raise BackupRefused(f"the copy does not prove: {report.problem or report.anchors[0].why}")
    return anchors.newest(copy, durable=durable)


def _copy(directory: Path, target: Path) -> tuple[list[int], list[str], int]:
    """The sizes of all that was copied, the names that are no journal's, and the position
    up to which the original proves itself durable.

    A daemon may begin a segment meanwhile, or take some away (a snapshot covers them);
    then all begins again.
    """
    left = _ROUNDS
    while True:
        left -= 1
        try:
            return _copy_once(directory, target)
        except FileNotFoundError:
            if not left or not directory.is_dir():
                raise
            shutil.rmtree(target, ignore_errors=True)


def _copy_once(directory: Path, target: Path) -> tuple[list[int], list[str], int]:
    target.mkdir(mode=0o700)
    found = sorted(directory.iterdir())
    segments = [one for one in found if one.suffix == ".jnl"]
    others = [one for one in found if one.suffix not in {".jnl", *_MADE_ANEW}]
    copied = [_copy_file(one, target / one.name) for one in segments[:-1]]
    unknown: list[str] = []
    durable = 0
    for one in segments[-1:]:
        content, durable = _settled(one)
        (target / one.name).write_bytes(content)
        copied.append(len(content))
    for one in others:
        if one.name == "LOCK":
            continue
        sizes = _copy_tree(one, target / one.name)
        copied += sizes
        if sizes and not _is_known(one.name):
            unknown.append(one.name)
    return copied, unknown, durable


def _is_known(name: str) -> bool:
    snapshot = name.startswith("snap-") and name.endswith(".json")
    return snapshot or name in {anchors.EXPORTED, "quarantine"}


def _settled(segment: Path) -> tuple[bytes, int]:
    """The newest segment up to where its own lines prove it durable, and that position.

    A writer proves its last batch within a moment of quiet; where nothing changes and
    nothing proves it, nobody is writing, and the next start would keep it: it is kept.
    Bytes behind the last line are a batch half written, or torn by a crash: left out.
    """
    since = time.monotonic_ns()
    content = segment.read_bytes()
    while True:
        proven, end, durable = _ends(content)
        if proven == end and not content[end:].strip(FILLER):
            return content, durable
        time.sleep(_LOOK_MS / 1000)
        again = segment.read_bytes()
        if again != content:
            proven, _, durable = _ends(again)
            return _cut(again, proven), durable
        if time.monotonic_ns() - since >= _QUIET_MS * 1_000_000:
            _refuse_sealed(segment)
            return _cut(content, end), durable


def _refuse_sealed(segment: Path) -> None:
    """A segment is quiet for ever once the next one, which proves it, was begun."""
    if any(one.name > segment.name for one in segment.parent.glob("*.jnl")):
        raise _MovedOnError(f"{segment} is not the newest any more")


def _ends(content: bytes) -> tuple[int, int, int]:
    """Where the last line ends that a later one proves durable, where the last one does, and
    the highest position that any of them proves durable.

    Marks need no proof: they say nothing. Damage before what was proven once, the proof of
    the copy finds.
    """
    header = parse(content, 0, len(content))
    layout = None if header is None else parse_header(header.payload)
    if header is None or layout is None:
        return len(content), len(content), 0
    waiting: list[tuple[int, int]] = []
    proven = end = header.end
    durable = header.durable
    line = _next(content, end, layout)
    while line is not None:
        end, durable = line.end, max(durable, line.durable)
        waiting.append((line.position, end))
        while waiting and waiting[0][0] <= line.durable:
            proven = waiting.pop(0)[1]
        if line.payload.startswith(b"{") and len(waiting) == 1:
            proven = waiting.pop()[1]
        line = _next(content, end, layout)
    return proven, end, durable


def _next(content: bytes, end: int, layout: Header) -> Line | None:
    line = parse(content, end, len(content))
    start = aligned(end, layout.align)
    return line if line is not None or start == end else parse(content, start, len(content))


def _cut(content: bytes, end: int) -> bytes:
    return content[:end] + FILLER * (len(content) - end)


def _copy_tree(source: Path, target: Path) -> list[int]:
    """Sizes of the regular files below `source`; what is a link or a device stays behind."""
    if source.is_symlink() or not source.exists():
        return []
    if source.is_dir():
        target.mkdir(mode=0o700)
        inner = sorted(source.iterdir())
        return [size for one in inner for size in _copy_tree(one, target / one.name)]
    return [_copy_file(source, target)] if source.is_file() else []


def _copy_file(source: Path, target: Path) -> int:
    shutil.copy2(source, target, follow_symlinks=False)
    return target.stat().st_size


def _sync_tree(place: Path) -> None:
    for one in place.iterdir():
        if one.is_dir():
            _sync_tree(one)
        else:
            durably.sync(one)
    durably.sync(place)
