"""JSON Schemas of inputs and results: what is refused when loaded, and no network ever."""

from __future__ import annotations

import json
import socket

import pytest

from config.problems import WrongValueError
from config.schemas import InputFault, input_fault, parse_schema, validator

BAD: dict[str, tuple[str, str]] = {
    "no JSON": ("{", "it is not JSON (Expecting property name"),
    "no object": ("true", "it is not a JSON object"),
    "a key twice": (
        '{"type": "object", "type": "array"}',
        "it is not JSON (the key 'type' stands twice in one object)",
    ),
    "NaN": ('{"maximum": NaN}', "it is not JSON (NaN is not JSON)"),
    "deep": ("[" * 100_000, "it is nested too deeply"),
    "deep schema": (
        '{"not":' * 70 + "{}" + "}" * 70,
        "it is nested more than 64 deep",
    ),
    "another dialect": (
        '{"$schema": "http://json-schema.org/draft-07/schema#"}',
        "$schema is 'http://json-schema.org/draft-07/schema#'",
    ),
    "a wrong type": (
        '{"properties": {"a": {"type": "strin"}}}',
        (
            "it is no JSON Schema 2020-12: 'strin' is not valid under any of the given schemas"
            " (at /properties/a/type)"
        ),
    ),
    "a bad pattern": (
        '{"items": {"pattern": "("}}',
        "it is no JSON Schema 2020-12: '(' is not a 'regex' (at /items/pattern)",
    ),
    "a bad pattern of properties": (
        '{"patternProperties": {"[": {}}}',
        "it is no JSON Schema 2020-12: '[' is not a 'regex' (at /patternProperties)",
    ),
    "a remote reference": (
        '{"items": {"$ref": "http://127.0.0.1:1/x.json"}}',
        (
            "the reference 'http://127.0.0.1:1/x.json' leads to nothing in this file, and effectd"
            " fetches no schema"
        ),
    ),
    "a reference to a file": (
        '{"$ref": "file:///etc/passwd"}',
        "the reference 'file:///etc/passwd' leads to nothing in this file",
    ),
    "a dangling reference": (
        '{"$ref": "#/$defs/a"}',
        "the reference '#/$defs/a' leads to nothing in this file",
    ),
    "a reference relative to a remote id": (
        '{"$id": "https://example.org/a", "items": {"$ref": "b"}}',
        "the reference 'b' leads to nothing in this file",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_schema_is_refused_saying_why_and_without_the_network(monkeypatch, case):
    def offline(*_: object) -> object:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", offline)
    text, said = BAD[case]
    with pytest.raises(WrongValueError) as caught:
        parse_schema(text)
    assert caught.value.message.startswith(said)
    assert caught.value.fix


GOOD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://example.org/charge",
    "type": "object",
    "properties": {
        "amount": {"$ref": "#/$defs/amount"},
        "$ref": {"const": "a property of this name is no reference"},
        "tree": {"$ref": "tree"},
        "any": {"enum": [{"$ref": "http://example.org/data-is-no-reference"}]},
    },
    "required": ["amount"],
    "$defs": {
        "amount": {"type": "integer", "minimum": 1},
        "tree": {"$id": "tree", "type": "array", "items": {"$ref": "#"}},
    },
}


@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ({"amount": 1}, True),
        ({"amount": 0}, False),
        ({}, False),
        ({"amount": 1, "tree": [[], [[]]]}, True),
        ({"amount": 1, "tree": [[1]]}, False),
        ([], False),
    ],
)
def test_references_within_the_file_work(value, valid):
    assert validator(parse_schema(json.dumps(GOOD))).is_valid(value) is valid


NESTED = {
    "type": "object",
    "required": ["who"],
    "properties": {
        "who": {"type": "string"},
        "a/b~c": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "rows": {"type": "array", "items": {"type": "integer"}},
    },
}


@pytest.mark.parametrize(
    ("value", "pointer", "message"),
    [
        ({"who": "me"}, None, ""),
        ([], "", "[] is not of type 'object'"),
        ({}, "", "'who' is a required property"),
        ({"who": 1}, "/who", "1 is not of type 'string'"),
        ({"who": "me", "rows": [1, 2, "x"]}, "/rows/2", "'x' is not of type 'integer'"),
        # escaped as JSON pointers are
        ({"who": "me", "a/b~c": {"n": "x"}}, "/a~1b~0c/n", "'x' is not of type 'integer'"),
        # the outermost, and of equals the first by name
        ({"rows": ["x"], "who": 1}, "/who", "1 is not of type 'string'"),
        ({"rows": 1, "who": 1}, "/rows", "1 is not of type 'array'"),
    ],
)
def test_one_fault_is_told_of_an_input_and_always_the_same(value, pointer, message):
    found = input_fault(NESTED, value)
    assert found == (None if pointer is None else InputFault(pointer, message))


def test_a_faults_message_is_bounded_whatever_the_input():
    found = input_fault({"type": "integer"}, "x" * 100_000)
    assert found is not None
    assert len(found.message) == 500


def test_a_schema_with_numbers_beyond_64_bits_is_a_schema():
    found = input_fault({"type": "integer", "maximum": 2**70}, 2**71)
    assert found is not None
    assert found.pointer == ""


def test_a_manifest_with_a_bad_schema_names_the_key_and_the_file(host):
    (host.manifests / "in.json").write_text('{"type": "objekt"}')
    host.manifest("charge", 'input_schema = "in.json"\nresult_schema = "none.json"')
    said = host.complaints("charge")
    assert len(said) == 2
    assert said[0].startswith(
        "input_schema: ROOT/handlers.d/in.json: it is no JSON Schema 2020-12: 'objekt' is not"
    )
    assert said[1] == (
        "result_schema: ROOT/handlers.d/none.json does not exist; create it or correct the path"
    )
