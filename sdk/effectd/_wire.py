"""HTTP/1.1 as bytes: requests out, answers in, with every length bounded. No I/O.

Both clients read with the same AnswerReader, so that what one accepts the other does too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union
from urllib.parse import quote, urlencode

from effectd.errors import AnswerLost, BadAnswer

MAX_HEAD_BYTES = 65_536
MAX_ANSWER_BYTES = 64 << 20
MAX_EVENT_BYTES = 4 << 20
_MAX_CHUNK_LINE_BYTES = 1_024

Query = Mapping[str, Union[str, int, None]]


class Response(NamedTuple):
    """An answer: `document` is its JSON, its text when it is not JSON, or None when it is empty."""

    status: int
    document: Any
    headers: Mapping[str, str]  # names in lower case
    body: bytes = b""


class Head(NamedTuple):
    """What stands before an answer's body. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    version: str

    @property
    def keeps_alive(self) -> bool:
        """Whether another request may follow on this connection."""
        wish = self.headers.get("connection", "").lower()
        return self.version == "HTTP/1.1" and wish != "close"


def path(*segments: str, query: Optional[Query] = None) -> str:
    """`/v1/...` with each segment encoded, and those values of `query` that are not None."""
    target = "/v1/" + "/".join(quote(segment, safe="") for segment in segments)
    values = {key: value for key, value in (query or {}).items() if value is not None}
    return f"{target}?{urlencode(values)}" if values else target


def encode_request(method: str, target: str, body: object = None) -> bytes:
    """One request. `body` is sent as JSON unless it is None.

    Raises ValueError for a target with a blank or a control character in it, and for a body
    that JSON cannot carry (NaN, lone surrogates); TypeError for a body that is not JSON's.
    """
    if not target.startswith("/") or any(ch <= " " or ch >= "\x7f" for ch in target):
        raise ValueError(f"not a request path: {target!r}")
    if not (method.isalpha() and method.isascii()):
        raise ValueError(f"not a method: {method!r}")
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "User-Agent: effectd-sdk/1"]
    lines.append("Accept: application/json, application/problem+json, */*")
    payload = b""
    if body is not None:
        payload = encode_json(body)
        lines.append("Content-Type: application/json")
    if payload or method not in {"GET", "HEAD"}:
        lines.append(f"Content-Length: {len(payload)}")
    return "\r\n".join([*lines, "", ""]).encode("ascii") + payload


def encode_json(value: object) -> bytes:
    """Compact UTF-8 JSON on one line. Raises TypeError or ValueError for what JSON cannot carry."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def decode_json(data: bytes, what: str) -> Any:
    """Parse one document, or raise BadAnswer that names `what`."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"{what} is not JSON: {data[:80]!r}") from error


def make_response(head: Head, body: bytes) -> Response:
    """Put an answer together; raises BadAnswer when it calls itself JSON and is not."""
    kind = head.headers.get("content-type", "").partition(";")[0].strip().lower()
    document: Any = None
    if kind == "application/json" or kind.endswith("+json"):
        document = decode_json(body, f"the answer with status {head.status}") if body else None
    elif body:
        document = body.decode("utf-8", "replace")
    return Response(head.status, document, head.headers, body)


