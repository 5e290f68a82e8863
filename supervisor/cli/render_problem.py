"""A refusal as people read it: what, where, what to do. Nothing here suggests trying again
unless the problem itself says `retryable`."""

from __future__ import annotations

from supervisor.cli.documents import Document, objects, texts
from supervisor.cli.exits import Exit
from supervisor.cli.look import Look, escape
from supervisor.cli.text import fields, indented, size, span

NUMBERS = (
    ("limit_value", "limit", span),
    ("active_elapsed_ms", "charged", span),
    ("reservation_ms", "to reserve", span),
    ("remaining_ms", "remaining", span),
    ("limit_bytes", "limit", size),
)

ADVICE: dict[Exit, str] = {
    Exit.OUTCOME_UNKNOWN: "The outcome is unknown. Do not retry.",
    Exit.PARTLY_APPLIED: "Some effects were applied. Do not send it again.",
}


def problem(document: Document, exit_code: Exit, look: Look) -> str:
    """A problem document on a few lines; an id in it is never cut."""
    title = escape(document.get("title") or "refused")
    code = escape(document.get("code") or f"HTTP {document.get('status', '?')}")
    lines = [f"effectctl: {look.paint(code, 'attention')}: {title}"]
    lines.append(indented(fields(_details(document, exit_code), look, 2)))
    return "\n".join(line for line in lines if line)


def _details(document: Document, exit_code: Exit) -> list[tuple[str, str]]:
    """Each member that helps, as name and value."""
    pairs = [
        ("detail", escape(document.get("detail") or "")),
        ("at", escape(document.get("pointer") or "")),
        *_faults(document),
        ("needs", escape(document.get("needs") or "")),
        ("call", escape(document.get("call_id") or "")),
        ("effect", escape(document.get("effect_id") or "")),
        ("oldest kept", escape(document.get("earliest") or "")),
    ]
    pairs += [
        (name, show(value))
        for key, name, show in NUMBERS
        if isinstance(value := document.get(key), int)
    ]
    pairs += [("problem", escape(one)) for one in texts(document, "problems")[1:]]
    pairs.append(("fix", escape(document.get("fix") or "")))
    if document.get("retryable") is True:
        pairs.append(("again", "Safe to send again with the same id."))
    elif exit_code in ADVICE:
        pairs.append(("!", ADVICE[exit_code]))
    return pairs


def _faults(document: Document) -> list[tuple[str, str]]:
    """What else is wrong with what was sent; the first fault is the problem's own."""
    return [
        ("also", f"{escape(one.get('detail', ''))}\nat {escape(one.get('pointer', ''))}")
        for one in objects(document, "faults")[1:]
    ]


def goes_on(operation_id: str) -> str:
    """What Ctrl-C leaves behind: waiting has ended, the operation has not."""
    return (
        f"\nInterrupted here; the operation goes on: {operation_id}\n"
        f"  look:   effectctl operations show {operation_id}\n"
        f"  end it: effectctl operations cancel {operation_id} --reason 'WHY'"
    )


def failure(message: str, fix: str, look: Look) -> str:
    """An error of the command itself: nothing was sent."""
    first = f"effectctl: {escape(message)}"
    return first + (f"\n  {look.paint('fix', 'strong')}  {escape(fix)}" if fix else "")
