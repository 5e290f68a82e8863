"""Ids as people type them: whole, or a unique beginning, or from stdin by `-`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from supervisor.cli.exits import Exit
from supervisor.cli.talk import CommandError, Daemon

Kind = Literal["operation", "call", "effect"]

TAGS: dict[Kind, str] = {"operation": "op_", "call": "call_", "effect": "eff_"}
BODY = 20
SHORTEST = 6
SHOWN = 5


def given(words: Iterable[str]) -> list[str]:
    """The ids of a command line, each `-` replaced by those on stdin; order kept, repeats once."""
    found: dict[str, None] = {}
    for word in words:
        for text in sys.stdin.read().split() if word == "-" else [word]:
            found[text] = None
    if not found:
        raise CommandError("no id was given (stdin was empty)")
    return list(found)


def resolve(daemon: Daemon, kind: Kind, text: str) -> str:
    """The one id of this kind that the daemon knows and that begins with `text`."""
    return among(kind, text, lambda: _all(daemon, kind))


def among(kind: Kind, text: str, known: Callable[[], Iterable[str]]) -> str:
    """The one id of this kind that begins with `text`; `known` is asked for beginnings alone.

    The tag may be left out; six characters or more are asked for, so that a slip of the
    finger does not name something else.
    """
    tag = TAGS[kind]
    for other, other_tag in TAGS.items():
        if other != kind and text.startswith(other_tag):
            raise CommandError(
                f"{text} is the id of {_article(other)} {other}, and this command takes "
                f"{_article(kind)} {kind}'s"
            )
    whole = text if text.startswith(tag) else tag + text
    if len(whole) == len(tag) + BODY:
        return whole
    if len(text) < SHORTEST:
        raise CommandError(
            f"{text!r} is too short for the beginning of an id",
            f"Give at least {SHORTEST} characters of it.",
        )
    return only(kind, text, [i for i in known() if i.startswith(whole)])


def _article(kind: Kind) -> str:
    return "a" if kind == "call" else "an"


def _listed(kind: Kind) -> str:
    """The noun whose list names ids of this kind: calls stand in their operations."""
    return "effects" if kind == "effect" else "operations"


def only(kind: Kind, text: str, found: list[str]) -> str:
    if len(found) == 1:
        return found[0]
    if not found:
        raise CommandError(
            f"no {kind} has an id that begins with {text}",
            f"`effectctl {_listed(kind)} list` shows what there is.",
            Exit.NOT_FOUND,
        )
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    raise CommandError(
        f"{text} is the beginning of {len(found)} ids: {', '.join(found[:SHOWN])}{more}",
        "Give more characters.",
    )


def _all(daemon: Daemon, kind: Kind) -> Iterator[str]:
    if kind == "effect":
        yield from (str(item["effect_id"]) for item in daemon.items("effects"))
        return
    for operation in daemon.items("operations"):
        if kind == "operation":
            yield str(operation["operation_id"])
        else:
            yield from (str(call) for call in operation.get("calls") or ())
