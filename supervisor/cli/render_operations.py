"""Operations as people read them: lists, one with its timeline, and what recovery offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from supervisor.cli.documents import Document, number, objects, part, texts
from supervisor.cli.look import Look, escape
from supervisor.cli.render_calls import error_fields
from supervisor.cli.text import (
    Column,
    ago,
    clock,
    fields,
    indented,
    json_text,
    plural,
    short_json,
    span,
    table,
)
from supervisor.cli.timeline import timeline

COLUMNS = (
    Column("OPERATION"),
    Column("STATE"),
    Column("WHAT", flexible=True),
    Column("CALLS", right=True),
    Column("CHARGED", right=True),
    Column("CREATED", right=True),
)


def what(operation: Document) -> str:
    """What was asked for, in a word or two: the handlers, else the kind."""
    handlers = ", ".join(texts(operation, "handlers"))
    return escape(handlers or operation.get("kind") or "?")


def operation_list(operations: Sequence[Document], look: Look) -> str:
    """One line an operation, newest first."""
    if not operations:
        return "No operations."
    rows = [
        (
            str(one["operation_id"]),
            look.state(escape(one.get("state", "?"))),
            what(one),
            str(len(one.get("calls") or ())),
            span(number(part(one, "budget"), "charged_ms")),
            ago(one.get("created_at"), look),
        )
        for one in operations
    ]
    return table(COLUMNS, rows, look)


def operation(
    document: Document,
    calls: Sequence[Document],
    look: Look,
    *,
    history: Sequence[Document] = (),
    onward: bool = True,
) -> str:
    """One operation whole: head, budget, result, timeline, and (`onward`) what to type next."""
    parts = [_head(document, look)]
    told = timeline(document, calls, history, look)
    if told:
        parts.append("Timeline (UTC):\n" + indented(told))
    following = next_step(document)
    if following and onward:
        parts.append(following)
    return "\n\n".join(parts)


def _head(document: Document, look: Look) -> str:
    state = look.state(escape(document.get("state", "?")))
    if document.get("cancel_requested"):
        state += " (cancel requested)"
    labels = part(document, "labels")
    result = document.get("result")
    return fields(
        [
            ("operation", str(document["operation_id"])),
            ("kind", escape(document.get("kind", "?"))),
            ("handler", escape(", ".join(texts(document, "handlers")))),
            ("state", state),
            ("request", escape(document.get("request_id") or "")),
            ("created", clock(document.get("created_at"))),
            ("continuation", _continuation(document)),
            ("program", _program(part(document, "program"))),
            *_stands_at(part(document, "program")),
            ("labels", ", ".join(f"{escape(k)}={escape(v)}" for k, v in labels.items())),
            ("budget", budget(part(document, "budget"))),
            ("result", "" if result is None else short_json(result, look, look.columns - 11)),
            ("revision", str(document.get("revision", "?"))),
            *error_fields(document),
        ],
        look,
    )


def _program(program: Document) -> str:
    """How a program ended, or whether it can be resumed."""
    end = part(program, "ended")
    if end:
        why = end.get("detail") or end.get("reason")
        return f"{escape(end.get('how', '?'))} at {escape(end.get('node', '?'))}" + (
            f": {escape(why)}" if why else ""
        )
    return (
        "cannot be resumed: " + escape("; ".join(texts(program, "not_resumable")))
        if (program and not program.get("resumable", True))
        else ""
    )


def _stands_at(program: Document) -> list[tuple[str, str]]:
    """Each node that has come to nothing yet, and why."""
    return [
        ("stands at", ": ".join(escape(said) for said in _why(one) if said))
        for one in objects(program, "stands_at")
    ]


def _why(one: Document) -> tuple[str, ...]:
    return tuple(str(one.get(key) or "") for key in ("node", "state", "code", "detail"))


def _continuation(document: Document) -> str:
    """The newest one, of an operation that has any."""
    found = objects(document, "continuations")
    if not found:
        return ""
    last = found[-1]
    how = last.get("state") if last.get("reason") is None else f"ended: {last['reason']}"
    return f"{last.get('n', '?')}, {escape(how or '?')}"


def budget(document: Document) -> str:
    """A time budget in one line."""
    if not document:
        return ""
    reserved = number(document, "reserved_ms")
    held = f" ({span(reserved)} of it reserved)" if reserved else ""
    return (
        f"{span(int(document.get('charged_ms') or 0))} charged{held} of "
        f"{span(int(document.get('max_run_ms') or 0))}; "
        f"{span(int(document.get('remaining_ms') or 0))} left"
    )


def next_step(document: Document) -> str:
    """What to type next, for states in which something is left to do."""
    operation_id = document["operation_id"]
    if document.get("state") == "unknown":
        return (
            "The outcome is unknown: do not send it again. What can be done:\n"
            f"  effectctl operations recovery {operation_id}"
        )
    if document.get("state") == "waiting":
        return "It waits for a person. What is asked, and how it is answered:\n" + indented(
            "effectctl approvals list"
        )
    if document.get("state") == "interrupted" and document.get("kind") == "open":
        return (
            "Its client decides what is called, and none of its continuations is open:\n"
            f"  effectctl operations continue {operation_id}"
        )
    if document.get("state") == "interrupted":
        return (
            "It was interrupted and does not go on by itself. What can be done:\n"
            f"  effectctl operations recovery {operation_id}"
        )
    return ""


# --- recovery ---------------------------------------------------------------------------------

TYPED: dict[str, str] = {
    "resume": "effectctl operations resume {operation}",
    "approve": "effectctl approvals list",
    "continue": "effectctl operations continue {operation}",
    "cancel": "effectctl operations cancel {operation} --reason 'WHY'",
    "reconcile": "effectctl effects reconcile {effect}",
    "resolve": "effectctl effects show {effect}",
    "extend": "effectctl operations extend {operation} --max-run-ms N --reason 'WHY'",
    "accept-artifacts": "effectctl operations accept-artifacts {operation} --reason 'WHY'",
    "attest-dead": "effectctl calls attest-dead {call} --reason 'HOW YOU KNOW'",
}

VERDICTS: dict[str, str] = {
    "restore": "restore: hand back what is recorded; nothing runs",
    "retry": "retry: a new call with the same effect id",
    "repeat": "repeat: the next attempt; nothing is at stake",
    "finish": "finish: the next attempt; what was applied is answered from the journal",
}


def recovery(document: Document, operation_id: str, look: Look) -> str:
    """What an operation's recovery allows, refuses, and how to type it."""
    checkpoint = part(document, "checkpoint")
    fresh = part(document, "freshness")
    head = fields(
        [
            ("operation", operation_id),
            ("state", look.state(escape(document.get("state", "?")))),
            ("checkpoint", f"revision {checkpoint.get('revision', '?')}"),
            ("digest", escape(checkpoint.get("digest") or "")),
            ("as of", f"position {fresh.get('position', '?')}, {clock(fresh.get('as_of'))}"),
        ]
    )
    parts = [head, _verdicts(document, look), _allowed(document, operation_id, look)]
    parts.append(_refusals(document, look))
    return "\n\n".join(part for part in parts if part)


