"""What each screen says, as values: documents in, text out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from supervisor.cli.documents import Document
from supervisor.cli.exits import Exit, of_problem
from supervisor.cli.look import UNSAFE, Look
from supervisor.cli.render_calls import Context, captured
from supervisor.cli.render_calls import attempt as attempt_text
from supervisor.cli.render_calls import call as call_text
from supervisor.cli.render_effects import effect as effect_text
from supervisor.cli.render_effects import effect_list
from supervisor.cli.render_ending import ending
from supervisor.cli.render_events import event
from supervisor.cli.render_explain import endings, index, page
from supervisor.cli.render_handlers import Check, checks, handler, handler_list
from supervisor.cli.render_operations import (
    commands,
    operation_list,
)
from supervisor.cli.render_operations import operation as operation_text
from supervisor.cli.render_operations import (
    recovery as recovery_text,
)
from supervisor.cli.render_problem import problem
from supervisor.cli.render_status import View, check_line, level, status_screen
from supervisor.cli.text import moment_ns
from supervisor.cli.timeline import TELLING
from supervisor.core.errors import CODES
from supervisor.core.record import KINDS
from tests.cli.documents import (
    CALL,
    EFF,
    EFF2,
    OP,
    OP2,
    approval,
    attempt,
    call,
    effect,
    failed_call,
    operation,
    recovery,
)

NOW = moment_ns("2026-03-01T13:00:00.000Z")
assert NOW is not None
LOOK = Look(now_ns=NOW)
NASTY = "\x1b[2J\x1b]0;owned\x07\u202e\x9b"

STATUS: dict[str, Any] = {
    "version": "0.1.0",
    "state": "ready",
    "degraded": [],
    "uptime_ms": 97_200_000,
    "journal": {"position": 12_345, "durable_position": 12_345},
    "counts": {"operations": {"running": 2, "succeeded": 1_203}, "running": 2, "queued": 1},
    "sandbox": {"layers": {"root": "in force"}, "unkillable": [], "not_proven_dead": []},
}


FULL = [{"code": "JournalUnavailable", "detail": "no space for a spare", "fix": "free space"}]

# --- status -----------------------------------------------------------------------------------


def test_a_quiet_status_says_that_nothing_needs_anybody() -> None:
    text = status_screen(View(STATUS), LOOK)
    assert "ready" in text
    assert "up 1 d 3 h" in text
    assert "operations: 2 running, 1203 succeeded; 1 call queued" in text
    assert "Nothing needs anybody" in text


def test_status_names_what_needs_whom_each_with_the_command_to_type() -> None:
    asked = effect(effect_id=EFF2, contract="reconciliation", needs="reconciler")
    view = View(STATUS, [effect()], [asked], [operation(state="interrupted")])
    text = status_screen(view, LOOK)
    assert f"effectctl effects show {EFF}\n" in text + "\n"
    assert f"effectctl effects reconcile {EFF2}" in text
    assert f"effectctl operations recovery {OP}" in text
    assert text.index("A person must look") < text.index("The provider can be asked")
    assert "Nothing needs anybody" not in text


def test_status_fits_one_screen_and_says_that_there_is_more() -> None:
    many = [effect(effect_id=f"eff_{i:020}") for i in range(5)]
    waiting = [operation(operation_id=f"op_{i:020}", state="interrupted") for i in range(5)]
    asked = [approval(operation_id=f"op_{i:020}", prompt="Ship it? " * 20) for i in range(5)]
    text = status_screen(View(STATUS, many, many, waiting, asked), LOOK)
    assert len(text.split("\n")) <= 40
    assert max(len(line) for line in text.split("\n")) <= 80
    assert "effectctl effects list --needs person" in text
    assert "effectctl operations list --needs client" in text
    assert "Waits for an approval (3+)" in text
    assert "effectctl approvals list" in text


LEVELS: list[tuple[str, View, str]] = [
    ("nothing", View(STATUS), "ok"),
    ("a person is needed", View(STATUS, person=[effect()]), "critical"),
    ("degraded", View({**STATUS, "state": "degraded", "degraded": FULL}), "critical"),
    ("read-only", View({**STATUS, "state": "read_only", "degraded": FULL}), "critical"),
    (
        "a manifest is broken",
        View({**STATUS, "state": "degraded", "degraded": [{"code": "UnknownHandler"}]}),
        "warning",
    ),
    ("draining", View({**STATUS, "state": "draining"}), "warning"),
    (
        "an attempt is not proven dead",
        View({**STATUS, "sandbox": {"not_proven_dead": [{"call_id": CALL, "attempt": 0}]}}),
        "warning",
    ),
    ("reconcilable", View(STATUS, reconciler=[effect()]), "warning"),
    ("an approval is awaited", View(STATUS, approval=[approval()]), "ok"),
    ("a client is awaited", View(STATUS, client=[operation()]), "warning"),
    (
        "a layer is missing",
        View({**STATUS, "sandbox": {"layers": {"root": "missing: no user namespaces"}}}),
        "warning",
    ),
]


@pytest.mark.guarantee("S9")
def test_the_screen_tells_how_the_pool_does_and_what_handlers_run_without() -> None:
    pool = {"ready": 3, "hits": 120, "misses": 4, "templates": 2, "stale": 1, "evicted": 0}
    missing = [
        {"layer": "memory", "cause": "no controller", "remedy": "delegate", "refuses": False},
        {"layer": "root", "cause": "no namespaces", "remedy": "allow them", "refuses": True},
    ]
    view = View({**STATUS, "sandbox": {"pool": pool, "missing": missing}})
    text = status_screen(view, LOOK)
    assert "3 ready, 120 hits, 4 misses, 1 stale, 0 evicted" in text
    assert "Handlers run without memory:" in text


@pytest.mark.parametrize(("view", "expected"), [r[1:] for r in LEVELS], ids=[r[0] for r in LEVELS])
def test_the_check_level(view: View, expected: str) -> None:
    assert level(view) == expected
    line = check_line(view, LOOK)
    assert f"effectd {expected.upper()}: " in line
    assert "\n" not in line


def test_a_degraded_daemon_says_why_first() -> None:
    text = status_screen(View({**STATUS, "state": "degraded", "degraded": FULL}), LOOK)
    assert "degraded" in text.split("\n")[0]
    assert "no space for a spare" in text.split("\n")[2]
    assert "fix: free space" in text


# --- effects ----------------------------------------------------------------------------------


def test_an_unknown_effect_shows_where_to_look_and_both_commands_ready_to_paste() -> None:
    text = effect_text(effect(), LOOK)
    start = f"effectctl effects resolve {EFF} --if-revision 3 \\\n   "
    assert f"{start} --outcome applied --evidence " in text
    assert f"{start} --outcome not_applied --evidence " in text
    assert max(map(len, text.split("\n"))) <= 80
    assert "the provider's dashboard, search" in text
    assert '{"amount":100}' in text
    assert "does not make it again by itself" in text
    assert "(nobody saw it end)" in text


def test_an_effect_without_how_to_check_still_says_where_to_look() -> None:
    assert EFF in effect_text(effect(how_to_check=""), LOOK).split("Where to look:")[1]


def test_an_effect_that_is_still_announced_offers_only_applied() -> None:
    text = effect_text(effect(outcome="announced", needs="nothing"), LOOK)
    assert "--outcome applied" in text
    assert "--outcome not_applied" not in text


def test_a_reconcilable_effect_offers_the_reconciler_first() -> None:
    text = effect_text(effect(contract="reconciliation", needs="reconciler"), LOOK)
    assert text.index(f"effects reconcile {EFF}") < text.index("effects resolve")


def test_an_unknown_effect_that_does_no_harm_alarms_nobody() -> None:
    document = effect(contract="none", needs="nothing")
    assert "effectctl" not in effect_text(document, LOOK)
    assert "?" not in effect_list([document], LOOK)


@pytest.mark.parametrize("outcome", ["applied", "not_applied"])
def test_a_settled_effect_offers_no_command(outcome: str) -> None:
    text = effect_text(effect(outcome=outcome, needs="nothing", settled_by="handler"), LOOK)
    assert "effectctl" not in text
    assert "handler" in text


def test_an_applied_effect_says_when_its_result_is_not_available() -> None:
    document = effect(outcome="applied", needs="nothing", result_available=False)
    assert re.search(r"result +not available", effect_text(document, LOOK))


# --- calls and attempts -----------------------------------------------------------------------


def test_a_failed_attempt_prints_its_sandbox_beside_its_stderr_tail() -> None:
    policy = {"level": "strict", "network": "none", "read": ["/srv/data"], "missing": ["proc"]}
    text = attempt_text(attempt(), LOOK, tail="Traceback:\n  boom", policy=policy)
    assert "failed, exit 3, after 1.2 s" in text
    flat = re.sub(r"\s+", " ", text)
    assert "strict; network none; read /srv/data; memory used 9216 KiB; cpu 40 ms" in flat
    assert "2 tasks at once; 2 layers; WITHOUT proc" in flat
    assert "2026-03-01 10:00:00.010 to 10:00:01.260 UTC" in text
    assert "    Traceback:\n      boom" in text


def test_a_signal_is_named() -> None:
    text = attempt_text(attempt(exit={"code": None, "signal": 9}, outcome="timed_out"), LOOK)
    assert "timed_out, by SIGKILL" in text
    assert "signal 250" in attempt_text(attempt(exit={"signal": 250}), LOOK)


def test_only_the_end_of_a_long_stderr_is_printed() -> None:
    text = attempt_text(attempt(), LOOK, tail="\n".join(f"line {i}" for i in range(100)))
    assert "line 99" in text
    assert "line 80" not in text


def test_leftovers_are_told() -> None:
    assert "2 processes killed after its end" in attempt_text(attempt(leftovers_killed=2), LOOK)
    assert "leftovers" not in attempt_text(attempt(), LOOK)


def test_an_interrupted_attempt_says_that_nobody_saw_its_end() -> None:
    document = attempt(phase="interrupted", outcome=None, exit=None, active_ms=None)
    assert "interrupted, nobody saw it end" in attempt_text(document, LOOK)


def test_a_call_shows_why_it_failed_and_its_hints() -> None:
    error = {"code": "HandlerArtifactChanged", "detail": "digest differs", "fix": "accept it"}
    text = call_text(failed_call(error=error), LOOK, context=Context({0: "oops"}, {}, ["/x hides"]))
    assert "HandlerArtifactChanged: digest differs" in text
    assert "accept it" in text
    assert "oops" in text
    assert "hint: /x hides" in text


def test_a_result_that_is_gone_is_not_run_again_for() -> None:
    text = call_text(call(result=None, result_available=False), LOOK)
    assert "not run again for it" in re.sub(r"\s+", " ", text)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"stdout": {"head": "all", "tail": "", "omitted": 0}}, "all"),
        (
            {"stdout": {"head": "first", "tail": "last", "omitted": 2048}},
            "first\n[2048 B in between were not kept]\nlast",
        ),
        ({"stdout": {"head": "a\x1b[1mb\n", "tail": ""}}, "a\\x1b[1mb\n"),
        ({}, ""),
    ],
)
def test_captured_output_is_escaped_and_says_what_was_cut(document: Document, text: str) -> None:
    assert captured(document, "stdout") == text


# --- operations -------------------------------------------------------------------------------


def test_a_list_of_operations_is_aligned_and_relative() -> None:
    text = operation_list([operation(), operation(operation_id=OP2, state="unknown")], LOOK)
    assert OP in text
    assert OP2 in text
    assert "3 h ago" in text
    assert max(len(line) for line in text.split("\n")) <= 80


def test_a_timeline_tells_of_every_request_that_settled_or_resumed_something() -> None:
    def at(second: int, kind: str, **members: Any) -> dict[str, Any]:
        return {"at": f"2026-11-29T12:00:{second:02}.000Z", "type": kind, **members}

    history = [
        at(0, "operation_accepted", operation_id=OP),
        at(0, "call_accepted", call_id="call_1"),
        at(1, "attempt_started", call_id="call_1", attempt=0),
        at(2, "effect_announced", effect_id="eff_1", declared={"name": "send"}),
        at(9, "effect_resolved", effect_id="eff_1", applied=True),
        at(10, "resume_accepted", resume_request_id="r"),
        at(10, "call_restored", call_id="call_1"),
    ]
    text = operation_text(operation(state="succeeded"), [], LOOK, history=history)
    lines = text[text.index("Timeline") :].splitlines()
    told = ["accepted", "call accepted", "attempt 0 started", "effect send announced",
            "effect applied, by operator", "resume accepted", "result handed back"]  # fmt: skip
    assert [one for one, line in zip(told, lines[2:], strict=False) if one in line] == told


def test_every_record_kind_of_an_operation_has_its_place_in_a_timeline() -> None:
    silent = {"daemon_started", "journal_repaired", "attempt_reserved"}
    silent |= {"session_created", "session_ended", "tombstone_expired", "tombstone_renewed"}
    assert set(TELLING) == set(KINDS) - silent


def test_an_operation_shows_absolute_times_and_its_timeline_in_order() -> None:
    failed = failed_call(effects=[effect(settled_at="2026-03-01T10:00:01.000Z")])
    text = operation_text(operation(state="unknown"), [failed], LOOK)
    assert "2026-03-01 10:00:00.000 UTC" in text
    lines = text[text.index("Timeline") :].split("\n")
    events = [
        "accepted",
        "call accepted",
        "attempt 0 started",
        "effect charge-card announced",
        "effect charge-card unknown",
        "attempt 0 failed (exit 3)",
    ]
    found = [next(i for i, line in enumerate(lines) if one in line) for one in events]
    assert found == sorted(found)
    assert "+260 ms" in text


@pytest.mark.parametrize("state", ["unknown", "interrupted"])
def test_an_operation_that_stands_says_what_to_type(state: str) -> None:
    assert f"effectctl operations recovery {OP}" in operation_text(operation(state=state), [], LOOK)


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "running"])
def test_an_operation_with_nothing_left_to_do_suggests_nothing(state: str) -> None:
    assert "effectctl" not in operation_text(operation(state=state), [], LOOK)


def test_recovery_prints_the_allowed_actions_as_commands_and_why_not_resume() -> None:
    text = recovery_text(recovery(), OP, LOOK)
    assert f"effectctl effects show {EFF}" in text
    assert f"effectctl operations cancel {OP} --reason 'WHY'" in text
    assert "operations resume" not in text
    assert "charge-card was left and not confirmed" in text
    assert "ab" * 32 in text


def test_every_action_of_this_version_has_its_command() -> None:
    allowed = ["resume", "continue", "reconcile", "resolve", "cancel", "extend", "accept-artifacts"]
    actions = [{"action": name, "effect_id": EFF} for name in allowed]
    actions.append({"action": "attest-dead", "call_id": CALL})
    refusals = [{"code": "RunTimeBudgetExceeded"}]
    lines = commands({"actions": actions, "refusals": refusals}, OP)
    assert len(lines) == len(actions)
    assert f"effectctl calls attest-dead {CALL} --reason 'HOW YOU KNOW'" in lines


def test_extending_is_offered_only_where_the_budget_is_in_the_way() -> None:
    assert commands({"actions": [{"action": "extend"}], "refusals": []}, OP) == []


def test_recovery_without_actions_says_so() -> None:
    document = recovery(allowed_actions=[], actions=[], refusals=[], effects=[])
    assert "Nothing can be done now." in recovery_text(document, OP, LOOK)


# --- problems and endings ---------------------------------------------------------------------

AGAIN = re.compile(r"\b(again|retry|retrying|re-?send|re-?run)\b", re.IGNORECASE)
NEGATED = re.compile(r"(do not|never|not|without) [\w ]*\b(again|retry|retried)\b", re.IGNORECASE)


def _suggests_again(text: str) -> bool:
    """Whether a text tells the reader to send or run the same thing once more."""
    return bool(
        re.search(
            r"(safe to send|send|run|try) (it |this |the same \w+ )?again", NEGATED.sub("", text)
        )
    )


@pytest.mark.parametrize("name", CODES)
def test_no_problem_suggests_sending_again_unless_it_is_retryable(name: str) -> None:
    code = CODES[name]
    document = {
        "code": name,
        "title": code.title,
        "status": code.http_status,
        "retryable": code.retryable,
    }
    text = problem(document, of_problem(document), LOOK)
    assert _suggests_again(text) is code.retryable
    if code.cli_exit in {Exit.OUTCOME_UNKNOWN, Exit.PARTLY_APPLIED}:
        assert "Do not" in text


def test_a_problem_prints_its_members_and_numbers() -> None:
    document = {
        "code": "RunTimeBudgetExceeded",
        "title": "no room",
        "detail": "10000 ms charged",
        "fix": "extend it",
        "pointer": "/timeout_ms",
        "needs": "effects.resolve",
        "call_id": CALL,
        "remaining_ms": 5_000,
        "limit_value": 15_000,
    }
    text = problem(document, Exit.REFUSED, LOOK)
    for expected in ("no room", "10000 ms", "extend it", "/timeout_ms", "effects.resolve", CALL):
        assert expected in text
    assert re.search(r"remaining +5 s", text)
    assert re.search(r"limit +15 s", text)


ENDINGS = [
    (Exit.FAILED, "Nothing was applied", f"operations show {OP}"),
    (Exit.TIMED_OUT, "timed out", f"operations show {OP}"),
    (Exit.CANCELLED, "cancelled", f"operations show {OP}"),
    (Exit.REFUSED, "Nothing was started", f"operations show {OP}"),
    (Exit.OUTCOME_UNKNOWN, "Do not retry", f"effects show {EFF}"),
    (Exit.PARTLY_APPLIED, "Do not send it again", f"operations recovery {OP}"),
    (Exit.TEMPORARY, "interrupted", f"operations resume {OP}"),
]


@pytest.mark.parametrize(("code", "said", "command"), ENDINGS)
def test_an_ending_says_first_what_is_safe_and_then_what_to_type(
    code: Exit, said: str, command: str
) -> None:
    document = failed_call(effects=[effect()])
    text = ending(operation(), document, code, LOOK, Context({0: "tail"}, {}, ["look there"]))
    assert said in text.split("\n")[0]
    assert f"effectctl {command}" in text
    assert not _suggests_again(text)
    assert "tail" in text
    assert "hint: look there" in text


# --- events, handlers, explain ----------------------------------------------------------------


def test_an_event_is_one_line_and_its_ids() -> None:
    document = {
        "position": 41,
        "at": "2026-03-01T10:00:00.500Z",
        "type": "effect_announced",
        "operation_id": OP,
        "effect_id": EFF,
        "ordinal": 1,
        "request": {"secretly": "long"},
    }
    text = event(document, LOOK)
    assert text.split("\n")[0] == "    41  2026-03-01 10:00:00.500  effect_announced"
    assert OP in text
    assert EFF in text
    assert "ordinal=1" in text
    assert "secretly" not in text


HANDLER: dict[str, Any] = {
    "name": "charge",
    "description": "Charge a card",
    "command": ["/opt/billing/charge.py", "--x"],
    "timeout_ms": 10_000,
    "read_only": False,
    "digest": "ab" * 32,
    "eligible_for_resume": True,
    "sandbox": {"level": "strict", "network": "host", "read": ["/srv"], "memory_max": 256 << 20},
    "effects": [
        {
            "name": "charge-card",
            "contract": "idempotency_key",
            "scope": "announced",
            "key_valid_ms": 86_400_000,
            "reconciler": True,
            "how_to_check": "the dashboard",
        }
    ],
}


def test_handlers_are_listed_with_their_contracts() -> None:
    more = {**HANDLER, "name": "ls", "read_only": True}
    text = handler_list([HANDLER, more], [{"name": "bad"}], LOOK)
    assert "charge-card: idempotency_key" in text
    assert "read only" in text
    assert "effectctl handlers check bad" in text
    assert "No handlers" in handler_list([], [], LOOK)


def test_a_handler_is_shown_whole() -> None:
    text = handler(HANDLER, LOOK)
    for expected in ("network host", "read /srv", "256 MiB", "declared", "1 d"):
        assert expected in text
    assert "nothing of it is safe to repeat" in handler(
        {**HANDLER, "eligible_for_resume": False}, LOOK
    )


def test_checks_print_one_line_each_with_the_remedy() -> None:
    found = [
        Check("ok", "root", "new root built"),
        Check("wrong", "write /srv", "read-only", "chown it"),
        Check("warning", "landlock", "the kernel has none"),
    ]
    text = checks("Title", found, LOOK)
    assert text.split("\n") == [
        "Title",
        "  ✓ root: new root built",
        "  ✗ write /srv: read-only",
        "      fix: chown it",
        "  ! landlock: the kernel has none",
        "3 checks, 1 wrong, 1 warning",
    ]
    assert checks("", found[:1], LOOK).endswith("1 check, all good")


@pytest.mark.parametrize("name", CODES)
def test_every_code_has_a_page_that_suggests_again_only_when_retryable(name: str) -> None:
    code = CODES[name]
    text = page(code, LOOK)
    again = next(line for line in text.split("\n") if line.startswith("again"))
    assert ("yes" in again) is code.retryable
    unwrapped = re.sub(r"\s+", " ", text)
    for expected in (code.title, code.meaning, code.fix, code.for_model, str(code.http_status)):
        assert expected in unwrapped


def test_the_index_lists_every_code_and_every_exit_whole() -> None:
    text = index(CODES.values(), LOOK)
    assert all(name in text for name in CODES)
    unwrapped = re.sub(r"\s+", " ", text)
    assert all(one.meaning in unwrapped for one in Exit)


def test_the_endings_page_knows_each_outcome() -> None:
    text = endings(LOOK)
    for outcome in ("succeeded", "failed", "timed_out", "cancelled", "not_started", "interrupted"):
        assert outcome in text


# --- terminal injection -----------------------------------------------------------------------


def _poisoned(value: Any) -> Any:
    """The document with every text that a handler or client could choose made hostile."""
    if isinstance(value, dict):
        return {key: _poisoned(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_poisoned(one) for one in value]
    if isinstance(value, str) and not value.startswith(("op_", "call_", "eff_", "ses_", "2026-")):
        return value + NASTY
    return value


SCREENS = {
    "status": lambda: status_screen(
        View(
            _poisoned(STATUS),
            [_poisoned(effect())],
            [],
            [_poisoned(operation())],
            [_poisoned(approval())],
        ),
        LOOK,
    ),
    "check": lambda: check_line(
        View(_poisoned({**STATUS, "state": "degraded", "degraded": FULL})), LOOK
    ),
    "effects": lambda: effect_list([_poisoned(effect())], LOOK),
    "effect": lambda: effect_text(_poisoned(effect(result={"a": "b"}, evidence="seen")), LOOK),
    "call": lambda: call_text(
        _poisoned(call(error={"code": "X", "detail": "d", "fix": "f"})),
        LOOK,
        context=Context({0: NASTY}, {0: {"level": NASTY, "read": [NASTY]}}, [NASTY]),
    ),
    "attempt": lambda: attempt_text(
        _poisoned(attempt()), LOOK, tail=NASTY, policy=_poisoned({"level": "s", "missing": ["x"]})
    ),
    "operations": lambda: operation_list([_poisoned(operation())], LOOK),
    "operation": lambda: operation_text(
        _poisoned(operation(labels={NASTY: "v"})), [_poisoned(call())], LOOK
    ),
    "recovery": lambda: recovery_text(_poisoned(recovery()), OP, LOOK),
    "event": lambda: event(_poisoned({"type": "x", "position": 1, "name": "y", "z": ["w"]}), LOOK),
    "handler": lambda: handler(_poisoned(HANDLER), LOOK),
    "handlers": lambda: handler_list([_poisoned(HANDLER)], [_poisoned({"name": "x"})], LOOK),
    "checks": lambda: checks("t", [Check("wrong", NASTY, NASTY, NASTY)], LOOK),
    "ending": lambda: ending(
        operation(),
        _poisoned(failed_call(error={"code": "X", "detail": "d", "fix": "f"})),
        Exit.FAILED,
        LOOK,
        Context({0: NASTY}, {}, [NASTY]),
    ),
    "problem": lambda: problem(
        _poisoned({"code": "X", "title": "t", "detail": "d", "fix": "f", "pointer": "/p"}),
        Exit.REFUSED,
        LOOK,
    ),
}


@pytest.mark.parametrize("screen", SCREENS)
def test_nothing_that_a_handler_says_acts_on_the_terminal(screen: str) -> None:
    text = SCREENS[screen]()
    assert not UNSAFE.search(text.replace("\n", ""))
    assert "\\x1b" in text or "\\u001b" in text


def test_a_check_wraps_to_the_width_under_its_own_beginning() -> None:
    long = "a word and another " * 12
    text = checks("", [Check("wrong", "sandbox", long, long), Check("ok", "daemon", long)], LOOK)
    assert max(map(len, text.splitlines())) <= LOOK.columns
    lines = text.splitlines()
    assert lines[0].startswith("  ✗ sandbox: a word")
    assert lines[1].startswith("    ") and lines[1][4] != " "
    fixes = [at for at, line in enumerate(lines) if line.startswith("      fix: ")]
    assert [lines[at + 1].startswith(" " * 11) for at in fixes] == [True]
