"""`effectctl completion`."""

from __future__ import annotations

import click

from supervisor.cli.exits import Exit
from supervisor.cli.output import Shared, shared

PLACES = {
    "bash": "~/.local/share/bash-completion/completions/effectctl",
    "zsh": "a file named _effectctl in a directory of $fpath",
    "fish": "~/.config/fish/completions/effectctl.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(tuple(PLACES)))
@shared
def completion(given: Shared, /, *, shell: str) -> Exit:
    """Print the completion script of a shell; its first line says where to put it."""
    from click.shell_completion import get_completion_class

    from supervisor.cli.app import app

    kind = get_completion_class(shell)
    assert kind is not None, shell
    script = kind(app, {}, "effectctl", "_EFFECTCTL_COMPLETE").source()
    # zsh reads its #compdef line only where it is the first.
    head, rest = script.split("\n", 1) if script.startswith("#compdef") else ("", script)
    comment = f"# effectctl's completion for {shell}; put it into {PLACES[shell]}\n"
    text = (f"{head}\n" if head else "") + comment + rest.lstrip("\n")
    given.emit({"shell": shell, "script": text}, lambda _: text, [shell])
    return Exit.DONE
