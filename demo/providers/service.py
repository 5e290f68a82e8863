"""What all three providers share: JSON over HTTP on a loopback port, the doors, and their end."""

from __future__ import annotations

import argparse
import json
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from demo.providers.gate import Gate


class Ask(NamedTuple):
    """One request: `GET /charges?order=7` is ("GET", "charges", {"order": "7"}, ...)."""

    method: str
    what: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Mapping[str, Any]


class Answer(NamedTuple):
    """What to answer. With a door, everything is committed, and the answer waits there."""

    status: int
    body: object
    door: str = ""


Respond = Callable[[Ask], Answer]


class Options(NamedTuple):
    """A provider's command line: where it keeps its books, and whether it outlives its starter."""

    books: str
    stay: bool


def options() -> Options:
    parser = argparse.ArgumentParser()
    parser.add_argument("books", help="an SQLite file")
    parser.add_argument("--stay", action="store_true", help="do not end with standard input")
    given = parser.parse_args()
    return Options(given.books, given.stay)


def serve(respond: Respond, gate: Gate, *, stay: bool = False, **ports: int) -> None:
    """Print the ports and serve: for ever, or until standard input ends as its starter does."""
    server = _Server(("127.0.0.1", 0), _Conversation)
    server.respond = respond
    server.gate = gate
    print(json.dumps({"http": server.server_port, **ports}), flush=True)
    if stay:
        server.serve_forever()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    gate.open_all()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    respond: Respond
    gate: Gate

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that was killed while it waited is no fault: killing callers is the point."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Conversation(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        self._converse()

    def do_POST(self) -> None:
        self._converse()

    def log_message(self, *_: Any) -> None:
        """Nobody reads a log of requests here."""

    def _converse(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        ask = Ask(
            self.command,
            unquote(parts.path.strip("/")),
            query,
            dict(self.headers.items()),
            json.loads(text or b"{}"),
        )
        answer = at_the_door(ask, self.server.gate) or self.server.respond(ask)
        if answer.door:
            self.server.gate.walk_through(answer.door)
        payload = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


def at_the_door(ask: Ask, gate: Gate) -> Answer | None:
    """Requests about doors: walk through one, shut it, open it, ask who waits there."""
    verb, _, door = ask.what.partition("/")
    if verb == "walk-through":
        return Answer(200, {}, door)
    if verb == "shut":
        gate.shut(door)
        return Answer(200, {})
    if verb == "open":
        gate.open(door)
        return Answer(200, {})
    if verb == "waiting":
        count, timeout_ms = int(ask.query["count"]), int(ask.query["timeout_ms"])
        return Answer(200, {"waiting": gate.wait_until(door, count, timeout_ms)})
    return None
