"""Programs at random: every kind of node, both policies, and expressions that do not fit."""

from __future__ import annotations

import random
from typing import Any

from supervisor.core.record import Terms
from supervisor.program.document import SCHEMA

INPUT = {"text": "no number"}
MISFIT = "sum(input.text)"
CHOICES = ["approve", "reject"]


def document(rng: random.Random, handlers: list[Terms]) -> dict[str, Any]:
    """One to four nodes and an end. What a call is given, and what the program gives, names
    earlier values: `{"of": X}` and `{"all": {ID: value}}`."""
    known = ["input"]
    nodes: list[dict[str, Any]] = []
    for number in range(rng.randint(1, 4)):
        name = f"n{number}"
        kind = rng.choices([_bind, _call, _parallel, _approve], [1, 4, 4, 2])[0]
        nodes.append({"id": name, **kind(rng, handlers, known)})
        known.append(name)
    values = {name: {"$": name} for name in known[1:]}
    end = {"give": {"all": values}} if rng.random() < 0.9 else {"stop": {"reason": {"all": values}}}
    return {"schema_version": SCHEMA, "nodes": [*nodes, {"id": "end", **end}]}


def _bind(rng: random.Random, _: list[Terms], known: list[str]) -> dict[str, Any]:
    return {"bind": MISFIT if rng.random() < 0.1 else rng.choice(known)}


def _call(rng: random.Random, handlers: list[Terms], known: list[str]) -> dict[str, Any]:
    given = {"of": {"$": rng.choice(known)}}
    sooner = {"timeout_ms": 5_000} if rng.random() < 0.2 else {}
    return {"call_tool": {"handler": rng.choice(handlers).handler, "input": given, **sooner}}


def _parallel(rng: random.Random, handlers: list[Terms], known: list[str]) -> dict[str, Any]:
    branches = {
        name: _branch(rng, handlers, list(known)) for name in ("a", "b", "c")[: rng.randint(2, 3)]
    }
    how = rng.choice(["fail_fast", "collect"])
    return {"parallel": {"on_failure": how, "branches": branches}}


def _branch(rng: random.Random, handlers: list[Terms], known: list[str]) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = []
    for name in ("x", "y")[: rng.randint(1, 2)]:
        kind = _bind if rng.random() < 0.2 else _call
        nodes.append({"id": name, **kind(rng, handlers, known)})
        known.append(name)
    return nodes


def _approve(rng: random.Random, _: list[Terms], known: list[str]) -> dict[str, Any]:
    expires_ms = rng.choice([5_000, 60_000, 3_600_000, 3_600_000])
    asked = {"by": ["uid:1000"], "expires_ms": expires_ms, "prompt": "?"}
    return {
        "approve": {**asked, **({"choices": [*CHOICES, "later"]} if rng.random() < 0.3 else {})}
    }
