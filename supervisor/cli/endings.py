"""How every ending of a handler is read, as a table for `effectctl explain endings`."""

from __future__ import annotations

from typing import NamedTuple


class Ending(NamedTuple):
    """How a handler ended; the attempt's outcome; what its announced effects are then."""

    ending: str
    outcome: str
    effects: str


ENDINGS: tuple[Ending, ...] = (
    Ending("could not be started (missing interpreter, no permission)", "not_started",
           "none: no code of it ran; nothing is charged"),
    Ending("exit 0", "succeeded",
           "as confirmed; left and not confirmed: unknown"),
    Ending("exit 0, leaving out an effect that an earlier try announced", "failed",
           "as known before; EffectCorrelationMismatch"),
    Ending("any other exit", "failed",
           "as confirmed; left and not confirmed: unknown"),
    Ending("death by a signal that effectd did not send", "failed",
           "as confirmed; left and not confirmed: unknown"),
    Ending("deadline passed (TERM, grace, KILL)", "timed_out",
           "as confirmed until the tree was dead; left and not confirmed: unknown"),
    Ending("exit 0 during the grace after the deadline", "timed_out, late",
           "as confirmed; the call has its result"),
    Ending("cancelled, or the daemon was stopped", "cancelled",
           "as confirmed until the tree was dead; left and not confirmed: unknown"),
    Ending("daemon, launcher or sandbox died first", "none: interrupted",
           "as confirmed; left and not confirmed: unknown; the whole reservation is kept"),
    Ending("at any of these, without any leave given", "as above",
           "none: nothing was applied"),
)  # fmt: skip

WHOLE_CALL: tuple[Ending, ...] = (
    Ending("exit 0", "succeeded", "applied; its output is the result"),
    Ending("an exit listed in not_applied_exits", "failed", "not applied"),
    Ending("any other exit, a signal, the deadline, a cancel", "as above", "unknown"),
    Ending("the daemon died before the start was recorded", "none: interrupted",
           "not applied: it never ran"),
)  # fmt: skip
