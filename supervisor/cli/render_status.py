"""The status screen: what a person who was woken at night acts on, each with its command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from supervisor.cli.documents import Document, number, objects, part, texts
from supervisor.cli.look import Look, Tone, escape
from supervisor.cli.render_operations import what
from supervisor.cli.text import ago, cut, plural, span, wrapped

Level = Literal["ok", "warning", "critical"]
CHECK_EXITS: dict[Level, int] = {"ok": 0, "warning": 1, "critical": 2}
CHECK_UNREACHABLE = 3
SHOWN = 3
# Reasons of a degraded daemon that touch one handler, or one call, and nobody else.
MILD = frozenset({"UnknownHandler", "PreviousAttemptAlive"})


class View(NamedTuple):
    """What the screen shows: the daemon's status, and what waits for whom.

    Each list holds at most one more than is shown, so `more` needs the daemon's counts.
    """

    status: Document
    person: Sequence[Document] = ()  # effects
    reconciler: Sequence[Document] = ()  # effects
    client: Sequence[Document] = ()  # operations
    approval: Sequence[Document] = ()  # approvals


def level(view: View) -> Level:
    """How bad it is: whatever needs a person now is critical. An approval is what its program
    was written to wait for, and nothing is wrong."""
    status = view.status
    if view.person or _grave(status):
        return "critical"
    away = status.get("state") != "ready" or objects(part(status, "sandbox"), "not_proven_dead")
    if view.reconciler or view.client or weak_layers(status) or away:
        return "warning"
    return "ok"


def _grave(status: Document) -> bool:
    """Read-only, or degraded in a way that stops new work."""
    codes = {one.get("code") for one in objects(status, "degraded")}
    state = status.get("state")
    return state == "read_only" or (state == "degraded" and not (codes and codes <= MILD))


def weak_layers(status: Document) -> list[str]:
    """The sandbox layers that are not in force, as `name: state`."""
    layers = part(part(status, "sandbox"), "layers")
    return [f"{name}: {state}" for name, state in layers.items() if state != "in force"]


def check_line(view: View, look: Look) -> str:
    """One line for a monitoring system."""
    found = [
        why(view.status),
        _count(view.person, "effect needs a person", "effects need a person"),
        _count(view.reconciler, "effect can be reconciled", "effects can be reconciled"),
        _count(view.client, "operation waits for its client", "operations wait for their clients"),
        _count(view.approval, "approval is awaited", "approvals are awaited"),
    ]
    said = "; ".join(text for text in found if text) or "nothing needs anybody"
    return f"{look.mark(level(view))} effectd {level(view).upper()}: {said}"


def _count(items: Sequence[Document], one: str, many: str) -> str:
    if not items:
        return ""
    more = "more than " if len(items) > SHOWN else ""
    number = min(len(items), SHOWN) if more else len(items)
    return f"{more}{plural(number, one, many)}"


def why(status: Document) -> str:
    """What is wrong with the daemon itself, in one line; empty when nothing is."""
    state = str(status.get("state", "?"))
    if state == "ready":
        return ""
    reasons = [escape(one.get("detail") or one.get("code") or "") for one in _reasons(status)]
    said = escape(state.replace("_", "-"))
    return f"{said}: {reasons[0]}" if reasons else said


def _reasons(status: Document) -> Sequence[Document]:
    """What is not as it should be, each with `detail` and `fix`."""
    return objects(status, "degraded")


def status_screen(view: View, look: Look) -> str:
    """The whole screen."""
    parts = [_head(view.status, look)]
    parts += [
        section
        for section in (
            _effects("A person must look", view.person, "show", "person", look),
            _effects("The provider can be asked", view.reconciler, "reconcile", "reconciler", look),
            _operations(view.client, look),
            _approvals(view.approval, look),
        )
        if section
    ]
    if len(parts) == 1 and level(view) == "ok":
        parts.append(f"{look.mark('ok')} Nothing needs anybody.")
    weak = _layers(view.status, look)
    if weak:
        parts.append(weak)
    sandbox = _sandbox(part(view.status, "sandbox"), look)
    if sandbox:
        parts.append(sandbox)
    return "\n\n".join(parts)


def _head(status: Document, look: Look) -> str:
    state = str(status.get("state", "?"))
    tone: Tone = "good" if state == "ready" else "attention"
    condition = look.paint(escape(state.replace("_", "-")), tone)
    words = [f"effectd {escape(status.get('version', '?'))}", condition]
    if status.get("uptime_ms") is not None:
        words.append(f"up {span(int(status['uptime_ms']))}")
    position = number(part(status, "journal"), "durable_position")
    words.append(f"journal at {position}")
    first = f"{look.mark('ok' if state == 'ready' else 'warning')} " + ", ".join(words)
    lines = [first, "  " + _counts(part(status, "counts"))]
    for reason in _reasons(status):
        lines.append(f"  {look.mark('wrong')} {escape(reason.get('detail') or '')}")
        if reason.get("fix"):
            lines.append(f"      fix: {escape(reason['fix'])}")
    alive = objects(part(status, "sandbox"), "not_proven_dead")
    if alive:
        lines.append(
            f"  {look.mark('warning')} {plural(len(alive), 'process tree')} not proven dead"
        )
        lines.append(f"      effectctl calls show {escape(alive[0].get('call_id'))}")
    return "\n".join(lines)


def _counts(counts: Document) -> str:
    """What there is, by state, in the daemon's order."""
    found = [
        f"{count} {escape(state)}"
        for state, count in part(counts, "operations").items()
        if isinstance(count, int) and count
    ]
    said = "operations: " + (", ".join(found) if found else "none yet")
    queued = number(counts, "queued")
    return said + (f"; {plural(queued, 'call')} queued" if queued else "")


