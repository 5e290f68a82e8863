"""A journal's records as people read them: when, what happened in words, who asked, the ids."""

from __future__ import annotations

from supervisor.cli.documents import Document, part
from supervisor.cli.look import Look, escape
from supervisor.cli.render_events import LOUD, members
from supervisor.cli.text import clock, wrapped
from supervisor.cli.timeline import TELLING

# Members that the words have said already.
_SAID = frozenset({"attempt", "applied", "epoch", "version", "settled_by", "settles", "code"})


def words(fact: Document) -> str:
    """What happened, in a few words; the kind itself where there are none for it."""
    kind = str(fact.get("type", "?"))
    if kind == "daemon_started":
        return f"daemon started, version {escape(fact.get('version', '?'))}"
    if kind == "attempt_reserved":
        return f"attempt {fact.get('attempt', '?')} reserved"
    tell = TELLING.get(kind)
    return escape(kind) if tell is None else tell(fact)


def who(fact: Document) -> str:
    """Who asked for it, where somebody did."""
    by = part(fact, "by")
    return f"uid {by['uid']}" if "uid" in by else ""


def record(fact: Document, look: Look, *, attested: bool = True) -> str:
    """One record in a line, and what it names in the next."""
    start = f"{fact.get('position', '?'):>6}  {clock(fact.get('at'))[:23]:<23}  "
    loud = fact.get("type") in LOUD
    line = start + look.paint(words(fact), "attention" if loud else "strong")
    line += f", by {who(fact)}" if who(fact) else ""
    if not attested:
        line += look.paint("  (not proven durable)", "attention")
    more = members(fact, look, without=_SAID)
    if not more:
        return line
    lines = wrapped(" ".join(more), look.columns - 8).split("\n")
    return "\n".join([line, *(" " * 8 + look.paint(one, "quiet") for one in lines)])


def line_of_its_own(position: int, payload: str, file: str, look: Look) -> str:
    """A line that the journal wrote for itself: where a segment begins, or a mark."""
    what = f"{file} begins" if '"segment"' in payload else f"mark {payload}"
    return look.paint(f"{position:>6}  {'':<23}  {escape(what)}", "quiet")
