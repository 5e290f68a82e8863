"""Loading manifests though one of them names what does not answer: a dead mount, say.

A look-up on such a file system cannot be interrupted, so it is made by a thread that is left
behind, and whoever's files it was looking at is set aside.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from config.load import Handlers, Looking
from config.problems import ConfigError, Problem
from config.schema import Config

# For one step: with no step done and no processor time used for so long, it hangs. Reading a large
# artifact from a slow disk uses some all the time.
PATIENCE_S = 2.0

_CLOCK_OF_A_THREAD = 0b110
Loaded = Handlers | Exception


def patiently(config: Config, load: Callable[[Looking], Handlers]) -> Handlers:
    """What `load` returns or raises. Each handler that it hangs at costs twice `PATIENCE_S` and is
    among the broken ones; ConfigError when it hangs at the directory itself."""
    dead: frozenset[str] = frozenset()
    while True:
        looking = Looking(dead)
        loaded = _tried(load, looking)
        if isinstance(loaded, Exception):
            raise loaded
        if loaded is not None:
            return loaded
        if looking.at is None:
            where = str(config.handlers_dir)
            fix = "look at what is mounted there, or name another directory"
            raise ConfigError([Problem(where, "", "it does not answer", fix)])
        dead |= {looking.at}


def _tried(load: Callable[[Looking], Handlers], looking: Looking) -> Loaded | None:
    """None: it hangs, at `looking.at`."""
    done: queue.SimpleQueue[Loaded] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put(load(looking))
        except Exception as error:  # noqa: BLE001 - raised by whoever waits
            done.put(error)

    thread = threading.Thread(target=run, name="load", daemon=True)
    thread.start()
    before: tuple[int, int] | None = None
    while True:
        try:
            return done.get(timeout=PATIENCE_S)
        except queue.Empty:
            now = looking.steps, _cpu_ns(thread)
            if now == before:
                return None
            before = now


def _cpu_ns(thread: threading.Thread) -> int:
    """The processor time that it has used."""
    # The kernel's name for a thread's clock: the C library's look-up reads the memory of a thread
    # that may have ended, which the kernel refuses.
    clock = (~(thread.native_id or 0) << 3) | _CLOCK_OF_A_THREAD
    try:
        return time.clock_gettime_ns(clock)
    except OSError:
        return 0
