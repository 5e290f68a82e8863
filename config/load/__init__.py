"""The part of the configuration that touches the disk.

`load_config` and `load_handlers` read files into values; `fresh`, `stale` and
`read_secret` look again later. Everything else in `config` is pure.
"""

from config.load.amended import amended_problems
from config.load.configuration import (
    BUILT_IN,
    COMMAND_LINE,
    DEFAULT_FILE,
    load_config,
    reload_config,
)
from config.load.digest import Hashes
from config.load.handlers import Handlers, Looking, fresh, load_handler, load_handlers, stale
from config.load.onefile import Handler
from config.load.secret import MAX_SECRET_BYTES, read_secret

__all__ = [
    "BUILT_IN",
    "COMMAND_LINE",
    "DEFAULT_FILE",
    "MAX_SECRET_BYTES",
    "Handler",
    "Handlers",
    "Hashes",
    "Looking",
    "amended_problems",
    "fresh",
    "load_config",
    "load_handler",
    "load_handlers",
    "read_secret",
    "reload_config",
    "stale",
]
