"""A rehearsal as people read it: what was said, how it ended, what was denied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from supervisor.cli.look import Look, escape
from supervisor.cli.render_calls import TAIL_LINES, signal_name
from supervisor.cli.text import indented, short_json, size, span, wrapped

if TYPE_CHECKING:
    from supervisor.cli.denials.amend import Amendment
    from supervisor.cli.denials.values import Denial
    from supervisor.cli.rehearsal import Heard, Run


def rehearsal(run: Run, hints: Sequence[str], look: Look) -> str:
    """One run: conversation, output, ending, sandbox, hints."""
    parts = [_conversation(run.conversation, look)]
    for name, text in (("stdout", run.stdout), ("stderr", run.stderr)):
        if text.strip():
            lines = escape(text.rstrip(), keep="\n\t").split("\n")
            shown = lines[-TAIL_LINES:]
            first = f"{name}:" if len(shown) == len(lines) else f"the end of {name}:"
            parts.append(f"{first}\n{indented(chr(10).join(shown))}")
    confined = indented(wrapped(_sandbox(run), look.columns - 2))
    parts.append(f"{look.mark(_state(run))} {_ending(run)}\n{confined}")
    parts += [wrapped(f"hint: {escape(hint)}", look.columns) for hint in hints]
    return "\n\n".join(part for part in parts if part)


def _conversation(heard: Sequence[Heard], look: Look) -> str:
    lines: list[str] = []
    for one in heard:
        told = "" if one.detail is None else " " + _short(one.detail, look)
        asked = "" if one.request is None else " " + short_json(one.request, look)
        lines.append(f"{span(one.at_ms):>8}  {one.said}{told}{asked}")
        if one.said == "announces":
            lines.append(f"{'':>8}  refused: this is a rehearsal")
    return "\n".join(lines)


def _short(value: object, look: Look) -> str:
    return escape(value) if isinstance(value, str) else short_json(value, look)


def _state(run: Run) -> str:
    if run.ended == "exited":
        return "succeeded" if run.status == 0 else "failed"
    return run.ended if run.ended in {"timed_out", "not_started"} else "failed"


def _ending(run: Run) -> str:
    took = f" after {span(run.active_ms)}"
    if run.ended == "exited":
        return f"exit {run.status}{took}"
    if run.ended == "signaled":
        return f"ended by {signal_name(run.status or 0)}{took}"
    if run.ended == "timed_out":
        return f"did not end in its timeout_ms; it was ended{took}"
    return f"{run.ended.replace('_', ' ')}: {escape(run.detail)}"


def _sandbox(run: Run) -> str:
    words = [f"layers: {', '.join(run.layers)}"]
    if run.traced:
        words.append("watched by strace, so slower than it would be")
    if run.cpu_ms is not None:
        words.append(f"cpu {span(run.cpu_ms)}")
    if run.memory_peak_bytes is not None:
        words.append(f"memory used {size(run.memory_peak_bytes)}")
    return "; ".join(words)


def denied(run: Run, allowed: Amendment, file: str, look: Look) -> str:
    """What the runs were denied: lines to paste for what a key allows, then what none does."""
    if not run.traced:
        note = f"Its system calls were not watched: {escape(run.untraced)}."
        return look.paint(wrapped(note, look.columns), "quiet")
    parts: list[str] = []
    if allowed.lines:
        well = (run.ended, run.status) == ("exited", 0)
        head = (
            "It ended well without what it was denied. To allow it"
            if well
            else ("It was denied what a manifest can allow. If it should have it")
        )
        parts.append(wrapped(f"{head}, put this into {escape(file)}:", look.columns))
        parts.append(indented(escape(allowed.text, keep="\n")))
        if allowed.replaced:
            keys = ", ".join(allowed.replaced)
            note = f"Its [sandbox] has {keys} already: these lines take the place."
            parts.append(wrapped(note, look.columns))
        if allowed.beside:
            rows = [f"  {escape(one.value)}: {escape(one.fix)}" for one in allowed.beside]
            parts.append("And on the host:\n" + "\n".join(rows))
    if allowed.left:
        rows = [_left(one, look) for one in allowed.left]
        parts.append("No key allows:\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _left(denial: Denial, look: Look) -> str:
    lines = wrapped(f"{escape(denial.call)}: {escape(denial.why)}", look.columns - 4)
    if denial.fix:
        lines += "\n" + wrapped(f"fix: {escape(denial.fix)}", look.columns - 4)
    return f"  {look.mark('refused')} " + lines.replace("\n", "\n    ")


def compared(pointer: str | None, look: Look) -> str:
    """What two runs with the same input told apart."""
    if pointer is None:
        return f"{look.mark('ok')} both runs announced the same"
    return (
        f"{look.mark('wrong')} the two runs differ at {escape(pointer)}\n"
        "  A relaunched handler must announce the same requests; a time, a random\n"
        "  number or an unordered set in one makes it EffectCorrelationMismatch."
    )
