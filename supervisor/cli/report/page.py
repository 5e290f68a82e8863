"""The page: what the journal is, what is unknown and whom it waits for, each operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from supervisor.cli.documents import Document, objects, part
from supervisor.cli.look import escape as spelled
from supervisor.cli.render_effects import NEEDS
from supervisor.cli.render_operations import budget, commands, what
from supervisor.cli.render_past import allowed
from supervisor.cli.render_record import who, words
from supervisor.cli.report.gather import Case, Report
from supervisor.cli.report.picture import picture
from supervisor.cli.report.style import CSS
from supervisor.cli.text import clock, json_text

# Members that have a column of their own.
_PLACED = frozenset({"position", "at", "type", "operation_id", "by"})
SHOWN_CHARACTERS = 4_000


def page(report: Report) -> Iterator[str]:
    """The document in pieces, in order. Every text from elsewhere is escaped."""
    # A page that can load and run nothing stays harmless whatever slips into it.
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>effectd journal, {_text(report.ended or '')}</title>"
        f"<style>{CSS}</style></head>\n<body><h1>effectd: what happened</h1>\n"
    )
    yield _head(report)
    yield _unknown(report.cases)
    yield _overview(report.cases)
    for case in report.cases:
        yield _case(case)
    yield "</body></html>\n"


def _head(report: Report) -> str:
    state = "every line proven by its checksum and the chain; not anchored by this report"
    rows = [
        ("journal", _text(report.directory)),
        ("positions", f"{report.first} to {report.last}"),
        ("from", _text(clock(report.begun))),
        ("to", _text(clock(report.ended))),
        ("proof", state if report.problem is None else _warned(report.problem)),
        ("head", f"<code>{_text(report.head)}</code>"),
    ]
    cells = "".join(f'<tr><th scope="row">{name}</th><td>{value}</td></tr>' for name, value in rows)
    return f"<table>{cells}</table>\n"


def _warned(problem: Exception) -> str:
    return f'<span class="warn">DAMAGED, proof ends here: {_text(problem)}</span>'


def _unknown(cases: Sequence[Case]) -> str:
    effects = [
        (case, one)
        for case in cases
        for one in objects(case.told.recovery, "effects")
        if one.get("outcome") == "unknown"
    ]
    if not effects:
        return "<h2>Nothing is unknown</h2>\n"
    rows = [
        [
            _code(one.get("effect_id")),
            _text(f"{one.get('name', '?')} by {one.get('handler', '?')}"),
            _text(NEEDS.get(str(one.get("needs")), "") or "nobody"),
            _text(one.get("how_to_check") or ""),
            _link(case),
        ]
        for case, one in effects
    ]
    titles = ("Effect", "What", "It waits for", "Where to look", "Operation")
    return f"<h2>Unknown: nobody can tell yet</h2>\n{_table(titles, rows)}"


def _overview(cases: Sequence[Case]) -> str:
    rows = [
        [
            _link(case),
            _text(case.told.operation.get("state")),
            _text(what(case.told.operation)),
            _text(clock(case.told.operation.get("created_at"))),
            _text(", ".join(allowed(case.told.recovery)) or "-"),
        ]
        for case in cases
    ]
    titles = ("Operation", "State", "What", "Created", "Recovery allows")
    return f"<h2>Operations</h2>\n{_table(titles, rows)}" if rows else "<h2>No operations</h2>\n"


def _link(case: Case) -> str:
    operation_id = _text(case.told.operation["operation_id"])
    return f'<a href="#{operation_id}"><code>{operation_id}</code></a>'


def _case(case: Case) -> str:
    operation = case.told.operation
    operation_id = _text(operation["operation_id"])
    return (
        f'<section><h2 id="{operation_id}">{operation_id}: {_text(operation.get("state"))}</h2>\n'
        f"<p>{_text(what(operation))}, request <code>{_text(operation.get('request_id'))}</code>; "
        f"{_text(budget(part(operation, 'budget')))}.</p>\n"
        f"{_figure(case)}{_records(case.history)}{_recovery(case)}</section>\n"
    )


def _figure(case: Case) -> str:
    drawn = picture(case)
    told = "Attempts as bars, effects as marks; long waits are shortened. The table has it all."
    return f"<figure>{drawn}<figcaption>{told}</figcaption></figure>\n" if drawn else ""


def _records(history: Sequence[Document]) -> str:
    rows = [
        [
            _text(one.get("position")),
            _text(clock(one.get("at"))),
            # What words are made of is spelled for a terminal already; a page needs more.
            escape(words(one)),
            _text(who(one)),
            f"<code>{_details(one)}</code>",
        ]
        for one in history
    ]
    return _table(("Position", "Time", "What happened", "Who", "Record"), rows)


def _details(fact: Document) -> str:
    rest = {name: value for name, value in fact.items() if name not in _PLACED}
    text = json_text(rest, pretty=False)
    cut = f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"
    return escape(text if len(text) <= SHOWN_CHARACTERS else cut)


def _recovery(case: Case) -> str:
    refusals = [
        f"<li>{_text(one.get('code'))}: {_text(one.get('detail') or '')}</li>"
        for one in objects(case.told.recovery, "refusals")
    ]
    typed = commands(case.told.recovery, str(case.told.operation["operation_id"]))
    lines = [f"<li><code>{escape(line)}</code></li>" for line in typed]
    found = ""
    if refusals:
        found += f"<p>Why it cannot simply be resumed:</p><ul>{''.join(refusals)}</ul>\n"
    if lines:
        found += f"<p>What can be done:</p><ul>{''.join(lines)}</ul>\n"
    return found


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already."""
    head = "".join(f'<th scope="col">{title}</th>' for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>\n"


def _code(value: Any) -> str:
    return f"<code>{_text(value)}</code>"


def _text(value: Any) -> str:
    """Text made safe to read and to embed: no control or bidirectional character acts."""
    return escape(spelled(value))
