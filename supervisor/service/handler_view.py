"""Loaded manifests as documents."""

from __future__ import annotations

from typing import Any

from config.load import Handler, Handlers


def handlers_view(handlers: Handlers) -> dict[str, Any]:
    return {
        "items": [handler_view(handlers[name]) for name in sorted(handlers)],
        "next_cursor": None,
        "broken": [
            {"name": name, "problems": [problem.text for problem in error.problems]}
            for name, error in sorted(handlers.broken.items())
        ],
    }


def handler_view(handler: Handler) -> dict[str, Any]:
    manifest = handler.manifest
    sandbox = manifest.sandbox
    return {
        "name": handler.name,
        "description": manifest.description,
        "file": str(handler.file),
        "digest": handler.digest,
        "artifacts": dict(handler.artifacts),
        "command": list(manifest.command),
        "timeout_ms": manifest.timeout_ms,
        "grace_ms": manifest.grace_ms,
        "max_running": manifest.max_running,
        "read_only": manifest.read_only,
        "eligible_for_resume": manifest.eligible_for_resume,
        "input_schema": handler.input_schema,
        "secrets": list(manifest.secret_names),
        "effects": [
            {
                "name": effect.name,
                "contract": effect.contract,
                "scope": effect.scope,
                "many": effect.many,
                "key_valid_ms": effect.key_valid_ms,
                "reconciler": effect.reconcile is not None,
                "not_applied_exits": list(effect.not_applied_exits),
                "how_to_check": effect.how_to_check,
            }
            for effect in manifest.effects
        ],
        "sandbox": {
            "level": sandbox.level,
            "network": sandbox.network,
            "read": list(sandbox.read),
            "write": list(sandbox.write),
            "unix": list(sandbox.unix),
            "accept_missing": list(sandbox.accept_missing),
            "memory_max": sandbox.memory_max,
            "tasks_max": sandbox.tasks_max,
        },
        "warnings": [problem.text for problem in handler.warnings],
    }
