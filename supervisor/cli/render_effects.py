"""Effects as people read them: what happened, why it is so, where to look, what to type."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor.cli.documents import Document, objects
from supervisor.cli.look import Look, escape
from supervisor.cli.text import Column, ago, clock, fields, indented, short_json, table, wrapped

COLUMNS = (
    Column("EFFECT"),
    Column("OUTCOME"),
    Column("NAME", flexible=True),
    Column("CONTRACT"),
    Column("NEEDS"),
)

NEEDS: dict[str, str] = {
    "person": "a person: nobody but the provider's own records can tell what happened",
    "reconciler": "the provider's own check, which effectd can run",
    "client": "its client: resuming the operation is safe",
    "nothing": "",
}

CONTRACTS: dict[str, str] = {
    "none": "repeating it does no harm",
    "idempotency_key": "the provider recognises the same key again, while the key is valid",
    "reconciliation": "the provider can be asked whether it happened",
    "no_safe_retry": "it must not be made twice, and only a person can find out",
}


def effect_list(effects: Sequence[Document], look: Look) -> str:
    """One line an effect."""
    if not effects:
        return "No effects."
    rows = [
        (
            str(effect["effect_id"]),
            _outcome(effect, look),
            escape(effect.get("name", "")),
            escape(effect.get("contract", "")),
            escape(effect.get("needs") or "-"),
        )
        for effect in effects
    ]
    return table(COLUMNS, rows, look)


def _outcome(document: Document, look: Look) -> str:
    """An outcome in its tone. An unknown effect that may be repeated is nobody's worry."""
    outcome = escape(document.get("outcome", "?"))
    return f"- {outcome}" if _harmless(document) else look.state(outcome)


def _harmless(document: Document) -> bool:
    return document.get("outcome") == "unknown" and document.get("contract") == "none"


def effect(document: Document, look: Look) -> str:
    """One effect: what, why, where to look, and the commands that settle it."""
    parts = [_what(document, look), _tries(document, look), _why(document, look)]
    if document.get("outcome") in {"unknown", "announced"} and not _harmless(document):
        parts.append(_settle(document, look))
    return "\n\n".join(part for part in parts if part)


def _what(document: Document, look: Look) -> str:
    contract = escape(document.get("contract", "?"))
    place = (
        f"call {document.get('call_id', '?')}, attempt {document.get('attempt', '?')}, "
        f"ordinal {document.get('ordinal', '?')}"
    )
    request = document.get("request")
    return fields(
        [
            ("effect", str(document["effect_id"])),
            ("name", escape(document.get("name", "?"))),
            ("handler", escape(document.get("handler") or "")),
            ("outcome", _outcome(document, look)),
            ("contract", f"{contract}: {CONTRACTS.get(contract, 'unknown to this version')}"),
            ("made by", place),
            ("operation", str(document.get("operation_id") or "")),
            ("request", "" if request is None else short_json(request, look, look.columns - 13)),
            ("result", _result(document, look)),
            ("announced", _when(document, "announced_at", look)),
            ("settled by", escape(document.get("settled_by") or "")),
            ("evidence", escape(document.get("evidence") or "")),
            ("key valid", _until(document, look)),
            ("revision", str(document.get("revision", "?"))),
        ],
        look,
    )


def _result(document: Document, look: Look) -> str:
    if document.get("result") is not None:
        return short_json(document["result"], look, look.columns - 13)
    if document.get("outcome") != "applied":
        return ""
    return "recorded" if document.get("result_available") else "not available"


def _when(document: Document, name: str, look: Look) -> str:
    stamp = document.get(name)
    return f"{clock(stamp)} ({ago(stamp, look)})" if stamp else ""


def _until(document: Document, look: Look) -> str:
    stamp = document.get("key_valid_until")
    return f"until {clock(stamp)} ({ago(stamp, look)})" if stamp else ""


def _tries(document: Document, look: Look) -> str:
    tries = objects(document, "tries")
    if len(tries) < 2:
        return ""
    rows = [
        (
            str(one.get("call_id")),
            str(one.get("attempt")),
            look.state(escape(one.get("outcome"))),
            escape(one.get("reason") or one.get("ended") or ""),
        )
        for one in tries
    ]
    columns = (
        Column("TRY OF CALL"),
        Column("ATTEMPT", right=True),
        Column("OUTCOME"),
        Column("ITS END", flexible=True),
    )
    return "Its tries:\n" + indented(table(columns, rows, look))


def _why(document: Document, look: Look) -> str:
    """Why it is unknown, whom it waits for, and where a person can look."""
    if _harmless(document):
        return "Nobody knows whether it happened, and by its contract that does no harm."
    lines: list[str] = []
    if document.get("outcome") == "unknown":
        tries = objects(document, "tries")
        end = escape(tries[-1].get("ended") or "") if tries else ""
        lines += [
            "The handler had leave to make this change and did not say what came of it"
            + (f" ({end})." if end else "."),
            "effectd does not make it again by itself.",
        ]
    needs = NEEDS.get(str(document.get("needs")), "")
    if needs:
        lines.append(f"It waits for {needs}.")
    where = document.get("how_to_check")
    if where:
        lines.append(f"Where to look: {look.paint(escape(where), 'strong')}")
    elif document.get("needs") == "person":
        lines.append(
            "Where to look: the manifest names no place (`how_to_check`); search the "
            f"provider's records for {document['effect_id']} and for the request above."
        )
    return "\n".join(wrapped(line, look.columns) for line in lines)


def _settle(document: Document, look: Look) -> str:
    effect_id, revision = document["effect_id"], document.get("revision", 0)
    start = f"effectctl effects resolve {effect_id} --if-revision {revision}"
    lines: list[str] = []
    if document.get("needs") == "reconciler":
        lines += ["Ask the provider:", f"  effectctl effects reconcile {effect_id}"]
    lines += [
        "When you have looked and it DID happen:",
        f"  {start} \\\n    --outcome applied --evidence 'WHAT YOU SAW'",
    ]
    if document.get("outcome") == "unknown":
        lines += [
            "When you have looked and it did NOT happen:",
            f"  {start} \\\n    --outcome not_applied --evidence 'WHAT YOU SAW'",
        ]
    return "\n".join(look.paint(li, "strong") if li.startswith("  ") else li for li in lines)