class AnswerReader:
    """Reads one answer out of whatever pieces the socket gives.

    `feed` takes bytes, and b"" for the end of the stream; `take` hands out the body so far;
    `done` tells that the answer is complete. Raises AnswerLost when the stream ends too early,
    BadAnswer for what is not HTTP or is longer than `max_body` bytes (None: not bounded here).
    """

    def __init__(self, *, max_body: Optional[int] = MAX_ANSWER_BYTES) -> None:
        self.head: Optional[Head] = None
        self.done = False
        self.reusable = False
        self._max_body = max_body
        self._buffer = bytearray()
        self._body = bytearray()
        self._seen = 0
        self._left = 0
        self._read = self._read_head

    def feed(self, data: bytes) -> None:
        if not data:
            self._end()
            return
        self._buffer += data
        while not self.done and self._read():
            pass
        if self.done and self._buffer:
            self.reusable = False  # more than was asked for: whose answer would that be?

    def take(self) -> bytes:
        taken = bytes(self._body)
        self._body.clear()
        return taken

    def _end(self) -> None:
        if self._read == self._read_to_end and not self.done:
            self.done = True
        elif not self.done:
            part = "in the middle of" if self.head is not None or self._buffer else "before"
            raise AnswerLost(f"the connection ended {part} the answer")

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end > MAX_HEAD_BYTES or (end < 0 and len(self._buffer) > MAX_HEAD_BYTES):
            raise BadAnswer(f"the answer's headers are longer than {MAX_HEAD_BYTES} bytes")
        if end < 0:
            if not b"HTTP/1.".startswith(bytes(self._buffer[:7])):
                raise BadAnswer(f"the answer is not HTTP: {bytes(self._buffer[:40])!r}")
            return False
        head = parse_head(bytes(self._buffer[:end]))
        del self._buffer[: end + 4]
        if head.status >= 200:  # 100 Continue and its like come before the answer itself
            self.head = head
            self.reusable = head.keeps_alive
            self._choose_body(head)
        return True

    def _choose_body(self, head: Head) -> None:
        coding = head.headers.get("transfer-encoding")
        length = head.headers.get("content-length")
        if head.status in {204, 304}:
            self.done = True
        elif coding is not None:
            if coding.strip().lower() != "chunked" or length is not None:
                raise BadAnswer(f"unknown transfer encoding: {coding[:80]!r}")
            self._read = self._read_chunk_line
        elif length is not None:
            if not (length.isascii() and length.isdigit() and len(length) <= 15):
                raise BadAnswer(f"the answer's Content-Length is {length[:80]!r}")
            self._left = int(length)
            self._bound(self._left)
            self._read = self._read_fixed
        else:
            self.reusable = False
            self._read = self._read_to_end

    def _bound(self, more: int) -> None:
        if self._max_body is not None and self._seen + more > self._max_body:
            raise BadAnswer(f"the answer is longer than {self._max_body} bytes")

    def _move(self, count: int) -> None:
        self._seen += count
        self._body += self._buffer[:count]
        del self._buffer[:count]

    def _read_fixed(self) -> bool:
        count = min(self._left, len(self._buffer))
        self._left -= count
        self._move(count)
        self.done = self._left == 0
        return False

    def _read_to_end(self) -> bool:
        self._bound(len(self._buffer))
        self._move(len(self._buffer))
        return False

    def _line(self) -> Optional[bytes]:
        end = self._buffer.find(b"\r\n")
        if end > _MAX_CHUNK_LINE_BYTES or (end < 0 and len(self._buffer) > _MAX_CHUNK_LINE_BYTES):
            raise BadAnswer("a chunk's first line is too long")
        if end < 0:
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _read_chunk_line(self) -> bool:
        line = self._line()
        if line is None:
            return False
        digits = line.partition(b";")[0].strip()
        if not digits or len(digits) > 12 or digits.strip(b"0123456789abcdefABCDEF"):
            raise BadAnswer(f"not a chunk's size: {line[:40]!r}")
        self._left = int(digits, 16)
        self._bound(self._left)
        self._read = self._read_chunk if self._left else self._read_trailer
        return True

    def _read_chunk(self) -> bool:
        count = min(self._left, len(self._buffer))
        self._left -= count
        self._move(count)
        if self._left:
            return False
        self._read = self._read_chunk_end
        return True

    def _read_chunk_end(self) -> bool:
        if len(self._buffer) < 2:
            return False
        if not self._buffer.startswith(b"\r\n"):
            raise BadAnswer("a chunk is longer than its size says")
        del self._buffer[:2]
        self._read = self._read_chunk_line
        return True

    def _read_trailer(self) -> bool:
        line = self._line()
        self.done = line == b""
        return line is not None


def parse_head(data: bytes) -> Head:
    """Status line and headers, without the blank line after them. Raises BadAnswer."""
    first, *lines = data.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if version not in {"HTTP/1.1", "HTTP/1.0"} or not (status.isascii() and status.isdigit()):
        raise BadAnswer(f"not an HTTP status line: {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadAnswer(f"not an HTTP header: {line[:80]!r}")
        if name.lower() in headers and name.lower() in {"content-length", "transfer-encoding"}:
            raise BadAnswer(f"the answer has two headers {name}")
        headers[name.lower()] = value.strip()
    return Head(int(status), headers, version)
