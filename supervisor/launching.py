"""What a daemon does first once it knows its configuration: the launcher's start, and its journal.

It is apart from the daemon so that little has to be loaded for it: what the daemon is made of is
loaded while the launcher, another process, gets ready and a thread waits for the disk.
"""

from __future__ import annotations

from config.schema import Config
from sandbox.client import Launcher
from sandbox.protect import protect_daemon
from supervisor.delegated import delegated_cgroup
from supervisor.journal import lock
from supervisor.journal.ahead import Ahead


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


def read_ahead(config: Config) -> Ahead | None:
    """Begin to read the journal, where there is one, in a process that is protected before it
    holds anything of it. Raises JournalLocked."""
    protect_daemon()
    return Ahead.begin(config.state_dir / "journal", lock_wait_ms=lock.WAIT_MS)
