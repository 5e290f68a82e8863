"""An operation's history as lines: from its events, else from what its documents still tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from supervisor.cli.documents import Document, objects, part
from supervisor.cli.look import Look, escape
from supervisor.cli.render_calls import signal_name
from supervisor.cli.text import clock, moment_ns, span

Moment = tuple[object, str, str]


def _outcome(event: Document) -> str:
    return "applied" if event.get("applied") else "not applied"


def _attempt(event: Document) -> str:
    return f"attempt {event.get('attempt', '?')}"


def _accepted(event: Document) -> str:
    said = "retry accepted" if event.get("retry_of") else "call accepted"
    return f"{said} for node {escape(event['node'])}" if event.get("node") else said


def _ended(event: Document) -> str:
    return f"{_attempt(event)} {escape(event.get('outcome', 'ended'))}{by_exit(event)}"


def _announced(event: Document) -> str:
    return f"effect {escape(part(event, 'declared').get('name', '?'))} announced"


def _reconciled(event: Document) -> str:
    applied = event.get("applied")
    said = "could not tell" if applied is None else f"says {_outcome(event)}"
    return f"the provider {said}" + ("" if event.get("settles") else ": evidence only")


# What a person reads of each kind; what is not here says nothing of its own.
TELLING: dict[str, Callable[[Document], str]] = {
    "operation_accepted": lambda _: "accepted",
    "program_accepted": lambda _: "its program accepted",
    "node_bound": lambda e: f"node {escape(e.get('node', '?'))} has its value",
    "approval_requested": lambda e: f"approval {escape(e.get('node', '?'))} asked for",
    "approval_answered": lambda e: (
        f"approval {escape(e.get('node', '?'))} answered: {escape(e.get('choice', '?'))}"
    ),
    "approval_expired": lambda e: f"approval {escape(e.get('node', '?'))} expired",
    "program_ended": lambda e: f"program {escape(e.get('ended', '?'))}",
    "call_accepted": _accepted,
    "call_queued": lambda e: f"waits to start again ({escape(e.get('relaunch', '?'))})",
    "call_restored": lambda _: "result handed back",
    "call_refused": lambda e: f"refused: {escape(e.get('code', '?'))}",
    "dispatch_refused_budget_exceeded": lambda _: "no room in the budget",
    "attempt_started": lambda e: f"{_attempt(e)} started",
    "attempt_ended": _ended,
    "attempt_interrupted": lambda e: f"{_attempt(e)} interrupted",
    "death_proven": lambda e: f"{_attempt(e)} proven dead",
    "effect_announced": _announced,
    "effect_answered": lambda _: "effect answered from the journal",
    "announcement_refused": lambda e: f"announcement refused: {escape(e.get('code', '?'))}",
    "effect_confirmed": lambda e: f"effect {_outcome(e)}, by {escape(e.get('settled_by', '?'))}",
    "confirmation_disputed": lambda e: f"handler now says {_outcome(e)}: kept as evidence",
    "effect_resolved": lambda e: f"effect {_outcome(e)}, by operator",
    "effect_result_lost": lambda e: f"its result is {escape(e.get('reason', '?'))}",
    "call_result_lost": lambda e: f"its result is {escape(e.get('reason', '?'))}",
    "reconciler_started": lambda _: "the provider is asked",
    "reconciler_ended": _reconciled,
    "reconciler_death_proven": lambda _: "its reconciler proven dead",
    "cancel_requested": lambda _: "cancel requested",
    "resume_accepted": lambda _: "resume accepted",
    "continuation_opened": lambda e: (
        f"continuation {e.get('n')} opened ({escape(e.get('trigger', '?'))})"
    ),
    "continuation_ended": lambda e: (
        f"continuation {e.get('n')} ended: {escape(e.get('reason', '?'))}"
    ),
    "repeat_answered": lambda e: f"an equal call was {escape(e.get('answer', '?'))}",
    "budget_extended": lambda e: f"budget extended to {span(int(e.get('max_run_ms', 0)))}",
    "artifacts_accepted": lambda _: "new artifacts accepted",
    "operation_abandoned": lambda e: f"cancelled: nobody asked for it in {e.get('days')} days",
    "operation_evicted": lambda _: "no longer kept",
}


def timeline(
    document: Document, calls: Sequence[Document], history: Sequence[Document], look: Look
) -> str:
    """Every moment, oldest first, with what happened then and the time since the one before."""
    whole = bool(history) and history[0].get("type") == "operation_accepted"
    moments = _from_events(history) if whole else []
    # What a restart or a cancel ends stands in no event of the operation's own.
    moments += _from_continuations(document, all_=not whole)
    for call in calls:
        moments += _from_call(call, named=len(calls) > 1, only_interrupted=whole)
    if not whole:
        moments.append((document.get("created_at"), "accepted", document["operation_id"]))
    return _lines(moments, look)


def _from_events(history: Sequence[Document]) -> list[Moment]:
    found: list[Moment] = []
    for event in history:
        tell = TELLING.get(str(event.get("type")))
        if tell is not None:
            about = event.get("effect_id") or event.get("call_id") or event.get("operation_id")
            found.append((event.get("at"), tell(event), str(about)))
    return found


def _from_continuations(document: Document, *, all_: bool) -> list[Moment]:
    """How the continuations of an open operation came and went; else only what no event tells."""
    found: list[Moment] = []
    about = document["operation_id"]
    for one in objects(document, "continuations"):
        opened = f"continuation {one.get('n')} opened ({escape(one.get('trigger', '?'))})"
        ended = f"continuation {one.get('n')} ended: {escape(one.get('reason', '?'))}"
        if all_:
            found.append((one.get("opened"), opened, str(about)))
        if one.get("reason") in {"restart", "cancelled"} or (all_ and one.get("reason")):
            found.append((one.get("ended"), ended, str(about)))
    return found


def _from_call(call: Document, *, named: bool, only_interrupted: bool) -> list[Moment]:
    """What happened to a call; its handler is named where there are several."""
    found: list[Moment] = []
    handler = escape(call.get("handler", "?"))
    about = f"{handler}, {call['call_id']}" if named else str(call["call_id"])
    for attempt in objects(call, "attempts"):
        number = attempt.get("attempt", "?")
        outcome = escape(attempt.get("outcome") or attempt.get("phase") or "ended")
        if not only_interrupted:
            found.append((call.get("created_at") if number == 0 else None, "call accepted", about))
            found.append((attempt.get("started_at"), f"attempt {number} started", about))
        if not only_interrupted or attempt.get("phase") == "interrupted":
            text = f"attempt {number} {outcome}{by_exit(attempt)}"
            found.append((attempt.get("ended_at"), text, about))
    return found if only_interrupted else found + _from_effects(call)


def _from_effects(call: Document) -> list[Moment]:
    found: list[Moment] = []
    for effect in objects(call, "effects"):
        name, about = escape(effect.get("name", "?")), str(effect.get("effect_id"))
        found.append((effect.get("announced_at"), f"effect {name} announced", about))
        outcome = escape(effect.get("outcome", "?"))
        by = f" by {escape(effect['settled_by'])}" if effect.get("settled_by") else ""
        found.append((effect.get("settled_at"), f"effect {name} {outcome}{by}", about))
    return found


def by_exit(attempt: Document) -> str:
    """How the leader left, where that says something."""
    ending = part(attempt, "exit")
    if ending.get("signal") is not None:
        return f" ({signal_name(int(ending['signal']))})"
    return f" (exit {ending['code']})" if ending.get("code") else ""


def _lines(moments: Sequence[Moment], look: Look) -> str:
    timed = [(moment_ns(stamp), stamp, event, about) for stamp, event, about in moments]
    known = sorted((one for one in timed if one[0] is not None), key=lambda one: one[0] or 0)
    lines: list[str] = []
    before: int | None = None
    for ns, stamp, event, about in known:
        gap = "" if before is None else "+" + span(((ns or 0) - before) // 1_000_000)
        start = f"{clock(stamp)[11:23]:<12}  {gap:>9}  {event}  "
        lines.append(start + look.paint(escape(about), "quiet"))
        before = ns
    return f"{clock(known[0][1])[:10]}\n" + "\n".join(lines) if known else ""
