"""The outside world that the test handlers change: it counts, holds its answers, can be asked.

A handler connects for each request: one JSON line there, one back. Every request first passes a
*point*, a word that the test knows beforehand (`TAG made charge`); at a held point it waits until
it is released. A change is counted before its answer is held, so a daemon that is killed while
the answer is held was killed exactly between the effect and its record.
"""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections import Counter
from typing import Any

DEADLINE_S = 60.0


class World:
    """One provider on loopback, for one daemon. Its methods are for the test's threads."""

    def __init__(self) -> None:
        self._moved = threading.Condition()
        self._held: set[str] = set()
        self._arrived: Counter[str] = Counter()
        self._asked: Counter[str] = Counter()
        self._receipts: dict[str, list[int]] = {}
        self._owners: dict[str, str] = {}
        self._recorded: set[str] = set()
        self._serial = 0
        self._silent = False
        self._server = _Server(("127.0.0.1", 0), _Request)
        self._server.world = self
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Let everybody go and stop listening."""
        with self._moved:
            self._held.clear()
            self._moved.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # --- for tests: points ------------------------------------------------------------

    def hold(self, *points: str) -> None:
        """From now on whoever comes by these points waits there."""
        with self._moved:
            self._held.update(points)

    def release(self, *points: str) -> None:
        """Let those who wait at these points go on; without any, at every point."""
        with self._moved:
            self._held -= set(points) if points else set(self._held)
            self._moved.notify_all()

    def arrived(self, point: str, times: int = 1, within_s: float = DEADLINE_S) -> None:
        """Wait until the point was reached so often; AssertionError says what was reached."""
        with self._moved:
            came = self._moved.wait_for(lambda: self._arrived[point] >= times, within_s)
            assert came, f"{point!r} was not reached {times} times; reached: {dict(self._arrived)}"

    def arrivals(self, point: str) -> int:
        with self._moved:
            return self._arrived[point]

    def traffic(self, more: int, within_s: float) -> bool:
        """Wait until so many more requests came by any point, or the time is up."""
        with self._moved:
            enough = self._arrived.total() + more
            return self._moved.wait_for(lambda: self._arrived.total() >= enough, within_s)

    # --- for tests: what is true out there ---------------------------------------------

    def silence(self, silent: bool = True) -> None:
        """Whether the world says *unknown* to those who ask what it has."""
        with self._moved:
            self._silent = silent

    def made(self, effect_id: str) -> int:
        """How often this change is in the world."""
        with self._moved:
            return len(self._receipts.get(effect_id, ()))

    def asked(self, effect_id: str) -> int:
        """How often the world was asked to make it."""
        with self._moved:
            return self._asked[effect_id]

    def receipt(self, effect_id: str) -> int:
        """The receipt of the change, which is there."""
        with self._moved:
            return self._receipts[effect_id][-1]

    def changes(self, tag: str) -> dict[str, int]:
        """Every change made for the inputs with this tag: effect_id to how often it is there."""
        with self._moved:
            return {one: len(r) for one, r in self._receipts.items() if self._owners[one] == tag}

    def everything(self) -> dict[str, int]:
        """Every change in the world: effect_id to how often it is there."""
        with self._moved:
            return {one: len(receipts) for one, receipts in self._receipts.items()}

    def remember(self) -> dict[str, tuple[int, ...]]:
        """What is there now, for `recall`."""
        with self._moved:
            return {one: tuple(receipts) for one, receipts in self._receipts.items()}

    def recall(self, remembered: dict[str, tuple[int, ...]]) -> None:
        """Be again as at that moment."""
        with self._moved:
            self._receipts = {one: list(receipts) for one, receipts in remembered.items()}

    def recorded(self) -> set[str]:
        """The effects whose handler heard *recorded*, for inputs with `note`."""
        with self._moved:
            return set(self._recorded)

    # --- for handlers ------------------------------------------------------------------

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        match asked:
            case {"do": "meet", "point": str(point)}:
                self._pass(point)
                return {}
            case {"do": "make", "effect_id": str(effect_id), "once": bool(once), **rest}:
                receipt = self._make(effect_id, once, str(rest.get("tag")))
                self._pass(str(rest.get("point")))
                return {"receipt": receipt}
            case {"do": "note", "effect_id": str(effect_id)}:
                with self._moved:
                    self._recorded.add(effect_id)
                return {}
            case {"do": "find", "effect_id": str(effect_id)}:
                return self._find(effect_id)
            case _:
                return {"error": f"the world does not understand {asked}"}

    def _pass(self, point: str) -> None:
        with self._moved:
            self._arrived[point] += 1
            self._moved.notify_all()
            self._moved.wait_for(lambda: point not in self._held)

    def _make(self, effect_id: str, once: bool, tag: str) -> int:
        """The change; a provider that keeps keys makes it once for each key."""
        with self._moved:
            self._asked[effect_id] += 1
            receipts = self._receipts.setdefault(effect_id, [])
            self._owners[effect_id] = tag
            if not (once and receipts):
                self._serial += 1
                receipts.append(self._serial)
            return receipts[-1]

    def _find(self, effect_id: str) -> dict[str, Any]:
        self._pass(f"find {effect_id}")
        with self._moved:
            if self._silent:
                return {"outcome": "unknown"}
            receipts = self._receipts.get(effect_id)
        if receipts:
            return {"outcome": "applied", "result": {"receipt": receipts[-1]}}
        return {"outcome": "not_applied"}


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128
    world: World


class _Request(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        # Whoever asked may have been killed meanwhile: that is what the tests do.
        with contextlib.suppress(OSError):
            answer = self.server.world.answer(json.loads(self.rfile.readline() or b"{}"))
            self.wfile.write(json.dumps(answer).encode() + b"\n")
