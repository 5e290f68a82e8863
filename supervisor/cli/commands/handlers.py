"""`effectctl handlers ...`."""

from __future__ import annotations

from pathlib import Path

import click

from supervisor.cli.documents import objects
from supervisor.cli.exits import Exit
from supervisor.cli.offline import Source, configured, problem_check, problem_checks
from supervisor.cli.output import Shared, several, shared
from supervisor.cli.render_handlers import Check, checks, handler, handler_list
from supervisor.cli.talk import CommandError, Daemon, Document


@click.group()
def handlers() -> None:
    """What can be run."""


@handlers.command("list")
@shared
def list_(given: Shared, /) -> Exit:
    """The handlers that the daemon has loaded."""
    document = given.daemon.get("handlers")
    found = objects(document, "items")
    given.emit(
        document,
        lambda look: handler_list(found, objects(document, "broken"), look),
        [str(one["name"]) for one in found],
    )
    return Exit.DONE


@handlers.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@shared
def show(given: Shared, /, *, names: tuple[str, ...]) -> Exit:
    """One handler as it is loaded: command, contracts, sandbox."""
    from supervisor.cli import ids

    found: list[Document] = [given.daemon.get("handlers", name) for name in ids.given(names)]
    given.emit(
        several(found),
        lambda look: "\n\n".join(handler(one, look) for one in found),
        [str(one["name"]) for one in found],
    )
    return Exit.DONE


@handlers.command()
@click.argument("name")
@shared
@configured
def check(given: Shared, source: Source, /, *, name: str) -> int:
    """Load a manifest as the daemon would and use each path it names from inside.

    A daemon that runs is asked what it made of it; none is needed. Nothing of the handler is run.
    What a directory to write to is tried with is removed again.
    NAME is a handler of the manifests directory, or the path of a manifest.
    """
    return _report(given, _check(given.daemon, source, name))


def _report(given: Shared, found: list[Check]) -> int:
    given.emit(
        {"items": [one.document() for one in found]},
        lambda look: checks("", found, look),
        [one.what for one in found if one.state != "ok"],
    )
    return Exit.FAILED if any(one.state == "wrong" for one in found) else Exit.DONE


def _check(daemon: Daemon, source: Source, name: str) -> list[Check]:
    from config.problems import ConfigError
    from supervisor.cli.judged import by_the_daemon
    from supervisor.cli.trial import try_handler
    from supervisor.cli.unit import properties, protected
    from supervisor.dispatch.command import secrets_of, spec_of
    from supervisor.dispatch.visible import load_one

    try:
        config = source.load()
        file = Path(name) if "/" in name else config.handlers_dir / f"{name}.toml"
        loaded = load_one(config, file.absolute())
    except ConfigError as error:
        return problem_checks(error)
    found = [Check("ok", str(loaded.file), f"digest {loaded.digest[:16]}")]
    found += [problem_check(one, "warning") for one in loaded.warnings]
    found += by_the_daemon(daemon, config, loaded)
    try:
        secrets_of(config, loaded)
        if loaded.manifest.secret_names:
            found.append(Check("ok", "secrets", ", ".join(loaded.manifest.secret_names)))
    except ConfigError as error:
        found += problem_checks(error)
    spec = spec_of(config, loaded)
    found += try_handler(config, loaded, spec)
    if not config.origin.dev:
        found += protected(properties(), (*spec.read, *spec.closure), spec.write)
    return found


@handlers.command("try")
@click.argument("name")
@click.option(
    "--input", "input_", default="{}", metavar="JSON|@FILE|-", help="The handler's input."
)
@click.option("--twice", is_flag=True, help="Run it twice and say where its requests differ.")
@click.option("--allow-effects", is_flag=True, help="Make its effects, for real, once.")
@shared
@configured
def try_(
    given: Shared,
    source: Source,
    /,
    *,
    name: str,
    input_: str,
    twice: bool,
    allow_effects: bool,
) -> int:
    """Run a handler once in its real sandbox and say what it was denied; needs no daemon.

    With strace installed each denied call is seen, and what would allow it is printed as lines
    for its manifest; a handler that was refused a Unix socket is then run once more, to see which.
    Without --allow-effects its announcements are refused, and a handler whose one effect is the
    whole call is not run. With it, a scratch daemon runs the call, and what it does is done.
    """
    from config.load import load_handler
    from config.problems import ConfigError
    from supervisor.cli.given import json_value
    from supervisor.cli.tryout import rehearsed, with_effects

    if twice and allow_effects:
        raise CommandError("--twice with --allow-effects would make the effects twice")
    value = json_value(input_, "--input")
    try:
        config = source.load()
        file = Path(name) if "/" in name else config.handlers_dir / f"{name}.toml"
        loaded = load_handler(config, file.absolute())
    except ConfigError as error:
        return _report(given, problem_checks(error))
    if allow_effects:
        return with_effects(given, source, loaded, value)
    return rehearsed(given, config, loaded, value, twice=twice)
