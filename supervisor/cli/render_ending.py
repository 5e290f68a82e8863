"""How a dispatch that did not succeed is told: first what is safe, then why, then what to type."""

from __future__ import annotations

from supervisor.cli.documents import Document, number, objects
from supervisor.cli.exits import Exit
from supervisor.cli.look import Look, escape
from supervisor.cli.render_calls import Context, attempt, error_fields
from supervisor.cli.text import fields, indented, wrapped

HEADLINES: dict[Exit, str] = {
    Exit.FAILED: "The call failed. Nothing was applied.",
    Exit.TIMED_OUT: "The call timed out and was ended. Nothing was applied.",
    Exit.CANCELLED: "The call was cancelled. Nothing was applied.",
    Exit.REFUSED: "The call was refused. Nothing was started.",
    Exit.CONFLICT: "The call was refused. Nothing was started.",
    Exit.NOT_FOUND: "The call was refused. Nothing was started.",
    Exit.USAGE: "The call was refused. Nothing was started.",
    Exit.OUTCOME_UNKNOWN: "OUTCOME UNKNOWN. Do not retry: it may have happened.",
    Exit.PARTLY_APPLIED: "Some effects WERE APPLIED. Do not send it again.",
    Exit.TEMPORARY: "It was interrupted. Nothing was applied.",
}


def ending(
    operation: Document,
    call: Document,
    code: Exit,
    look: Look,
    context: Context,
    *,
    onward: bool = True,
) -> str:
    """What a person is told on stderr, most important line first.

    `onward` adds what to type next, which needs a daemon that still knows the operation.
    """
    parts = [look.paint(HEADLINES.get(code, code.meaning), "attention")]
    parts.append(indented(fields(error_fields(call), look, 2)))
    attempts = objects(call, "attempts")
    if attempts:
        last = attempts[-1]
        parts.append(
            indented(
                attempt(
                    last,
                    look,
                    tail=context.tails.get(number(last, "attempt"), ""),
                    policy=context.policies.get(number(last, "attempt")),
                )
            )
        )
    parts += [
        indented(wrapped(f"hint: {escape(hint)}", look.columns - 2)) for hint in context.hints
    ]
    if onward:
        parts += _next(operation, call, code)
    return "\n".join(part for part in parts if part)


def _next(operation: Document, call: Document, code: Exit) -> list[str]:
    operation_id = operation["operation_id"]
    if code is Exit.OUTCOME_UNKNOWN:
        unknown = [
            str(one["effect_id"])
            for one in objects(call, "effects")
            if one.get("outcome") in {"unknown", "announced"} and one.get("contract") != "none"
        ]
        looks = [f"    effectctl effects show {one}" for one in unknown]
        return [
            "  What to look at, and how to settle it:",
            *(looks or [f"    effectctl operations recovery {operation_id}"]),
        ]
    if code is Exit.PARTLY_APPLIED:
        return [
            "  What can be done with what is left:",
            f"    effectctl operations recovery {operation_id}",
        ]
    if code is Exit.TEMPORARY:
        return [
            "  To go on with the same operation:",
            f"    effectctl operations resume {operation_id}",
        ]
    return [f"  More: effectctl operations show {operation_id}"]
