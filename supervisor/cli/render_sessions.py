"""Sessions, their messages, and approvals, as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.cli.documents import Document, objects, part, texts
from supervisor.cli.look import Look, escape
from supervisor.cli.text import Column, ago, clock, fields, indented, table


def session_list(found: Sequence[Document], look: Look) -> str:
    if not found:
        return "No sessions were created."
    rows = [
        (
            str(one["session_id"]),
            str(one.get("unfinished", "?")),
            _labels(one),
            ago(one.get("last_message_at"), look),
            ago(one.get("created_at"), look),
        )
        for one in found
    ]
    columns = (
        Column("SESSION"),
        Column("UNFINISHED", right=True),
        Column("LABELS", flexible=True),
        Column("LAST MESSAGE", right=True),
        Column("CREATED", right=True),
    )
    return table(columns, rows, look)


def _labels(document: Document) -> str:
    return ", ".join(f"{escape(k)}={escape(v)}" for k, v in part(document, "labels").items())


def session(document: Document, look: Look) -> str:
    """One session whole."""
    head = fields(
        [
            ("session", str(document["session_id"])),
            ("uid", str(document.get("uid", "?"))),
            ("labels", _labels(document)),
            ("created", clock(document.get("created_at"))),
            ("last message", clock(document.get("last_message_at"))),
            ("unfinished", str(document.get("unfinished", "?"))),
        ],
        look,
    )
    rows = [
        (
            escape(one.get("message_id", "?")),
            str(one.get("operation_id")),
            escape(one.get("kind") or ""),
            look.state(escape(one.get("state", "?"))),
        )
        for one in objects(document, "messages")
    ]
    if not rows:
        return f"{head}\n\nNo messages."
    columns = (Column("MESSAGE", flexible=True), Column("OPERATION"), Column("KIND"))
    return f"{head}\n\n{table((*columns, Column('STATE')), rows, look)}"


def approval_list(found: Sequence[Document], look: Look) -> str:
    if not found:
        return "Nothing waits for an approval."
    return "\n\n".join(approval(one, look) for one in found)


def approval(document: Document, look: Look) -> str:
    """What is asked, of whom, until when; and the command that answers it."""
    text = fields(
        [
            ("operation", str(document["operation_id"])),
            ("node", escape(document.get("occurrence", "?"))),
            ("asks", escape(document.get("prompt", ""))),
            ("by", escape(" or ".join(texts(document, "by")))),
            ("state", look.state(escape(document.get("state", "?")))),
            ("choice", escape(document.get("choice") or "")),
            ("comment", escape(document.get("comment") or "")),
            ("expires", clock(document.get("expires_at"))),
        ],
        look,
    )
    command = answer_command(document)
    return f"{text}\n{indented(command)}" if document.get("state") == "pending" else text


def answer_command(document: Document) -> str:
    choices = escape("|".join(texts(document, "choices")))
    node = escape(document.get("occurrence", "?"))
    return f"effectctl approvals answer {document['operation_id']} {node} --choice {choices}"
