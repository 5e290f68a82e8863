"""Handlers as people read them: what they may do, and what a check of one found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from supervisor.cli.documents import Document, number, objects, part, texts
from supervisor.cli.look import Look, Tone, escape
from supervisor.cli.text import Column, fields, indented, plural, size, span, table, wrapped


class Check(NamedTuple):
    """One thing that was tried: what, how it went, and the remedy when it did not."""

    state: Literal["ok", "warning", "wrong"]
    what: str
    detail: str = ""
    remedy: str = ""

    def document(self) -> dict[str, str]:
        """The JSON form."""
        return dict(self._asdict())


def checks(title: str, found: Sequence[Check], look: Look) -> str:
    """One line a check; a remedy under what needs one; a count at the end."""
    lines = [title] if title else []
    for check in found:
        detail = f": {escape(check.detail)}" if check.detail else ""
        tone: Tone | None = None if check.state == "ok" else "attention"
        what = look.paint(escape(check.what), tone)
        lines.append(f"  {look.mark(check.state)} {_hanging(what + detail, 4, look)}")
        if check.remedy and check.state != "ok":
            lines.append(f"      fix: {_hanging(escape(check.remedy, keep=chr(10)), 11, look)}")
    wrong = sum(check.state == "wrong" for check in found)
    warned = sum(check.state == "warning" for check in found)
    words = [plural(len(found), "check")]
    words += [f"{wrong} wrong"] if wrong else []
    words += [plural(warned, "warning")] if warned else []
    lines.append(", ".join(words) + ("" if wrong or warned else ", all good"))
    return "\n".join(lines)


def _hanging(text: str, indent: int, look: Look) -> str:
    """Text whose first line begins at that column, as do all that follow."""
    return wrapped(text, look.columns - indent).replace("\n", "\n" + " " * indent)


HANDLER_COLUMNS = (
    Column("HANDLER"),
    Column("TIMEOUT", right=True),
    Column("NETWORK"),
    Column("EFFECTS"),
    Column("DESCRIPTION", flexible=True),
)


def effects_in_short(handler: Document) -> str:
    """`charge: idempotency_key`, for each effect."""
    declared = objects(handler, "effects")
    if handler.get("read_only"):
        return "read only"
    return ", ".join(
        f"{escape(one.get('name', '?'))}: {escape(one.get('contract', '?'))}" for one in declared
    )


def handler_list(handlers: Sequence[Document], broken: Sequence[Document], look: Look) -> str:
    """One line a handler; then those whose manifest cannot be used, and how to see why."""
    lines = [_table(handlers, look)]
    for one in broken:
        name = escape(one.get("name", "?"))
        said = f"{look.mark('wrong')} {name}: its manifest is broken"
        lines.append(f"{look.paint(said, 'attention')}: effectctl handlers check {name}")
    return "\n".join(lines)


def _table(handlers: Sequence[Document], look: Look) -> str:
    if not handlers:
        return "No handlers are loaded. A manifest is a file NAME.toml in the handlers directory."
    rows = [
        (
            escape(one.get("name", "?")),
            span(number(one, "timeout_ms")),
            escape(part(one, "sandbox").get("network") or "-"),
            effects_in_short(one),
            escape(one.get("description") or ""),
        )
        for one in handlers
    ]
    return table(HANDLER_COLUMNS, rows, look)


def handler(document: Document, look: Look) -> str:
    """One handler as it is loaded."""
    sandbox = part(document, "sandbox")
    command = " ".join(escape(word) for word in texts(document, "command"))
    head = fields(
        [
            ("handler", escape(document.get("name", "?"))),
            ("description", escape(document.get("description") or "")),
            ("command", command),
            ("timeout", span(number(document, "timeout_ms"))),
            ("grace", span(int(document["grace_ms"])) if document.get("grace_ms") else ""),
            ("read only", "yes" if document.get("read_only") else ""),
            ("resumable", _resumable(document)),
            ("digest", escape(document.get("digest") or "")),
            ("sandbox", _sandbox(sandbox)),
        ],
        look,
    )
    blocks = [_effect(one, look) for one in objects(document, "effects")]
    return "\n\n".join([head, *blocks])


def _resumable(document: Document) -> str:
    eligible = document.get("eligible_for_resume")
    if eligible is None:
        return ""
    return "yes" if eligible else "no: it declares no effect, so nothing of it is safe to repeat"


def _sandbox(sandbox: Document) -> str:
    words = [escape(sandbox[key]) for key in ("level",) if sandbox.get(key)]
    if sandbox.get("network"):
        words.append(f"network {escape(sandbox['network'])}")
    for key in ("read", "write", "unix"):
        words += [f"{key} {escape(path)}" for path in texts(sandbox, key)]
    if isinstance(sandbox.get("memory_max"), int):
        words.append(f"memory at most {size(sandbox['memory_max'])}")
    missing = ", ".join(escape(layer) for layer in texts(sandbox, "accept_missing"))
    return "; ".join(words) + (f"; may lack: {missing}" if missing else "")


def _effect(effect: Document, look: Look) -> str:
    valid = effect.get("key_valid_ms")
    keyed = effect.get("contract") == "idempotency_key" and isinstance(valid, int)
    return (
        look.paint(f"Effect {escape(effect.get('name', '?'))}", "strong")
        + "\n"
        + indented(
            fields(
                [
                    ("contract", escape(effect.get("contract", "?"))),
                    ("scope", escape(effect.get("scope") or "")),
                    ("many", "yes" if effect.get("many") else ""),
                    ("key valid", span(int(valid or 0)) if keyed else ""),
                    ("reconciler", "declared" if effect.get("reconciler") else ""),
                    ("where to look", escape(effect.get("how_to_check") or "")),
                ],
                look,
                2,
            )
        )
    )
