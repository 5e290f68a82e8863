"""Snapshots: the whole fold at one durable position, so that a start need not read the rest.

    snap-000000119002.json
        {"digest":"...","end":81920,"format":1,"front":"...","journal":"...","k":"snapshot",
         "position":119002,"segment":"..."}                          (in one line)
        <the content: lines, whatever the caller folds>
        sha256 <64 hex digits over everything before this line>

The first line names a place in the chain: the line that ends at byte `end` of `segment` has
that position and digest; `front` is the SHA-256 of all that was written into the segment up to
there, and left out where nobody can tell; `journal` is the journal's identity (see anchor.py).
Two snapshots are kept, and every segment back to the one that the older names. Standard library
only.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from supervisor.journal.archive import set_aside
from supervisor.journal.codec import Made, TooNew, encode_own, made_payload
from supervisor.journal.file import Os
from supervisor.journal.front import Known
from supervisor.journal.segments import Point, write_whole

FORMAT = 1
KEPT = 2
_NAME = re.compile(r"snap-(\d{12})\.json")
_SEGMENT = re.compile(r"(\d{8})-\d{12}\.jnl")
_FRONT = re.compile(r"([0-9a-f]{64})?")
_CHUNK = 1 << 20
_SEAL = re.compile(rb"\nsha256 ([0-9a-f]{64})\n")
_SEAL_BYTES = len("\nsha256 \n") + 64


class BadSnapshot(Exception):  # noqa: N818 - caught here in the journal, never shown
    """A file that is no whole snapshot; the text says why."""


class Snapshot(NamedTuple):
    """One that is whole: where in the chain it stands, and what it holds."""

    name: str
    point: Point
    journal: str
    seal: str
    content: memoryview


class Place(NamedTuple):
    """Where in which journal a snapshot is taken."""

    point: Point
    journal: str


class Found(NamedTuple):
    """A directory's snapshots: the whole ones, newest first, and what is wrong with others."""

    whole: list[Snapshot]
    bad: dict[str, str]


def snapshot_name(position: int) -> str:
    return f"snap-{position:012}.json"


def snapshots_among(names: Iterable[str]) -> list[str]:
    """Newest first."""
    return sorted((name for name in names if _NAME.fullmatch(name)), reverse=True)


def find(names: Iterable[str], load: Callable[[str], bytes], *, most: int = KEPT) -> Found:
    """Read them, newest first, until `most` are found whole. Raises TooNew, and as `load`."""
    found = Found([], {})
    for name in snapshots_among(names):
        if len(found.whole) == most:
            break
        try:
            found.whole.append(parse(name, load(name)))
        except BadSnapshot as error:
            found.bad[name] = str(error)
    return found


def known(snapshot: Snapshot) -> Known:
    """What a whole snapshot says of the chain."""
    return Known(snapshot.name, *snapshot.point, snapshot.journal, snapshot.seal)


def parse(name: str, content: bytes) -> Snapshot:
    """Raises BadSnapshot, or TooNew for a format that this version does not know."""
    seal = _SEAL.fullmatch(content, max(0, len(content) - _SEAL_BYTES))
    body = memoryview(content)[: -_SEAL_BYTES + 1]
    if seal is None or sha256(body).hexdigest().encode() != seal[1]:
        raise BadSnapshot("cut short or damaged: its checksum does not fit")
    head_end = content.index(b"\n")
    point, journal = _head_of(content[:head_end])
    if snapshot_name(point.position) != name:
        raise BadSnapshot(f"its name is another snapshot's: it holds position {point.position}")
    return Snapshot(name, point, journal, seal[1].decode(), body[head_end + 1 :])


