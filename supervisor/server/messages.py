"""What goes in and out of an application, and the bounds around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import attrs

from frozen import frozen
from supervisor.server.peer import Peer


@frozen
class ServerLimits:
    """What one client, and all of them together, may take. Times in milliseconds."""

    connections: int = 256
    # Below `connections`, so that one runaway user cannot lock out the
    # administrator who comes to look.
    connections_per_uid: int = 192
    header_bytes: int = 16_384
    header_count: int = 64
    body_bytes: int = 1_048_576
    # From the first byte of a request (or from connecting) to the end of its headers.
    header_timeout_ms: int = 10_000
    # For each further 16 KiB of a body, or its rest.
    body_timeout_ms: int = 10_000
    # Between an answer and the first byte of the next request.
    idle_timeout_ms: int = 75_000
    # For each 64 KiB of an answer.
    write_timeout_ms: int = 10_000


@frozen
class Request:
    """One whole request.

    `path` holds the decoded segments (`/v1/a%2Fb` is `("v1", "a/b")`, a closing
    slash gives a last segment of ""). `query` keeps repeated keys in order.
    Header names are lower case; repeated ones are joined by ", ".
    `peer.pidfd` is open only until the application's answer is sent.
    """

    method: str
    path: tuple[str, ...]
    query: Mapping[str, tuple[str, ...]]
    headers: Mapping[str, str]
    body: bytes
    peer: Peer


@frozen
class Response:
    """An answer. An iterator's chunks are sent as they come, each at once.

    The server adds `date` and the framing headers. The iterator is closed
    (`aclose`, where it has one) when the client goes.
    """

    status: int
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    body: bytes | AsyncIterator[bytes] = b""


App = Callable[[Request], Awaitable[Response]]
