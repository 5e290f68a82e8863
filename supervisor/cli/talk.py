"""The CLI's side of the API: requests, pages, problems. No command speaks HTTP by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode

from supervisor.cli.documents import part, texts
from supervisor.cli.exits import Exit, of_problem

if TYPE_CHECKING:
    from effectd.client import Client

Document = dict[str, Any]

# The server answers a waiting request within `wait_ms`; what it needs beyond that is one
# frame on disk. A quarter of an hour would be a daemon that hangs.
WAIT_MS = 25_000
ANSWER_S = 60.0


class Problem(Exception):  # noqa: N818 - the API's own word for its document
    """The daemon said no: its problem document, and what that exits with."""

    def __init__(self, document: Mapping[str, Any], exit_code: Exit | None = None) -> None:
        super().__init__(str(document.get("title") or document.get("code")))
        self.document = dict(document)
        self.exit_code = of_problem(document) if exit_code is None else exit_code


class CommandError(Exception):
    """This command cannot be done as asked; nothing was sent."""

    def __init__(self, message: str, fix: str = "", exit_code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.fix = fix
        self.exit_code = exit_code


def path_of(*segments: str, query: Mapping[str, object] | None = None) -> str:
    """A path below /v1 with each segment encoded, and the query's set values."""
    path = "/v1/" + "/".join(quote(segment, safe="") for segment in segments)
    given = {name: value for name, value in (query or {}).items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _object(document: Any) -> Document:
    return cast("Document", document) if isinstance(document, dict) else {}


class Daemon:
    """One daemon, reached through the SDK's client; its socket is found at the first request."""

    def __init__(self, socket: str | None) -> None:
        self.socket = socket
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The SDK's client, for what streams."""
        if self._client is None:
            from effectd.client import Client

            self._client = Client(self.socket)
        return self._client

    def close(self) -> None:
        """Close what is connected."""
        if self._client is not None:
            self._client.close()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Send one request; its answer's document, whatever JSON that is.

        Raises Problem for a refusal, effectd's Unreachable for no answer.
        """
        response = self.client.request(method, path, body, timeout=ANSWER_S)
        document = response.document
        if response.status >= 400:
            if not isinstance(document, dict):
                document = {"title": f"the daemon answered {response.status}"}
            raise Problem({"status": response.status, **document})
        return document

    def get(self, *segments: str, **query: object) -> Document:
        """One document that is an object."""
        return _object(self.ask("GET", path_of(*segments, query=query)))

    def post(
        self, *segments: str, body: Mapping[str, object], wait_ms: int | None = None
    ) -> Document:
        """One POST, waiting up to `wait_ms` for the end of what it starts."""
        waiting = {} if wait_ms is None else {"wait_ms": wait_ms}
        return _object(self.ask("POST", path_of(*segments), {**body, **waiting}))

    def items(
        self, *segments: str, limit: int | None = None, **query: object
    ) -> Iterator[Document]:
        """A list's items, newest first, page by page; at most `limit` of them."""
        cursor: object = None
        left = limit
        while left is None or left > 0:
            page_size = 1000 if left is None else min(1000, left)
            page = self.get(*segments, **query, limit=page_size, cursor=cursor)
            items: list[Document] = page.get("items", [])
            yield from items
            cursor = page.get("next_cursor")
            if not cursor or not items:
                return
            left = None if left is None else left - len(items)

    def calls_of(self, operation: Mapping[str, Any]) -> list[Document]:
        """The documents of an operation's calls, in order."""
        return [self.get("calls", call_id) for call_id in texts(operation, "calls")]

    def newest_calls_of(self, operation: Mapping[str, Any]) -> list[Document]:
        """The calls that say how it ended: the one in the operation, or each one asked for."""
        held = part(operation, "call")
        return [dict(held)] if held else self.calls_of(operation)

    def history_of(self, operation_id: str) -> list[Document]:
        """An operation's events as far back as the daemon keeps them."""
        path = path_of("events", query={"operation": operation_id})
        response = self.client.request("GET", path, timeout=ANSWER_S)
        if response.status != 200:
            return []
        lines = (line for line in response.body.splitlines() if line.strip())
        return [_object(json.loads(line)) for line in lines]
