"""Program documents: every fault with its pointer; expressions, and what they may cost."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given

from supervisor.program import Faulty, Meter, Program, parse, reading
from supervisor.program.expression import check, evaluate, members
from supervisor.program.schema import SCHEMAS
from supervisor.program.template import completed, filled, raw_values
from tests.core.examples import examples
from tests.core.generated import JSON

GOOD: dict[str, Any] = {
    "schema_version": "effectd-program-v1",
    "nodes": [
        {"id": "due", "bind": "sort_by(input.invoices, &total)[?total > `0`]"},
        {
            "id": "charge",
            "call_tool": {"handler": "charge", "input": {"amount": {"$": "due[0].total"}}},
        },
        {
            "id": "both",
            "parallel": {
                "on_failure": "collect",
                "branches": {
                    "mail": [
                        {"id": "m", "call_tool": {"handler": "m", "input": {"$": "charge.id"}}}
                    ],
                    "ticket": [
                        {"id": "m", "bind": "charge"},
                        {
                            "id": "t",
                            "call_tool": {"handler": "t", "input": {"$": "m"}, "timeout_ms": 5},
                        },
                    ],
                },
            },
        },
        {
            "id": "ok",
            "approve": {
                "by": ["group:finance", "uid:7"],
                "expires_ms": 86_400_000,
                "prompt": "Ship it?",
                "choices": ["approve", "reject"],
            },
        },
        {"id": "out", "give": {"receipt": {"$": "charge"}, "by": {"$": "ok.choice"}}},
    ],
}
END = {"id": "end", "give": None}


def document(*nodes: Any) -> dict[str, Any]:
    return {"schema_version": "effectd-program-v1", "nodes": list(nodes)}


def test_a_document_is_read_as_what_it_says():
    program = parse(GOOD)
    assert isinstance(program, Program)
    assert {one.path: one.pointer for one in program.calls()} == {
        "charge": "/nodes/1/call_tool",
        "both.mail.m": "/nodes/2/parallel/branches/mail/0/call_tool",
        "both.ticket.t": "/nodes/2/parallel/branches/ticket/1/call_tool",
    }
    jsonschema.validate(GOOD, SCHEMAS["program-v1"])


BRANCH = {"a": [{"id": "x", "bind": "input"}]}
APPROVE = {"by": ["uid:1"], "expires_ms": 5, "prompt": "?"}
# What is wrong, where, a word of what is said, and whether the published schema sees it too.
FAULTS: list[tuple[Any, str, str, bool]] = [
    (7, "", "object", True),
    ({"nodes": [END]}, "/schema_version", "missing", True),
    ({**document(END), "schema_version": "v2"}, "/schema_version", "effectd-program-v1", True),
    ({**document(END), "node": 1}, "/node", "did you mean 'nodes'", True),
    (document(), "/nodes", "1 to 256", True),
    (document({"id": "a", "bind": "input"}), "/nodes/0", "must be a `give` or a `stop`", False),
    (document(END, {"id": "b", "stop": {"reason": 1}}), "/nodes/0", "nothing can follow", False),
    (document({"id": "a", "bidn": "x"}, END), "/nodes/0/bidn", "did you mean 'bind'", True),
    (document({"id": "a", "loop": []}, END), "/nodes/0/loop", "no kind of node", True),
    (document({"id": "a", "agent": {}}, END), "/nodes/0/agent", "no kind of node", True),
    (document({"id": "a", "bind": "input", "give": 1}, END), "/nodes/0", "one thing", True),
    (document({"id": "1a", "bind": "input"}, END), "/nodes/0/id", "letter", True),
    (document({"bind": "input"}, END), "/nodes/0/id", "missing", True),
    (document({"id": "input", "bind": "input"}, END), "/nodes/0/id", "before it", False),
    (document({"id": "a", "bind": "input.["}, END), "/nodes/0/bind", "JMESPath", False),
    (document({"id": "a", "bind": "upper(input)"}, END), "/nodes/0/bind", "no function", False),
    (document({"id": "a", "bind": 3}, END), "/nodes/0/bind", "JMESPath", True),
    (document({"id": "a", "bind": "imput.x"}, END), "/nodes/0/bind", "did you mean 'input'", False),
    (document({"id": "a", "bind": "a"}, END), "/nodes/0/bind", "nothing before it", False),
    (
        document({"id": "a", "call_tool": {"handler": "h", "input": [{"$": "b"}]}}, END),
        "/nodes/0/call_tool/input/0/$",
        "nothing before it",
        False,
    ),
    (
        document({"id": "a", "call_tool": {"handler": "h", "input": {"$": "input", "b": 1}}}, END),
        "/nodes/0/call_tool/input/$",
        "alone",
        False,
    ),
    (
        document({"id": "a", "call_tool": {"handler": "h", "input": 1, "retry": 3}}, END),
        "/nodes/0/call_tool/retry",
        "not known",
        True,
    ),
    (
        document({"id": "a", "call_tool": {"handler": "h", "input": 1, "timeout_ms": 0}}, END),
        "/nodes/0/call_tool/timeout_ms",
        "above 0",
        True,
    ),
    (
        document(
            {"id": "p", "parallel": {"branches": {"a": [{"id": "q", "approve": APPROVE}]}}}, END
        ),
        "/nodes/0/parallel/branches/a/0/approve",
        "inside 'parallel'",
        True,
    ),
    (
        document({"id": "p", "parallel": {"branches": {"a": [{"id": "q", "parallel": {}}]}}}, END),
        "/nodes/0/parallel/branches/a/0/parallel",
        "inside 'parallel'",
        True,
    ),
    (
        document({"id": "p", "parallel": {"branches": BRANCH}}, {"id": "e", "give": {"$": "x"}}),
        "/nodes/1/give/$",
        "nothing before it",
        False,
    ),
    (
        document({"id": "p", "parallel": {"branches": BRANCH, "on_failure": "retry"}}, END),
        "/nodes/0/parallel/on_failure",
        "fail_fast",
        True,
    ),
    (
        document({"id": "p", "parallel": {"branches": {}}}, END),
        "/nodes/0/parallel/branches",
        "1 to",
        True,
    ),
    (
        document({"id": "a", "approve": {**APPROVE, "by": ["finance"]}}, END),
        "/nodes/0/approve/by",
        "group:NAME",
        True,
    ),
    (
        document({"id": "a", "approve": {**APPROVE, "choices": ["yes"]}}, END),
        "/nodes/0/approve/choices",
        "at least 2",
        True,
    ),
]


@pytest.mark.guarantee("P1")
@pytest.mark.parametrize(("value", "pointer", "says", "by_schema"), FAULTS)
def test_every_fault_has_its_pointer(value: Any, pointer: str, says: str, by_schema: bool):
    found = parse(value)
    assert not isinstance(found, Program)
    assert [one for one in found if one.pointer == pointer and says in one.detail], found
    valid = jsonschema.Draft202012Validator(SCHEMAS["program-v1"]).is_valid(value)
    assert valid is not by_schema


@given(JSON)
@examples(100, 5_000)
def test_anything_is_a_program_or_has_faults(value: Any):
    for whole in (value, {**GOOD, "nodes": value}, document(value, END)):
        found = parse(whole)
        assert isinstance(found, Program) or found


def test_a_document_is_read_once_and_no_more_are_kept_than_a_bound(
    monkeypatch: pytest.MonkeyPatch,
):
    reads: list[Any] = []

    def counted(value: Any, inputs: tuple[str, ...]) -> Any:
        reads.append(value)
        return parse(value, inputs)

    monkeypatch.setattr(reading, "parse", counted)
    first = document(END)
    program = reading.program_of(first)
    assert reading.program_of(first) is program
    assert reads == [first]
    for number in range(reading.KNOWN_MAX):
        other = document({"id": "n", "bind": f"`{number}`"}, END)
        node = reading.program_of(other).nodes[0]
        assert isinstance(node, reading.Bind)
        assert node.expression == f"`{number}`"
        assert reading.program_of(first) is program  # what moves is not what goes
    assert len(reading._known) <= reading.KNOWN_MAX
    assert len(reads) == 1 + reading.KNOWN_MAX


# --- expressions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a.b.c", {"a"}),
        ("a[0].b", {"a"}),
        ("a[*].b | c", {"a"}),
        ("a[?b > `0`].c", {"a"}),
        ("sort_by(a, &b)", {"a"}),
        ("{x: a, y: [b.c, d]}", {"a", "b", "d"}),
        ("a || b && !c", {"a", "b", "c"}),
        ("length(a) > length(b)", {"a", "b"}),
        ("@", set()),
        ("`1`", set()),
        ("a.*.b", {"a"}),
        ("a[].b", {"a"}),
    ],
)
def test_an_expression_asks_for_these_names(text: str, names: set[str]):
    assert check(text) == names


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("|".join(["[@,@]"] * 60), "too many"),
        ("|".join(["[@,@]"] * 30) + " | to_string(@)", "too many"),
        ("[a,a] | [@[],@[]] | []" + " | [@[],@[]] | []" * 20, "too many"),
        ("&a", "."),
        ("sum(a)", "sum"),
        ("a" + ".a" * 3_000, "characters"),
        ("[" * 100 + "a" + "]" * 100, "deep"),
        ("avg(b)", "."),
    ],
)
def test_what_an_expression_may_not_do_is_a_fault(text: str, says: str):
    scope = {"a": ["x"] * 10, "b": [1e308, 1e308]}
    with pytest.raises(Faulty, match=says):
        evaluate(text, scope, Meter())


def test_a_template_is_filled_and_everything_else_stays():
    scope = {"a": {"b": [1, 2.5, None]}}
    value = {"x": [{"$": "a.b[1]"}, "$"], "y": {"z": {"$": "a"}}, "n": None}
    assert filled(value, scope, Meter()) == {"x": [2.5, "$"], "y": {"z": scope["a"]}, "n": None}


def test_evaluations_share_what_they_may_cost():
    meter = Meter(most=1_000)
    with pytest.raises(Faulty) as caught:
        for _ in range(1_000):
            evaluate("a", {"a": [1, 2, 3]}, meter)
    assert caught.value.limit


# --- raw inputs ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("inputs.a.b", {"a"}),
        ("[inputs.a, inputs.b[0]]", {"a", "b"}),
        ("inputs.{x: a, y: b[0]}", {"a", "b"}),
        ("inputs | a", set()),
        ("keys(inputs)", set()),
        ("x.inputs.a", set()),
        ("inputs.*.a", set()),
    ],
)
def test_which_members_an_expression_names_outright(text: str, names: set[str]):
    assert members(text, "inputs") == names


@pytest.mark.guarantee("P2")
def test_what_asks_for_raw_inputs_stays_until_it_is_completed_and_nothing_else_is():
    claim = {"$": "inputs.t"}
    value = {"a": {"$": "x"}, "b": [{"$": "inputs.t"}, 1], "c/d": {"$": "inputs.u[0]"}}
    recorded = filled(value, {"x": claim}, Meter(), raw=True)
    assert recorded == {**value, "a": claim}
    values = dict(raw_values(value, {"t": "T", "u": [{"$": "inputs.t"}]}, "", Meter()))
    assert values == {"/b/0": "T", "/c~1d": claim}
    assert completed(recorded, values, "") == {"a": claim, "b": ["T", 1], "c/d": claim}


@pytest.mark.guarantee("P2")
def test_a_node_may_be_called_inputs_where_the_message_has_none():
    nodes = [{"id": "inputs", "bind": "input"}, {"id": "end", "give": {"$": "inputs"}}]
    assert isinstance(parse(document(*nodes)), Program)
    found = parse(document(*nodes), ("t",))
    assert not isinstance(found, Program)
    assert [one.pointer for one in found] == ["/nodes/0/id", "/nodes/1/give/$"]