def _verdicts(document: Document, look: Look) -> str:
    effects = objects(document, "effects")
    if not effects:
        return ""
    columns = (
        Column("EFFECT"),
        Column("OUTCOME"),
        Column("NAME", flexible=True),
        Column("VERDICT"),
    )
    rows = [
        (
            str(one.get("effect_id")),
            look.state(escape(one.get("outcome", "?"))),
            escape(one.get("name", "")),
            escape(one.get("verdict", "?")),
        )
        for one in effects
    ]
    seen = [str(one.get("verdict")) for one in effects]
    legend = [text for name, text in VERDICTS.items() if name in seen]
    return table(columns, rows, look) + "".join(f"\n  {line}" for line in legend)


def _allowed(document: Document, operation_id: str, look: Look) -> str:
    typed = commands(document, operation_id)
    if not typed:
        return "Nothing can be done now."
    return "What can be done:\n" + "\n".join("  " + look.paint(line, "strong") for line in typed)


def commands(document: Document, operation_id: str) -> list[str]:
    """The command lines of the allowed actions, each once, in the daemon's order."""
    actions = objects(document, "actions")
    listed = actions or [{"action": name} for name in texts(document, "allowed_actions")]
    lines: dict[str, None] = {}
    for action in listed:
        pattern = TYPED.get(str(action.get("action")))
        # It is always allowed; it is a way out only where the budget is in the way.
        beside = action.get("action") == "extend" and not _budget_refuses(document)
        if pattern is None or beside:
            continue
        effect = str(action.get("effect_id") or "EFFECT")
        call = str(action.get("call_id") or "CALL")
        lines[pattern.format(operation=operation_id, effect=effect, call=call)] = None
    return list(lines)


def _budget_refuses(document: Document) -> bool:
    return any(one.get("code") == "RunTimeBudgetExceeded" for one in objects(document, "refusals"))


def _refusals(document: Document, look: Look) -> str:
    refusals = objects(document, "refusals")
    if not refusals:
        return ""
    lines: list[str] = ["Why it cannot simply be resumed:"]
    for refusal in refusals:
        lines.append(f"  {look.paint(escape(refusal.get('code', '?')), 'attention')}")
        about = refusal.get("effect_id") or refusal.get("call_id")
        pairs = [
            ("about", str(about or "")),
            ("detail", escape(refusal.get("detail") or "")),
            ("fix", escape(refusal.get("fix") or "")),
        ]
        lines.append(indented(fields(pairs, look, 4), "    "))
    return "\n".join(lines)


def result_text(value: Any, look: Look) -> str:
    """A result as `dispatch` and `calls result` print it: pretty JSON."""
    return json_text(value, pretty=True, ascii_only=look.ascii_only)


def counts(operations: Sequence[Document]) -> str:
    """`3 operations`, for notes under a list."""
    return plural(len(operations), "operation")
