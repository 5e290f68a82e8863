"""The published JSON Schema of program documents: their shape. What names what, and what an
expression may say, is beyond a schema; `reading` is the judge of that."""

from __future__ import annotations

from typing import Any

from supervisor.program.document import SCHEMA
from supervisor.program.reading import (
    BRANCHES_MAX,
    BY,
    EXPIRES_MAX_MS,
    NODE_ID,
    NODES_MAX,
    TIMEOUT_MAX_MS,
)

_ID = {"type": "string", "pattern": f"^{NODE_ID.pattern}$"}


def _node(word: str, value: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"id": _ID, word: value},
        "required": ["id", word],
        "additionalProperties": False,
    }


def _object(properties: dict[str, Any], *needs: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(needs),
        "additionalProperties": False,
    }


def _ms(most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def _sequence(*words: str) -> dict[str, Any]:
    return {
        "type": "array",
        "minItems": 1,
        "maxItems": NODES_MAX,
        "items": {"oneOf": [_ref(word) for word in words]},
    }


_DEFS: dict[str, Any] = {
    "bind": _node("bind", {"type": "string", "description": "JMESPath"}),
    "call_tool": _node(
        "call_tool",
        _object(
            {
                "handler": {"type": "string", "minLength": 1, "maxLength": 64},
                "input": {"description": 'JSON; {"$": JMESPATH} stands for a value'},
                "timeout_ms": _ms(TIMEOUT_MAX_MS),
            },
            "handler",
            "input",
        ),
    ),
    "approve": _node(
        "approve",
        _object(
            {
                "by": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 64,
                    "items": {"type": "string", "pattern": f"^({BY.pattern})$"},
                },
                "expires_ms": _ms(EXPIRES_MAX_MS),
                "prompt": {"type": "string", "minLength": 1, "maxLength": 4_096},
                "choices": {
                    "type": "array",
                    "minItems": 2,
                    "maxItems": 64,
                    "uniqueItems": True,
                    "items": _ID,
                    "default": ["approve", "reject"],
                },
            },
            *("by", "expires_ms", "prompt"),
        ),
    ),
    "parallel": _node(
        "parallel",
        _object(
            {
                "on_failure": {"enum": ["fail_fast", "collect"], "default": "fail_fast"},
                "branches": {
                    "type": "object",
                    "minProperties": 1,
                    "maxProperties": BRANCHES_MAX,
                    "propertyNames": _ID,
                    "additionalProperties": _sequence("bind", "call_tool"),
                },
            },
            "branches",
        ),
    ),
    "give": _node("give", {"description": "a template: what the operation results in"}),
    "stop": _node("stop", _object({"reason": {}}, "reason")),
}

SCHEMAS: dict[str, Any] = {
    "program-v1": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:effectd:schema:{SCHEMA}",
        "title": "A program of effectd",
        **_object(
            {"schema_version": {"const": SCHEMA}, "nodes": _sequence(*_DEFS)},
            *("schema_version", "nodes"),
        ),
        "$defs": _DEFS,
    }
}
