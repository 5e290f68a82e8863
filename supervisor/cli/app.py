"""The command tree. A command's module is imported when the command is used, not before."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple, cast

import click

from supervisor.cli.exits import Exit

if TYPE_CHECKING:
    from typing_extensions import override
else:  # typing.override is 3.12's

    def override(method: object) -> object:
        return method


class Lazy(NamedTuple):
    """Where a command is, and its line in `--help`, which must not import it."""

    module: str
    attribute: str
    help: str


COMMANDS: dict[str, Lazy] = {
    "status": Lazy("status", "status", "What needs whom now, each with the command to type."),
    "doctor": Lazy("doctor", "doctor", "Check this host: sandbox, disk, access; with remedies."),
    "dispatch": Lazy("dispatch", "dispatch", "Run one handler and wait for its result."),
    "operations": Lazy("operations", "operations", "What clients asked for."),
    "calls": Lazy("calls", "calls", "Invocations of handlers: results, output, attempts."),
    "effects": Lazy(
        "effects", "effects", "Changes in the outside world: look, reconcile, resolve."
    ),
    "sessions": Lazy("sessions", "sessions", "Containers of operations; send a program to one."),
    "approvals": Lazy("approvals", "approvals", "Decisions of people that programs wait for."),
    "reload": Lazy("reload", "reload", "Have the daemon read configuration and manifests again."),
    "handlers": Lazy("handlers", "handlers", "What can be run: list, show, check, try."),
    "events": Lazy("events", "events", "What happened, in order; -f follows."),
    "journal": Lazy(
        "journal", "journal", "Verify, anchor, back up, dump or replay a journal; needs no daemon."
    ),
    "config": Lazy("config", "config", "Show or check the configuration; needs no daemon."),
    "explain": Lazy("explain", "explain", "What a code means and what to do."),
    "completion": Lazy("completion", "completion", "Print the completion script of a shell."),
}
SINGULAR = {
    "operation": "operations",
    "call": "calls",
    "effect": "effects",
    "handler": "handlers",
    "event": "events",
    "session": "sessions",
    "approval": "approvals",
}


class Root(click.Group):
    """Loads a command at its first use; nouns are understood in singular and plural."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = COMMANDS.get(SINGULAR.get(cmd_name, cmd_name))
        if found is None:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"supervisor.cli.commands.{found.module}")
        return cast("click.Command", getattr(module, found.attribute))

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0] if args else ""
        if word and word not in SINGULAR and word not in COMMANDS and not word.startswith("-"):
            import difflib

            near = difflib.get_close_matches(word, [*COMMANDS, *SINGULAR], n=1)
            did = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {word!r}.{did}")
        return super().resolve_command(ctx, args)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in COMMANDS.items()])
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(int(one)), one.meaning) for one in Exit])


def _version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from importlib.metadata import version

    click.echo(f"effectctl {version('effectd-daemon')}")
    ctx.exit(0)


@click.command(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Ids may be shortened to a unique beginning of six characters or more.",
)
@click.option("--socket", metavar="PATH", help="The daemon's socket (also EFFECTD_SOCKET).")
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version,
    help="Print the version.",
)  # fmt: skip
def app(socket: str | None) -> None:
    """Talk to effectd, the daemon that supervises tool handlers."""
