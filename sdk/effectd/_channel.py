"""The handler's end of fd 3: one JSON object a line, answers matched to what waits for them.

Announcements take turns, so that the one answer without a name belongs to the one that
waits. A confirmation does not wait for them: when the daemon keeps back a leave (after the
deadline it gives none), what was already done must still get through.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from typing import Any, Callable, NoReturn, Optional, cast

from effectd._document import Document

# What the daemon accepts for an announcement, and what nothing it answers is longer than.
MAX_ANNOUNCE_BYTES = 65_536
MAX_LINE_BYTES = 64 << 20
MAX_MESSAGE_CHARS = 1_000
GONE_STATUS = 74  # EX_IOERR: not 1, which a manifest may read as "not applied"
_PIECE = 65_536


class ProtocolError(Exception):
    """The daemon sent something that handler protocol 1 does not have."""


def _gone() -> SystemExit:
    """Nobody is left to answer: end quietly. What was not done had no leave, and what was done
    and could not be reported is settled as unknown. (SystemExit itself, for it is the only
    exception that ends a thread without a word.)
    """
    return SystemExit(GONE_STATUS)


def encode(message: Mapping[str, Any], what: str) -> bytes:
    """One line. Raises TypeError or ValueError, naming `what`, for what JSON cannot carry."""
    try:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{what} is not JSON: {error}") from error


class Channel:
    """Lines over one descriptor, for any number of threads."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._announcing = threading.Lock()
        self._writing = threading.Lock()
        self._news = threading.Condition()
        self._reading = False
        self._gone = False
        self._broken: Optional[ProtocolError] = None
        self._buffer = bytearray()
        self._scanned = 0
        self._asked = False  # an announcement waits for its answer
        self._to_announce: list[Document] = []
        self._to_confirm: dict[int, Document] = {}
        self._confirming: set[int] = set()

    def send(self, line: bytes) -> None:
        """Write one line whole. Raises SystemExit when nobody is left to read it."""
        with self._writing:
            left = memoryview(line)
            while left:
                try:
                    left = left[os.write(self._fd, left) :]
                except OSError:
                    raise _gone() from None

    def announce(self, line: bytes) -> Document:
        """Send an announcement and wait for its `leave`, `applied` or `refused`."""
        with self._announcing:
            with self._news:
                self._asked = True
            self.send(line)
            return self._wait(lambda: self._to_announce.pop() if self._to_announce else None)

    def confirm(self, ordinal: int, line: bytes) -> Document:
        """Send a confirmation and wait for `recorded`, or for its refusal."""
        with self._news:
            self._confirming.add(ordinal)
        try:
            self.send(line)
            return self._wait(lambda: self._to_confirm.pop(ordinal, None))
        finally:
            with self._news:
                self._confirming.discard(ordinal)

    def _wait(self, taken: Callable[[], Optional[Document]]) -> Document:
        # Whoever waits first reads for all; the others are woken by what it finds.
        with self._news:
            while True:
                message = taken()
                if message is not None:
                    return message
                self._raise_if_over()
                if self._reading:
                    self._news.wait()
                else:
                    self._read_some()

    def _raise_if_over(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._gone:
            raise _gone()

    def _read_some(self) -> None:
        """Read once, with the lock given up meanwhile, and file what came."""
        self._reading = True
        self._news.release()
        data = b""
        try:
            data = os.read(self._fd, _PIECE)
        except OSError:
            pass
        finally:
            self._news.acquire()
            self._reading = False
            self._news.notify_all()
        if not data:
            self._gone = True
            return
        self._buffer += data
        try:
            self._file_lines()
        except ProtocolError as error:
            self._broken = error

    def _file_lines(self) -> None:
        while True:
            end = self._buffer.find(b"\n", self._scanned)
            if end < 0:
                self._scanned = len(self._buffer)
                if self._scanned > MAX_LINE_BYTES:
                    raise ProtocolError(f"a line of the daemon's is over {MAX_LINE_BYTES} bytes")
                return
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._scanned = 0
            if line.strip():
                self._file(parse(line))

    def _file(self, message: Document) -> None:
        kind = message.get("type")
        if kind in {"leave", "applied"} or (kind == "refused" and not self._refuses_one(message)):
            if not self._asked:
                raise ProtocolError(f"the daemon answered an announcement nobody made: {kind}")
            self._asked = False
            self._to_announce.append(message)
        elif kind in {"recorded", "refused"}:
            ordinal = message.get("ordinal", next(iter(self._confirming), None))
            if ordinal not in self._confirming:
                raise ProtocolError(f"the daemon answered a confirmation nobody sent: {ordinal!r}")
            self._to_confirm[cast("int", ordinal)] = message
        # Other types are a newer daemon's; the protocol only ever adds to what there is.

    def _refuses_one(self, message: Document) -> bool:
        """Whether a refusal is about a confirmation: it names one, or nothing else is asked."""
        if "ordinal" in message:
            return message["ordinal"] in self._confirming
        return not self._asked and len(self._confirming) == 1


def parse(line: bytes) -> Document:
    """One of the daemon's lines. Raises ProtocolError."""
    try:
        message: object = json.loads(line)
    except (ValueError, RecursionError):
        _garbage(line)
    if not isinstance(message, dict) or not isinstance(cast("Document", message).get("type"), str):
        _garbage(line)
    return cast("Document", message)


def _garbage(line: bytes) -> NoReturn:
    raise ProtocolError(f"not a message of handler protocol 1: {line[:80]!r}")
