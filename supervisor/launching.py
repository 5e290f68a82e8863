"""The launcher's start, which is the first thing a daemon does once it knows its configuration.

It is apart from the daemon so that little has to be loaded for it: what the daemon is made of is
loaded while the launcher, another process, gets ready.
"""

from __future__ import annotations

from config.schema import Config
from sandbox.client import Launcher
from supervisor.delegated import delegated_cgroup


class CannotStart(Exception):  # noqa: N818  # what it is
    """Something outside stands in the way of starting; the text says what and what to do."""


def launched(config: Config) -> Launcher:
    """First of all processes and threads: it must be forked by the main thread of a process
    that holds no secret yet."""
    try:
        return Launcher.start(
            handler_uid=config.origin.handler_uid,
            handler_gid=config.origin.handler_gid,
            cgroup_root=delegated_cgroup(),
            pool=config.sandbox.pool,
            pool_total=config.sandbox.pool_total,
        )
    except (ValueError, OSError) as error:
        raise CannotStart(f"the launcher: {error}") from error
