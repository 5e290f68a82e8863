"""Waiting for an end: asking again until it is there, however often the daemon restarts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from supervisor.cli.exits import Exit, is_final, of_operation
from supervisor.cli.talk import WAIT_MS, Daemon, Document

Watch = Callable[[Mapping[str, Any]], None]
# Often enough for a bar that moves, seldom enough to cost nothing.
TICK_MS = 500
# How long a daemon may be away (a restart, a recovery) before waiting is given up.
PATIENCE_S = 60.0
PAUSE_S = 0.25


class Interrupted(Exception):  # noqa: N818 - Ctrl-C while waiting, not an error
    """Somebody stopped waiting; the operation goes on."""

    def __init__(self, operation_id: str) -> None:
        super().__init__(operation_id)
        self.operation_id = operation_id


class Patience:
    """How much longer a daemon that was there may be away."""

    def __init__(self) -> None:
        self._since: float | None = None

    @property
    def begun(self) -> bool:
        """Whether an answer has been lost since the last one came."""
        return self._since is not None

    def spend(self, error: Exception) -> None:
        """Wait a little, or raise the error when it was away too long."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since > PATIENCE_S:
            raise error
        time.sleep(PAUSE_S)

    def renew(self) -> None:
        """An answer came."""
        self._since = None


def follow_operation(
    daemon: Daemon, operation: Mapping[str, Any], watch: Watch | None = None
) -> Document:
    """The operation when nothing of it runs or queues any more."""
    return _follow(daemon, "operations", str(operation["operation_id"]), operation, watch)


def follow_call(daemon: Daemon, call: Mapping[str, Any], watch: Watch | None = None) -> Document:
    """The call when it is final."""
    return _follow(daemon, "calls", str(call["call_id"]), call, watch)


def _follow(
    daemon: Daemon, noun: str, name: str, document: Mapping[str, Any], watch: Watch | None
) -> Document:
    """Ask until it is final. Reading repeats nothing, so a lost answer is asked for again."""
    from effectd.errors import Unreachable

    patience = Patience()
    wait_ms = WAIT_MS if watch is None else TICK_MS
    try:
        while not is_final(document):
            try:
                if watch is not None:
                    watch(document)
                document = daemon.get(noun, name, wait_ms=wait_ms)
                patience.renew()
            except Unreachable as error:
                patience.spend(error)
    except KeyboardInterrupt:
        raise Interrupted(str(document.get("operation_id"))) from None
    return dict(document)


def exit_of(daemon: Daemon, operation: Mapping[str, Any]) -> Exit:
    """The exit code of an operation; asks for its calls only where they decide it."""
    if operation.get("state") in {"succeeded", "unknown"}:
        return of_operation(operation)
    return of_operation(operation, daemon.newest_calls_of(operation))
