"""`effectctl config ...`: the configuration as the daemon would load it."""

from __future__ import annotations

import click

from supervisor.cli.exits import Exit
from supervisor.cli.offline import Source, configured, problem_check, problem_checks
from supervisor.cli.output import Shared, shared
from supervisor.cli.render_handlers import Check, checks


@click.group()
def config() -> None:
    """The configuration as the daemon would load it; needs no daemon."""


@config.command()
@shared
@configured
def show(given: Shared, source: Source, /) -> int:
    """Every key in force, defaults included."""
    from config.convert import document_of
    from config.dump import dump
    from config.problems import ConfigError

    try:
        loaded = source.load()
    except ConfigError as error:
        return _report(given, problem_checks(error))
    document = document_of(loaded)
    given.emit(document, lambda _: dump(loaded), document)
    return Exit.DONE


@config.command("check")
@shared
@configured
def check_(given: Shared, source: Source, /) -> int:
    """Try the configuration and every manifest; exits 1 when something is wrong."""
    from config.problems import ConfigError
    from supervisor.dispatch import visible

    try:
        loaded = source.load()
        handlers = visible.load(loaded)
    except ConfigError as error:
        return _report(given, problem_checks(error))
    file = str(loaded.origin.file or "the built-in defaults")
    found = [Check("ok", file)]
    found += [problem_check(one, "warning") for one in loaded.origin.warnings]
    found += [Check("ok", str(handlers[name].file)) for name in handlers]
    found += [problem_check(one, "warning") for one in handlers.warnings]
    for broken in handlers.broken.values():
        found += problem_checks(broken)
    return _report(given, found)


def _report(given: Shared, found: list[Check]) -> int:
    given.emit(
        {"items": [one.document() for one in found]},
        lambda look: checks("", found, look),
        [one.what for one in found if one.state != "ok"],
    )
    return Exit.FAILED if any(one.state == "wrong" for one in found) else Exit.DONE
