"""Moments as people type them: a position, a time, a clock time of today, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from supervisor.cli.talk import CommandError

SECOND_NS = 1_000_000_000
# `d` days, `h` hours, `min` (or `m`) minutes, `s` seconds.
_UNITS_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_AGO = re.compile(r"-(\d{1,9})(s|min|m|h|d)")
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?")

FORMS = (
    "Give 2026-03-01T14:05 (UTC unless it says +02:00), 14:05 (today, UTC), "
    "or -2h (also s, min, d)."
)


class Spot(NamedTuple):
    """A place in a journal: a position, or a time in nanoseconds since the epoch; one is set."""

    position: int | None
    at: int | None


def spot(text: str, option: str, now_ns: int) -> Spot:
    """A position or a time. Raises CommandError for anything else."""
    if text.isascii() and text.isdigit():
        return Spot(int(text), None)
    return Spot(None, time_ns(text, option, now_ns))


def time_ns(text: str, option: str, now_ns: int) -> int:
    """A time in nanoseconds since the epoch; without a zone it is UTC, as everything printed."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now_ns - int(ago[1]) * _UNITS_S[ago[2]] * SECOND_NS
    try:
        return _nanoseconds(_moment(text, now_ns))
    except (ValueError, OverflowError):
        raise CommandError(f"{option} {text}: not a time", FORMS) from None


def _moment(text: str, now_ns: int) -> datetime:
    if _CLOCK.fullmatch(text):
        today = datetime.fromtimestamp(now_ns // SECOND_NS, UTC)
        return datetime.fromisoformat(f"{today:%Y-%m-%d}T{text.rjust(5, '0')}")
    return datetime.fromisoformat(text.removesuffix(" UTC"))


def _nanoseconds(moment: datetime) -> int:
    known = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    whole = int(known.replace(microsecond=0).timestamp())
    return whole * SECOND_NS + known.microsecond * 1000