def _head_of(head: bytes) -> tuple[Point, str]:
    try:
        value = json.loads(head)
        if value["format"] != FORMAT:
            raise TooNew(f"format {value['format']}")
        segment = _SEGMENT.fullmatch(value["segment"])
        if segment is None:
            raise BadSnapshot("its first line names no segment")
        front = str(value.get("front", ""))
        if _FRONT.fullmatch(front) is None:
            raise BadSnapshot("its first line has no digest of what comes before it")
        place = int(value["end"]), int(value["position"]), str(value["digest"])
        return Point(int(segment[1]), segment[0], *place, front), str(value["journal"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadSnapshot("its first line is none of a snapshot") from error


def make(
    os_: Os,
    directory: int,
    place: Place,
    content: Iterable[bytes],
    record: Callable[[bytes], None],
) -> str:
    """Make one durably, and have the journal say so; its name.

    The place is durable and `content` the fold up to there, in lines without their newline.
    `record` appends one payload to the journal and returns when it is on disk. Raises
    OSError, and what the two callables raise: then everything is as it was, or there is
    one more snapshot that no record vouches for.
    """
    name = snapshot_name(place.point.position)
    if not os_.exists(directory, name):
        digest = write(os_, directory, place, content)
        record(made_payload(Made(place.point.position, digest)))
    return name


def write(os_: Os, directory: int, place: Place, content: Iterable[bytes]) -> str:
    """The file alone: durable under its name on return; the checksum it ends with."""
    point = place.point
    name = snapshot_name(point.position)
    temporary = f"{name}.tmp"
    if os_.exists(directory, temporary):
        os_.unlink(directory, temporary)
    fd = os_.open(directory, temporary, create=True)
    try:
        digest = _write(os_, fd, place, content)
        os_.fsync(fd)
    except BaseException:
        os_.close(fd)
        os_.unlink(directory, temporary)
        raise
    os_.close(fd)
    os_.rename(directory, temporary, name)
    os_.fsync(directory)
    return digest


def _write(os_: Os, fd: int, place: Place, content: Iterable[bytes]) -> str:
    hashed, offset, pending = sha256(), 0, bytearray(_head(place) + b"\n")

    def flush() -> None:
        nonlocal offset
        hashed.update(pending)
        write_whole(os_, fd, bytes(pending), offset)
        offset += len(pending)
        pending.clear()

    for line in content:
        if b"\n" in line:
            raise ValueError("a snapshot's content is lines, and this is more than one")
        pending += line
        pending += b"\n"
        if len(pending) >= _CHUNK:
            flush()
    flush()
    write_whole(os_, fd, b"sha256 %b\n" % hashed.hexdigest().encode(), offset)
    return hashed.hexdigest()


def _head(place: Place) -> bytes:
    point = place.point
    return encode_own(
        {
            "digest": point.digest,
            "end": point.end,
            "format": FORMAT,
            **({"front": point.front} if point.front else {}),
            "journal": place.journal,
            "k": "snapshot",
            "position": point.position,
            "segment": point.name,
        }
    )


def let_go(os_: Os, directory: int, archive: int | None, *, keep: int = 0) -> None:
    """Snapshots but the two newest, and the segments that not even the older one needs, but
    for the newest `keep`: these go into the directory `archive`, or for good without one.

    Only with two whole ones: a damaged file is no reason to let go of a way to start.
    Raises OSError with everything that a start needs still there; the next one goes on.
    """
    names = os_.listdir(directory)
    whole = _whole(names, lambda name: os_.read_cached(directory, name))
    oldest = next(itertools.islice(whole, KEPT - 1, None), None)
    if oldest is None:
        return
    for name in snapshots_among(names):
        if name < snapshot_name(oldest.position):
            os_.unlink(directory, name)
    superfluous = _superfluous(names, oldest)
    for name in superfluous[: max(len(superfluous) - keep, 0)]:
        if archive is None:
            os_.unlink(directory, name)
        else:
            set_aside(os_, directory, archive, name)
    os_.fsync(directory)


def _whole(names: Iterable[str], load: Callable[[str], bytes]) -> Iterator[Point]:
    """Where the whole ones stand, newest first; one at a time is read."""
    for name in snapshots_among(names):
        with contextlib.suppress(BadSnapshot):
            yield parse(name, load(name)).point


def _superfluous(names: Sequence[str], point: Point) -> list[str]:
    """Segments before the one that `point` is in, oldest first."""
    return sorted(name for name in names if _SEGMENT.fullmatch(name) and name < point.name)
