"""New configuration and manifests for a daemon that runs, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable

import trio

from config.load import Handlers, reload_config
from config.problems import ConfigError
from config.schema import Config
from sandbox import scarce
from supervisor.dispatch import Engine, visible
from supervisor.notify import Notifier


class Reloads:
    """One at a time, whoever asks. `say` takes a line for the daemon's log."""

    def __init__(self, engine: Engine, notifier: Notifier, say: Callable[[str], None]) -> None:
        self._engine = engine
        self._notifier = notifier
        self._say = say
        self._one = trio.Lock()

    async def now(self) -> Handlers:
        """Read both again and put them in force; attempts that run keep what they began with.

        ConfigError with everything that is wrong, or OSError: then nothing has changed.
        """
        async with self._one:
            self._notifier.reloading()
            try:
                return await self._read_again()
            except (ConfigError, OSError) as error:
                self._say(f"not reloaded, the old configuration stays in force: {error}")
                raise
            finally:
                self._notifier.ready()

    async def _read_again(self) -> Handlers:
        engine = self._engine
        config, handlers = await scarce.in_thread(_read, engine.config)
        engine.config, engine.handlers = config, handlers
        engine.slots.all.total_tokens = config.max_running_attempts
        # What stands ready was made for the old manifests.
        engine.launcher.resize(config.sandbox.pool, config.sandbox.pool_total)
        self._say(f"reloaded: {len(handlers)} handlers")
        return handlers


def _read(config: Config) -> tuple[Config, Handlers]:
    new = reload_config(config)
    return new, visible.load(new, strict=True)