def _title(text: str, count: int, look: Look) -> str:
    more = "+" if count > SHOWN else ""
    return look.paint(f"{text} ({min(count, SHOWN)}{more})", "attention")


def _effects(title: str, effects: Sequence[Document], verb: str, needs: str, look: Look) -> str:
    if not effects:
        return ""
    lines = [_title(title, len(effects), look)]
    for effect in effects[:SHOWN]:
        of = f" of {escape(effect['handler'])}" if effect.get("handler") else ""
        since = f", {ago(effect['announced_at'], look)}" if effect.get("announced_at") else ""
        contract = escape(effect.get("contract", "?"))
        lines.append(
            f"  {look.mark('unknown')} {escape(effect.get('name', '?'))}{of} ({contract}){since}"
        )
        lines.append(look.paint(f"      effectctl effects {verb} {effect['effect_id']}", "strong"))
    if len(effects) > SHOWN:
        lines.append(f"  more: effectctl effects list --needs {needs}")
    return "\n".join(lines)


def _operations(operations: Sequence[Document], look: Look) -> str:
    if not operations:
        return ""
    lines = [_title("Waits for its client, or for you to resume it", len(operations), look)]
    for one in operations[:SHOWN]:
        state = escape(one.get("state", "?"))
        asked = ago(one.get("created_at"), look)
        lines.append(f"  {look.mark(state)} {what(one)}, {state}, asked for {asked}")
        lines.append(
            look.paint(f"      effectctl operations recovery {one['operation_id']}", "strong")
        )
    if len(operations) > SHOWN:
        lines.append("  more: effectctl operations list --needs client")
    return "\n".join(lines)


def _approvals(approvals: Sequence[Document], look: Look) -> str:
    if not approvals:
        return ""
    lines = [_title("Waits for an approval", len(approvals), look)]
    for one in approvals[:SHOWN]:
        until = ago(one.get("expires_at"), look)
        by = " or ".join(texts(one, "by"))
        said = f"{one.get('prompt', '')} ({by}), expires {until}"
        line = f"  {look.mark('waiting')} {one['operation_id']} {escape(said)}"
        lines.append(cut(line, look.columns, look))
    lines.append(look.paint("      effectctl approvals list", "strong"))
    return "\n".join(lines)


def _sandbox(sandbox: Document, look: Look) -> str:
    """How the pool does, and what handlers run without: facts, no alarm."""
    lines: list[str] = []
    pool = part(sandbox, "pool")
    if pool:
        counts = ("ready", "hits", "misses", "stale", "evicted")
        said = ", ".join(f"{number(pool, name)} {name}" for name in counts)
        lines.append(f"Sandboxes prepared ahead: {said}")
    without = [one for one in objects(sandbox, "missing") if not one.get("refuses")]
    if without:
        names = ", ".join(escape(one.get("layer") or "?") for one in without)
        lines.append(f"Handlers run without {names}: `effectctl doctor` says why and what to do.")
    return "\n".join(look.paint(wrapped(line, look.columns), "quiet") for line in lines)


def _layers(status: Document, look: Look) -> str:
    """The sandbox layers that are not in force; silent when all are."""
    weak = weak_layers(status)
    if not weak:
        return ""
    names = "; ".join(escape(one) for one in weak)
    return f"{look.mark('warning')} Sandbox: {names}\n      " + look.paint(
        "effectctl doctor", "strong"
    )
