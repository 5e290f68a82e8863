"""Every route, wherever an operation stands: an answer, or a refusal with a documented code that
changes nothing; never a fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest

from supervisor.api.routes import ROUTES
from supervisor.core.errors import CODES
from tests.e2e.support.api import Answer, Api, Document, fresh_id
from tests.e2e.support.daemon import Daemon
from tests.e2e.support.journal_files import held
from tests.e2e.support.opened import Opened
from tests.e2e.support.processes import wait_until
from tests.e2e.test_programs import approve, give, send
from tests.e2e.test_programs import call as node

NEVER = {"effects": ["never"]}


@attrs.frozen
class Subject:
    """An operation, and a call and an effect of it; of what it lacks the id names nothing."""

    operation: str
    session: str
    call: str
    effect: str


NOTHING = Subject("op_" + "0" * 20, "ses_" + "0" * 20, "call_" + "0" * 20, "eff_" + "0" * 20)


def subject(api: Api, operation_id: str) -> Subject:
    shown = api.operation(operation_id)
    call = shown["calls"][-1] if shown["calls"] else NOTHING.call
    effects = api.call(call)["effects"] if shown["calls"] else []
    effect = effects[-1]["effect_id"] if effects else NOTHING.effect
    return Subject(operation_id, shown["session_id"], call, effect)


# --- where operations stand -----------------------------------------------------------------


def everywhere(daemon: Daemon) -> dict[str, str]:
    """An operation in each state that a client can see, by `kind state`."""
    api = daemon.api
    doubted, settled, dropped = (held(daemon, fresh_id("t"))["operation_id"] for _ in range(3))
    interrupted = Opened(api)
    daemon.restart()
    for one, outcome in ((settled, "not_applied"), (dropped, "not_applied")):
        [effect] = api.final(one)["call"]["effects"]
        api.resolve(effect["effect_id"], outcome).ok()
    api.cancel(dropped).ok()
    running, stopped, ended = Opened(api), Opened(api), Opened(api)
    running.called("plain", {"tag": fresh_id("t")})
    ended.called("never", {"tag": fresh_id("t"), **NEVER})
    ended.end("done").ok()
    api.cancel(stopped.operation_id).ok()
    fails = {"tag": fresh_id("t"), **NEVER, "fails": ["never"], "exit": 1}
    made = {
        "dispatch unknown": doubted,
        "dispatch interrupted": settled,
        "dispatch cancelled": dropped,
        "dispatch running": held(daemon, fresh_id("t"))["operation_id"],
        "dispatch succeeded": _dispatched(api, {"tag": fresh_id("t"), **NEVER}),
        "dispatch failed": _dispatched(api, fails),
        "open running": running.operation_id,
        "open interrupted": interrupted.operation_id,
        "open succeeded": ended.operation_id,
        "open cancelled": stopped.operation_id,
        "program waiting": _sent(api, approve(), give()),
        "program stopped": _sent(api, {"id": "no", "stop": {"reason": "nothing to do"}}),
        "program succeeded": _sent(api, node("a", fresh_id("t")), give()),
        "program failed": _sent(api, {"id": "a", "bind": "sum(input)"}, give()),
    }
    for name, one in made.items():
        assert f"{api.operation(one)['kind']} {api.operation(one)['state']}" == name
    return made


def _dispatched(api: Api, given: Document) -> str:
    one: str = api.dispatch("never", given, wait_ms=60_000).ok()["operation_id"]
    return one


def _sent(api: Api, *nodes: Document) -> str:
    one: str = send(api, list(nodes), wait_ms=60_000).ok()["operation_id"]
    return one


# --- what is asked ----------------------------------------------------------------------------

Body = Callable[[Api, Subject], Any]


def _resume(api: Api, one: Subject) -> Document:
    recovery = api.ask("GET", f"operations/{one.operation}/recovery")
    pinned = {"revision": 1, "digest": "0" * 64}
    pinned = recovery.document["checkpoint"] if recovery.status == 200 else pinned
    return {
        "schema_version": "effectd-operation-resume-request-v1",
        "operation_id": one.operation,
        "checkpoint_revision": pinned["revision"],
        "checkpoint_digest": pinned["digest"],
        "resume_request_id": fresh_id(),
    }


def _called(_: Api, __: Subject) -> Document:
    return {"request_id": fresh_id(), "handler": "plain", "input": {"tag": fresh_id("t")}}


def _message(_: Api, __: Subject) -> Document:
    call = {"handler": "plain", "input": {"tag": fresh_id("t")}}
    return {"message_id": fresh_id(), "max_run_ms": 600_000, "call": call}


# Of each route that changes something: what is sent. Of the others: nothing.
BODIES: Mapping[str, Body] = {
    "reload": lambda _api, _one: {},
    "dispatch": _called,
    "sessions": lambda _api, _one: {},
    "sessions/*/messages": _message,
    "operations/*/approvals/*": lambda _api, _one: {"choice": "approve"},
    "operations/*/resume": _resume,
    "operations/*/cancel": lambda _api, _one: {"reason": "the test says so"},
    "operations/*/extend": lambda _api, _one: {"max_run_ms": 9_000_000, "reason": "more"},
    "operations/*/accept-artifacts": lambda _api, _one: {"reason": "the test says so"},
    "operations/*/calls": _called,
    "operations/*/continuations": lambda _api, _one: {
        "trigger": "manual",
        "after": 0,
        "request_id": fresh_id(),
    },
    "operations/*/continuations/*/end": lambda _api, _one: {"reason": "error"},
    "calls/*/attest-dead": lambda _api, _one: {"reason": "the test says so"},
    "effects/*/resolve": lambda _api, _one: {"outcome": "applied", "evidence": "seen"},
    "effects/*/reconcile": lambda _api, _one: {},
}
# What ends an operation comes last, so that the others meet it as it stands.
LAST = ("effects/*/resolve", "operations/*/resume", "operations/*/cancel")
FIXED = {"handlers/*": "plain", "schemas/*": "program-v1"}


def path_of(pattern: str, one: Subject) -> str:
    if pattern in FIXED:
        return pattern.replace("*", FIXED[pattern])
    noun, *_ = pattern.split("/")
    name = {"operations": one.operation, "sessions": one.session, "calls": one.call}
    first = name.get(noun, one.effect)
    inner = "ok" if "approvals" in pattern else "0"
    return pattern.replace("*", first, 1).replace("*", inner)


def revision(api: Api, one: Subject) -> int | None:
    answer = api.ask("GET", f"operations/{one.operation}")
    return answer.document["revision"] if answer.status == 200 else None


def at_rest(api: Api, call_id: str) -> None:
    """A call that was accepted has come to its end, and moves its operation no more."""
    wait_until(lambda: api.call(call_id)["state"] not in {"accepted", "running"})


def is_documented(answer: Answer) -> None:
    if answer.status < 300:
        return
    code = CODES[answer.document["code"]]
    assert answer.status == code.http_status
    assert {"type", "title", "detail", "fix", "retryable"} <= set(answer.document)
    assert answer.document["retryable"] is code.retryable


def ordered(one: Subject) -> list[tuple[str, str]]:
    """Those about this one; those about none are asked of what is not there."""
    found = [(method, pattern) for method, pattern, _ in ROUTES]
    about = {"operations", "sessions", "calls", "effects"}
    if one is not NOTHING:
        found = [(m, p) for m, p in found if "*" in p and p.split("/")[0] in about]
    return sorted(found, key=lambda one: LAST.index(one[1]) if one[1] in LAST else -1)


def test_every_route_that_changes_something_has_something_to_send() -> None:
    assert {pattern for method, pattern, _ in ROUTES if method == "POST"} == set(BODIES)


@pytest.mark.timeout(600)
@pytest.mark.guarantee("R3", "R11")
def test_every_route_answers_wherever_an_operation_stands(daemon: Daemon) -> None:
    api = daemon.api
    places = {name: subject(api, one) for name, one in everywhere(daemon).items()}
    places["nothing"] = NOTHING
    codes: dict[str, set[str]] = {}
    for name, one in places.items():
        for method, pattern in ordered(one):
            before = revision(api, one) if method == "POST" else None
            body = BODIES[pattern](api, one) if method == "POST" else None
            answer = api.ask(method, path_of(pattern, one), body)
            is_documented(answer)
            if answer.code is None and pattern == "operations/*/calls":
                at_rest(api, answer.document["call"]["call_id"])
            if answer.code is not None:
                codes.setdefault(name, set()).add(answer.code)
            if answer.code is not None and method == "POST":
                assert revision(api, one) == before, f"{name}: {pattern} was refused, and moved it"
    assert codes["nothing"] == {"NotFound"}
    assert "DurableResumeConflict" in codes["dispatch running"]
    assert "EffectOutcomeUnknown" not in codes["dispatch succeeded"]
    for name in ("dispatch succeeded", "program stopped", "open cancelled"):
        assert "NotResumable" in codes[name], name
