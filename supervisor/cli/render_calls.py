"""Calls and their attempts as people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from supervisor.cli.documents import Document, number, objects, part, texts
from supervisor.cli.look import Look, escape
from supervisor.cli.render_effects import effect_list
from supervisor.cli.text import clock, fields, indented, plural, short_json, size, span, wrapped

TAIL_LINES = 12


class Context(NamedTuple):
    """What is asked for beside a call's document, by attempt: stderr, sandbox; and hints."""

    tails: Mapping[int, str] = {}
    policies: Mapping[int, Document] = {}
    hints: Sequence[str] = ()


def call(
    document: Document,
    look: Look,
    *,
    context: Context | None = None,
) -> str:
    """One call whole, with what else is known of its attempts."""
    known = context or Context()
    parts = [_head(document, look)]
    parts += [
        attempt(
            one,
            look,
            tail=known.tails.get(number(one, "attempt"), ""),
            policy=known.policies.get(number(one, "attempt")),
        )
        for one in objects(document, "attempts")
    ]
    parts += [wrapped(f"hint: {escape(hint)}", look.columns) for hint in known.hints]
    effects = objects(document, "effects")
    if effects:
        parts.append("Effects:\n" + indented(effect_list(effects, look)))
    return "\n\n".join(parts)


def _head(document: Document, look: Look) -> str:
    flags = [name for name in ("replayed", "late", "cancel_requested") if document.get(name)]
    state = look.state(escape(document.get("state", "?")))
    return fields(
        [
            ("call", str(document["call_id"])),
            ("operation", str(document.get("operation_id") or "")),
            ("handler", escape(document.get("handler", "?"))),
            ("state", state + (f" ({', '.join(flags)})" if flags else "")),
            ("retry of", str(document.get("retry_of") or "")),
            ("retried by", str(document.get("retried_by") or "")),
            ("effects", _counts(document)),
            ("result", _result(document, look)),
            *error_fields(document),
        ],
        look,
    )


def _counts(document: Document) -> str:
    applied = number(document, "effects_applied")
    unknown = number(document, "effects_unknown")
    return f"{applied} applied, {unknown} unknown" if applied or unknown else ""


def _result(document: Document, look: Look) -> str:
    if document.get("result") is not None:
        return short_json(document["result"], look, look.columns - 12)
    if document.get("state") == "succeeded" and document.get("result_available") is False:
        return "not available (too large, damaged or expired); the call is not run again for it"
    return ""


def error_fields(document: Document) -> list[tuple[str, str]]:
    """Why it did not succeed, as name and value."""
    error = part(document, "error")
    detail = escape(error.get("detail") or "")
    code = escape(error.get("code") or "")
    return [
        ("why", f"{code}: {detail}" if code and detail else code or detail),
        ("fix", escape(error.get("fix") or "")),
    ]


def attempt(
    document: Document, look: Look, *, tail: str = "", policy: Document | None = None
) -> str:
    """One attempt: how it ended, what it used, what confined it, and the end of its stderr.

    `policy` is its handler's sandbox, with the layers that were not there as `missing`.
    """
    outcome = document.get("outcome") or document.get("phase") or "?"
    lines = [
        f"Attempt {document.get('attempt', '?')}: {look.state(escape(outcome))}{_ending(document)}",
        indented(fields(_attempt_fields(document, policy or {}), look, 4)),
    ]
    if tail.strip():
        lines.append("  the end of its stderr:")
        kept = escape(tail.rstrip(), keep="\n\t").split("\n")[-TAIL_LINES:]
        lines += [look.paint(f"    {line}", "quiet") for line in kept]
    return "\n".join(line for line in lines if line)


def _ending(document: Document) -> str:
    ending = part(document, "exit")
    words: list[str] = []
    if ending.get("code") is not None:
        words.append(f"exit {ending['code']}")
    if ending.get("signal") is not None:
        words.append(f"by {signal_name(int(ending['signal']))}")
    if document.get("active_ms") is not None:
        words.append(f"after {span(int(document['active_ms']))}")
    if document.get("phase") == "interrupted":
        words.append("nobody saw it end")
    return ", " + ", ".join(words) if words else ""


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; the number where it has no name."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _attempt_fields(document: Document, policy: Document) -> list[tuple[str, str]]:
    reserved = document.get("reservation_ms")
    killed = number(document, "leftovers_killed")
    return [
        *error_fields({"error": document}),
        ("time", _times(document)),
        ("reserved", span(int(reserved)) if reserved is not None else ""),
        ("sandbox", sandbox_line(document, policy)),
        (
            "leftovers",
            f"{plural(killed, 'process', 'processes')} killed after its end" * bool(killed),
        ),
    ]


def _times(document: Document) -> str:
    """From when to when; the day once where both are on it."""
    started, ended = clock(document.get("started_at")), clock(document.get("ended_at"))
    if ended == "-":
        return f"since {started}" if started != "-" else ""
    same_day = started[:10] == ended[:10]
    return f"{started.removesuffix(' UTC')} to {ended[11:] if same_day else ended}"


def sandbox_line(document: Document, policy: Document) -> str:
    """What confined the attempt and what it used, on one line."""
    usage = part(document, "usage")
    words: list[str] = []
    if policy.get("level"):
        words.append(escape(policy["level"]))
    if policy.get("network"):
        words.append(f"network {escape(policy['network'])}")
    words += [f"{key} {escape(path)}" for key in ("read", "write") for path in texts(policy, key)]
    words += used(usage, policy)
    layers = texts(document, "layers")
    if layers:
        words.append(plural(len(layers), "layer"))
    missing = [escape(layer) for layer in texts(policy, "missing")]
    if missing:
        words.append(f"WITHOUT {', '.join(missing)}")
    return "; ".join(words)


def used(usage: Document, policy: Document) -> list[str]:
    """What was used, each in a few words; a limit that ended it is named as that."""
    words: list[str] = []
    if usage.get("memory_peak_bytes") is not None:
        word = f"memory used {size(int(usage['memory_peak_bytes']))}"
        if usage.get("memory_scope") == "largest_process":
            word += " by its largest process"
        elif policy.get("memory_max") is not None:
            word += f" of {size(int(policy['memory_max']))}"
        words.append(word)
    if usage.get("cpu_ms") is not None:
        words.append(f"cpu {span(int(usage['cpu_ms']))}")
    if usage.get("tasks_peak") is not None:
        words.append(f"{plural(int(usage['tasks_peak']), 'task')} at once")
    if usage.get("tasks_started") is not None:
        words.append(f"{usage['tasks_started']} started")
    if usage.get("limit"):
        words.append(f"ENDED BY ITS LIMIT of {escape(usage['limit'])}")
    return words


def captured(document: Document, name: str) -> str:
    """One captured stream's text, with what was cut out of it said."""
    stream = part(document, name)
    head = escape(stream.get("head") or "", keep="\n\t")
    tail = escape(stream.get("tail") or "", keep="\n\t")
    omitted = number(stream, "omitted")
    return head + (f"\n[{size(omitted)} in between were not kept]\n" if omitted else "") + tail
