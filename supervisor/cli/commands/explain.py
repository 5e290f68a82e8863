"""`effectctl explain`."""

from __future__ import annotations

import click

from supervisor.cli.endings import ENDINGS, WHOLE_CALL
from supervisor.cli.exits import Exit
from supervisor.cli.output import Shared, shared
from supervisor.cli.render_explain import document, endings, index, page
from supervisor.cli.talk import CommandError


@click.command()
@click.argument("code", required=False)
@shared
def explain(given: Shared, /, *, code: str | None) -> Exit:
    """What a code means and what to do; `endings` shows how every ending of a handler is read."""
    from supervisor.core.errors import CODES

    if code is None:
        documents = {"items": [document(one) for one in CODES.values()]}
        given.emit(documents, lambda look: index(CODES.values(), look), CODES)
        return Exit.DONE
    if code == "endings":
        rows = [one._asdict() for one in (*ENDINGS, *WHOLE_CALL)]
        given.emit({"items": rows}, endings, [one.ending for one in (*ENDINGS, *WHOLE_CALL)])
        return Exit.DONE
    found = {name.lower(): row for name, row in CODES.items()}.get(code.lower())
    if found is None:
        import difflib

        near = difflib.get_close_matches(code, [*CODES, "endings"], n=3, cutoff=0.4)
        raise CommandError(
            f"there is no code {code!r}",
            f"Did you mean {' or '.join(near)}?" if near else "`effectctl explain` lists them.",
            Exit.NOT_FOUND,
        )
    given.emit(document(found), lambda look: page(found, look), [found.name])
    return Exit.DONE
