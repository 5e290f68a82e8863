"""`effectctl reload`."""

from __future__ import annotations

import click

from supervisor.cli.documents import texts
from supervisor.cli.exits import Exit
from supervisor.cli.look import Look, escape
from supervisor.cli.output import Shared, shared


@click.command()
@shared
def reload(given: Shared, /) -> Exit:
    """Have the daemon read configuration and manifests again: whole, or not at all."""
    document = given.daemon.post("reload", body={})
    handlers = texts(document, "handlers")

    def text(look: Look) -> str:
        warnings = [
            f"{look.paint('warning', 'attention')}: {escape(one)}"
            for one in texts(document, "warnings")
        ]
        return "\n".join([*warnings, f"reloaded: {len(handlers)} handlers"])

    given.emit(document, text, handlers)
    return Exit.DONE
