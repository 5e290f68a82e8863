"""The pages of `effectctl explain`. The texts are the codes' own; there is no second table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from supervisor.cli.endings import ENDINGS, WHOLE_CALL, Ending
from supervisor.cli.exits import Exit
from supervisor.cli.look import Look
from supervisor.cli.text import Column, fields, table

if TYPE_CHECKING:
    from supervisor.core.errors import Code

NEVER_AGAIN = """\
effectd never makes an unknown effect again by itself: its contract, its reconciler or a
person's evidence settles it."""


def _wrapped(text: str, look: Look, taken: int) -> str:
    room = max(30, min(look.columns, 96) - taken)
    # A command line that is broken at its hyphens cannot be pasted.
    return "\n".join(textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False))


def _again(code: Code) -> str:
    """Whether to send it again: never suggested unless the code is retryable."""
    if code.retryable:
        return "yes: safe to send again with the same id"
    if code.cli_exit in {Exit.OUTCOME_UNKNOWN, Exit.PARTLY_APPLIED}:
        return "NO: it may make the change a second time"
    return "no: first do what is said above"


def page(code: Code, look: Look) -> str:
    """One code: what it means, what to do, how programs and models see it."""
    taken = len("to a model") + 2
    pairs = [
        ("means", _wrapped(code.meaning, look, taken)),
        ("do", _wrapped(code.fix, look, taken)),
        ("again", _again(code)),
        ("exit code", _exit(code)),
        ("HTTP", str(code.http_status)),
        ("to a model", _wrapped(code.for_model, look, taken)),
    ]
    return f"{look.paint(code.name, 'strong')}: {code.title}\n\n{fields(pairs)}"


def _exit(code: Code) -> str:
    """The exit code with its meaning."""
    return f"{code.cli_exit} ({Exit(code.cli_exit).meaning})"


def document(code: Code) -> dict[str, Any]:
    """A code as JSON."""
    return {
        "code": code.name,
        "title": code.title,
        "meaning": code.meaning,
        "fix": code.fix,
        "retryable": code.retryable,
        "http_status": code.http_status,
        "cli_exit": code.cli_exit,
        "for_model": code.for_model,
    }


def index(codes: Iterable[Code], look: Look) -> str:
    """Every code on a line, and every exit code."""
    columns = (Column("CODE"), Column("EXIT", right=True), Column("MEANS", flexible=True))
    rows = [(code.name, str(code.cli_exit), code.title) for code in codes]
    exits = fields((f"{int(one):>4}", _wrapped(one.meaning, look, 6)) for one in Exit)
    exit_table = f"{look.paint('EXIT  MEANS', 'quiet')}\n{exits}"
    more = "effectctl explain CODE, effectctl explain endings"
    return f"{table(columns, rows, look)}\n\n{exit_table}\n\nMore: {more}"


def endings(look: Look) -> str:
    """How every ending of a handler is read."""
    return "\n\n".join(
        (
            "How an attempt's end is read. An effect is LEFT once its handler had leave for it.",
            _ending_list(ENDINGS, look),
            look.paint('A handler whose one effect is the whole call (scope = "call"):', "strong"),
            _ending_list(WHOLE_CALL, look),
            NEVER_AGAIN,
        )
    )


def _ending_list(rows: Sequence[Ending], look: Look) -> str:
    blocks: list[str] = []
    for row in rows:
        pairs = [("outcome", row.outcome), ("effects", _wrapped(row.effects, look, 12))]
        body = "\n".join("  " + line for line in fields(pairs).split("\n"))
        blocks.append(f"{row.ending}\n{body}")
    return "\n".join(blocks)
