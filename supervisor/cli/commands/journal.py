"""`effectctl journal ...`: a journal's directory, with or without a daemon, read-only."""

from __future__ import annotations

import click

from supervisor.cli.commands.journal_anchor import anchor
from supervisor.cli.commands.journal_backup import backup
from supervisor.cli.commands.journal_dump import dump, tail
from supervisor.cli.commands.journal_export import export
from supervisor.cli.commands.journal_repair import repair
from supervisor.cli.commands.journal_replay import replay
from supervisor.cli.commands.journal_stats import stats
from supervisor.cli.commands.journal_verify import verify


@click.group()
def journal() -> None:
    """Read a journal, or repair one; needs no daemon.

    DIR is a journal's directory or a state directory (default: the configured one).
    """


for _verb in (verify, dump, tail, replay, anchor, backup, export, stats, repair):
    journal.add_command(_verb)
