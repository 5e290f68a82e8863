"""Whether a manifest could be written otherwise: asked before a change to it is suggested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from config.load.handlers import load_handlers, rewriters
from config.load.onefile import Handler, read_handler
from config.problems import ConfigError, Problem
from config.schema import Config


def amended_problems(
    config: Config, handler: Handler, documents: Sequence[Mapping[str, Any]]
) -> list[tuple[Problem, ...]]:
    """For each document in the place of the handler's own, why it would be refused; empty when it
    would be loaded. The other handlers count: none may write what another one runs.
    """
    try:
        others = {**load_handlers(config).good}
    except ConfigError:
        others = {}  # a directory that cannot be listed: there is nobody to rewrite
    others.pop(handler.name, None)
    return [_problems(config, handler, dict(one), others) for one in documents]


def _problems(
    config: Config, handler: Handler, document: dict[str, Any], others: Mapping[str, Handler]
) -> tuple[Problem, ...]:
    read = read_handler(config, handler.name, handler.file, document, handler.hashes)
    if not isinstance(read, Handler):
        return tuple(fault.in_file(str(handler.file)) for fault in read)
    return tuple(rewriters(config, {**others, handler.name: read}).get(handler.name, ()))
