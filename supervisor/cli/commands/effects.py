"""`effectctl effects ...`."""

from __future__ import annotations

from typing import Any

import click

from supervisor.cli import ids
from supervisor.cli.exits import Exit, gravest, of_effect
from supervisor.cli.given import json_value
from supervisor.cli.output import Shared, several, shared
from supervisor.cli.render_effects import effect, effect_list
from supervisor.cli.talk import WAIT_MS, CommandError, Document

MANY = click.argument("effects", nargs=-1, required=True, metavar="EFFECT...")


@click.group()
def effects() -> None:
    """Changes in the outside world. An id may be shortened; - reads ids from stdin."""


@effects.command("list")
@click.option(
    "--outcome", type=click.Choice(("announced", "applied", "not_applied", "unknown")),
    help="Only those with this outcome.",
)  # fmt: skip
@click.option(
    "--needs", type=click.Choice(("person", "reconciler", "client", "nothing")),
    help="Only those that wait for this.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N")
@click.option("--all", "everything", is_flag=True, help="All of them, not the newest N.")
@shared
def list_(given: Shared, /, *, limit: int, everything: bool, **filters: str | None) -> Exit:
    """The newest effects."""
    most = None if everything else limit + 1
    found = list(given.daemon.items("effects", limit=most, **filters))
    shown = found if everything else found[:limit]
    given.emit(
        {"items": shown},
        lambda look: effect_list(shown, look),
        [str(one["effect_id"]) for one in shown],
    )
    if len(found) > len(shown) and given.form == "text":
        given.note("There are more: --limit N, or --all.")
    return Exit.DONE


def _show(given: Shared, found: list[Document]) -> None:
    given.emit(
        several(found),
        lambda look: "\n\n".join(effect(one, look) for one in found),
        [str(one["effect_id"]) for one in found],
    )


@effects.command()
@MANY
@shared
def show(given: Shared, /, *, effects: tuple[str, ...]) -> Exit:
    """What, why, where to look, and the commands that settle it."""
    named = [ids.resolve(given.daemon, "effect", word) for word in ids.given(effects)]
    _show(given, [given.daemon.get("effects", one) for one in named])
    return Exit.DONE


@effects.command()
@MANY
@shared
def reconcile(given: Shared, /, *, effects: tuple[str, ...]) -> Exit:
    """Ask the provider now, by the reconciler that the handler declares (exit 6: still unknown)."""
    named = [ids.resolve(given.daemon, "effect", word) for word in ids.given(effects)]
    for one in named:
        given.daemon.post("effects", one, "reconcile", body={}, wait_ms=WAIT_MS)
    found = [given.daemon.get("effects", one) for one in named]
    _show(given, found)
    return gravest(map(of_effect, found))


@effects.command()
@click.argument("effect_id", metavar="EFFECT")
@click.option(
    "--outcome", type=click.Choice(("applied", "not_applied")), required=True,
    help="What you found.",
)  # fmt: skip
@click.option("--evidence", required=True, help="What you saw; it is written to the journal.")
@click.option(
    "--if-revision", type=click.IntRange(min=0), metavar="N",
    help="The revision you looked at (`effects show` prints it); moved on, nothing is settled.",
)  # fmt: skip
@click.option("--result", "value", metavar="JSON|@FILE|-", help="What it returned, if applied.")
@shared
def resolve(
    given: Shared,
    /,
    *,
    effect_id: str,
    outcome: str,
    evidence: str,
    if_revision: int | None,
    value: str | None,
) -> Exit:
    """State what came of an effect, with evidence. It never flips afterwards."""
    name = ids.resolve(given.daemon, "effect", effect_id)
    if if_revision is None:
        raise CommandError(
            "--if-revision is missing: it says which state of the effect you looked at",
            f"`effectctl effects show {name}` prints the whole command.",
        )
    if not evidence.strip():
        raise CommandError("--evidence is empty: say what you saw and where")
    body: dict[str, Any] = {"outcome": outcome, "evidence": evidence, "if_revision": if_revision}
    if value is not None:
        if outcome != "applied":
            raise CommandError("--result belongs to --outcome applied")
        body["result"] = json_value(value, "--result")
    given.daemon.post("effects", name, "resolve", body=body)
    _show(given, [given.daemon.get("effects", name)])
    return Exit.DONE
