"""`effectctl doctor`: this host, layer by layer, with the remedy of each."""

from __future__ import annotations

import click

from supervisor.cli.exits import Exit
from supervisor.cli.offline import Source, configured, problem_check, problem_checks
from supervisor.cli.output import Shared, shared
from supervisor.cli.render_handlers import Check, checks
from supervisor.cli.talk import Document, Problem

Parts = list[tuple[str, list[Check]]]


@click.command()
@shared
@configured
def doctor(given: Shared, source: Source, /) -> int:
    """Check this host: sandbox layers, state disk, access, configuration; with remedies.

    Works with and without a running daemon, and says whose sandbox layers it shows.
    """
    parts = _parts(given, source)
    every = [one for _, found in parts for one in found]
    documents = [{"part": title, **one.document()} for title, found in parts for one in found]
    given.emit(
        {"items": documents},
        lambda look: "\n\n".join(checks(title, found, look) for title, found in parts),
        [one.what for one in every if one.state != "ok"],
    )
    return Exit.FAILED if any(one.state == "wrong" for one in every) else Exit.DONE


def _parts(given: Shared, source: Source) -> Parts:
    from config.problems import ConfigError
    from supervisor.cli import checkup
    from supervisor.dispatch import visible

    status, reached = _reached(given)
    parts: Parts = [("Daemon", [reached, *checkup.access_checks(dev=source.dev)])]
    try:
        config = source.load()
    except ConfigError as error:
        return [*parts, ("Configuration", problem_checks(error))]
    accepted = config.sandbox.accept_missing
    theirs = checkup.daemons_layers(status)
    if theirs:
        parts.append(("Sandbox, as the daemon found it", checkup.layer_checks(theirs, accepted)))
    else:
        mine = checkup.layer_checks(checkup.own_layers(config), accepted)
        parts.append(("Sandbox, as this user would have it", mine))
    parts.append(("State disk", checkup.disk_checks(config)))
    found = [problem_check(one, "warning") for one in config.origin.warnings]
    try:
        handlers = visible.load(config)
    except ConfigError as error:
        return [*parts, ("Configuration", [*found, *problem_checks(error)])]
    found.append(Check("ok", "manifests", f"{len(handlers)} loaded from {config.handlers_dir}"))
    found += [problem_check(one, "warning") for one in handlers.warnings]
    found += checkup.write_checks(config, handlers.good.values())
    for broken in handlers.broken.values():
        found += problem_checks(broken)
    return [*parts, ("Configuration", found)]


def _reached(given: Shared) -> tuple[Document, Check]:
    """The daemon's status where it can be had, and how that went."""
    from effectd.errors import BadAnswer, Unreachable

    try:
        status = given.daemon.get("status")
    except Unreachable as error:
        seen = "; ".join(error.checklist) or error.detail
        return {}, Check("warning", "daemon", f"not reachable: {seen}", error.fix)
    except (BadAnswer, Problem) as error:
        return {}, Check("wrong", "daemon", str(error))
    return status, Check("ok", "daemon", f"version {status.get('version', '?')} answers")
