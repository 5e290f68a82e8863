"""A manifest as a daemon judges it: by the daemon's own rules here, and by its word where it runs.

Whoever types `handlers check` has another uid than the service, other groups, and none of its
unit's restrictions, so what he can reach says little of what the daemon can.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from supervisor.cli.documents import Document, objects, part, texts
from supervisor.cli.render_handlers import Check
from supervisor.cli.talk import Daemon, Problem

if TYPE_CHECKING:
    from config.load import Handler
    from config.schema import Config

_STALE = "effectctl reload"


def by_the_daemon(daemon: Daemon, config: Config, handler: Handler) -> Iterator[Check]:
    """What the daemon that can be reached made of this manifest, and how it confines."""
    from effectd.errors import BadAnswer, Unreachable

    try:
        loaded, status = daemon.get("handlers"), daemon.get("status")
    except Unreachable as error:
        yield _alone(config, error.detail or "it cannot be reached")
        return
    except (BadAnswer, Problem) as error:
        yield _alone(config, str(error))
        return
    yield from _loaded(loaded, handler)
    for one in objects(part(status, "sandbox"), "missing"):
        if one.get("refuses"):
            cause, remedy = str(one.get("cause")), str(one.get("remedy"))
            yield Check("wrong", f"the daemon's sandbox: {one.get('layer')}", cause, remedy)


def _alone(config: Config, why: str) -> Check:
    said = f"not asked ({why}): judged as uid {os.geteuid()}, by the manifest and this host alone"
    if config.origin.dev:
        return Check("ok", "daemon", said)
    return Check("warning", "daemon", said, "start the service, and check again")


def _loaded(document: Document, handler: Handler) -> Iterator[Check]:
    same = (one for one in objects(document, "items") if one.get("file") == str(handler.file))
    good = next(same, None)
    if good is not None:
        current = good.get("digest") == handler.digest
        yield (
            Check("ok", "daemon", "it has loaded this very manifest")
            if current
            else Check("warning", "daemon", "it has an older state of this manifest loaded", _STALE)
        )
        mine = {problem.text for problem in handler.warnings}
        for text in texts(good, "warnings"):
            if current and text not in mine:
                yield Check("warning", "as the daemon sees it", text)
        return
    for one in objects(document, "broken"):
        for text in texts(one, "problems"):
            if text.startswith(f"{handler.file}:"):
                yield Check("wrong", "as the daemon sees it", text)
                return
    yield Check("ok", "daemon", "it has not loaded this file")
