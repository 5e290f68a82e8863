"""The daemon does not answer: what was found at each place, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supervisor.cli.look import Look, escape
from supervisor.cli.text import indented

if TYPE_CHECKING:
    from effectd.errors import BadAnswer, Unreachable

SYSTEM = "/run/effectd/"
# What a checklist cannot see from outside: the daemon's own words about why it is not there.
LOOK_FURTHER = (
    "systemctl status effectd.socket effectd.service",
    "journalctl -u effectd -n 50",
)


def unreachable(error: Unreachable, look: Look) -> str:
    """A checklist; it says whether the request may have been carried out."""
    from effectd.errors import AnswerLost

    lines = [f"effectctl: {look.paint('not reachable', 'attention')}: {escape(error.detail)}"]
    lines += [f"  {look.mark('wrong')} {escape(line)}" for line in error.checklist]
    if error.fix:
        lines.append(f"  fix: {escape(error.fix)}")
    if isinstance(error, AnswerLost) and not error.retryable:
        lines.append("  The request was sent. Look at the present state before anything else.")
    if error.temporary and any(SYSTEM in line for line in error.checklist):
        lines += ["  to see why it is away:", indented("\n".join(LOOK_FURTHER), "    ")]
    return "\n".join(lines)


def stranger(error: BadAnswer, look: Look) -> str:
    """Something answers, and it does not speak as effectd does."""
    return "\n".join(
        (
            f"effectctl: {look.paint('not effectd', 'attention')}: {escape(error.detail)}",
            "  Another program, or a daemon of another version, listens on this socket.",
            "  fix: compare `effectctl --version` with the daemon's; --socket names another one",
        )
    )
