"""A manifest and one call, as the sandbox wants them: what it may have, what it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import orjson

from config.hidden import hidden_places
from config.load import Handler, read_secret
from config.schema import Config
from frozen import frozen
from sandbox import spec as box
from supervisor.core.contract import Contract
from supervisor.core.ids import AttemptKey, OperationId
from supervisor.core.record import DeclaredEffect, Reconciler, Terms
from supervisor.core.state import Effect
from supervisor.dispatch.visible import programs, visible

PROTOCOL = "1"


def terms_of(handler: Handler) -> Terms:
    """What the journal keeps of a manifest for a call that is accepted now."""
    manifest = handler.manifest
    return Terms(
        handler=handler.name,
        digest=handler.digest,
        timeout_ms=manifest.timeout_ms,
        grace_ms=manifest.grace_ms,
        read_only=manifest.read_only,
        effects=tuple(
            DeclaredEffect(
                name=effect.name,
                contract=Contract(effect.contract),
                whole_call=effect.scope == "call",
                many=effect.many,
                key_valid_ms=effect.key_valid_ms or 86_400_000,
                reconciler=Reconciler(
                    effect.reconcile.command,
                    effect.reconcile.timeout_ms,
                    effect.reconcile.settle_ms,
                )
                if effect.reconcile is not None
                else None,
                not_applied_exits=effect.not_applied_exits,
                how_to_check=effect.how_to_check,
            )
            for effect in manifest.effects
        ),
        effects_max=manifest.sandbox.effects_max,
        result_max_bytes=manifest.output.result_max_bytes,
    )


def spec_of(config: Config, handler: Handler, *, writes: bool = True) -> box.Spec:
    """The sandbox that the manifest asks for; a reconciler's has no write paths."""
    asked = handler.manifest.sandbox
    return box.Spec(
        level=asked.level,
        network=asked.network,
        read=asked.read,
        write=asked.write if writes else (),
        unix=asked.unix,
        closure=visible(config, handler).paths,
        hidden=_hidden(config, handler),
        files_max=asked.files_max,
        file_size_max=asked.file_size_max,
        tasks_max=asked.tasks_max,
        cpu_max_ms=asked.cpu_max_ms,
        memory_max=asked.memory_max,
        accept_missing=asked.accept_missing,
        trusted=asked.trusted,
        distant=handler.distant,
    )


# Every sandbox has one of its own, so the host's is never there to be hidden.
_OWN_PROC = Path("/proc")


def _hidden(config: Config, handler: Handler) -> tuple[str, ...]:
    """Nothing of the supervisor's own is visible, wherever it lies; a manifests directory
    that holds this handler's program as well is shown through that program alone.

    By either name: where one of these paths leads through a link, what it leads to is hidden too.
    """
    manifests = os.path.realpath(config.handlers_dir)
    beside = any(os.path.realpath(Path(one).parent) == manifests for one in programs(handler))
    paths = [place.path for place in hidden_places(config) if place.path != _OWN_PROC]
    names = {name for path in paths for name in (str(path), os.path.realpath(path))}
    return tuple(sorted(names - {str(config.handlers_dir), manifests} if beside else names))


@frozen
class Secrets:
    """A handler's secrets as they are now: never written down, known only to be hidden."""

    files: Mapping[str, bytes] = attrs.field(repr=False)
    variables: Mapping[str, str] = attrs.field(repr=False)
    values: tuple[bytes, ...] = attrs.field(repr=False)


# Shorter ones occur everywhere, and hiding them would hide everything.
_HIDEABLE = 4


def secrets_of(config: Config, handler: Handler) -> Secrets:
    """Read now, for this spawn. Raises ConfigError naming where it looked."""
    manifest = handler.manifest
    read = {name: read_secret(config, name) for name in manifest.secret_names}
    files = {name: read[name] for name in manifest.secrets}
    variables = {
        variable: read[name].decode("utf-8", "surrogateescape").rstrip("\n")
        for variable, name in manifest.env_from.items()
    }
    stripped = (value.strip() for value in read.values())
    values = tuple(sorted((v for v in stripped if len(v) >= _HIDEABLE), key=len, reverse=True))
    return Secrets(files, variables, values)


def command_of(
    handler: Handler,
    operation_id: OperationId,
    key: AttemptKey,
    effect_id: str | None,
    secrets: Secrets,
    given: Any,
) -> box.Command:
    """argv, the whole environment and the input of one attempt, which is `given`."""
    manifest = handler.manifest
    env = {
        **box.DEFAULT_ENVIRONMENT,
        **manifest.env,
        **secrets.variables,
        "EFFECTD_FD": "3",
        "EFFECTD_PROTOCOL": PROTOCOL,
        "EFFECTD_OPERATION_ID": operation_id,
        "EFFECTD_CALL_ID": key.call_id,
        "EFFECTD_ATTEMPT": str(key.attempt),
    }
    if effect_id is not None:
        env |= {"EFFECTD_EFFECT_ID": effect_id, "EFFECTD_IDEMPOTENCY_KEY": effect_id}
    return box.Command(manifest.command, env, _document(given), secrets.files)


def reconcile_command(
    handler: Handler, effect: Effect, reconciler: Reconciler, secrets: Secrets
) -> box.Command:
    newest = effect.newest
    asked = {
        "effect_id": effect.effect_id,
        "idempotency_key": effect.effect_id,
        "handler": handler.name,
        "effect": effect.declared.name,
        "request": effect.request,
        "call_id": newest.call_id,
        "attempt": newest.attempt,
        "ordinal": effect.ordinal,
    }
    env = {**box.DEFAULT_ENVIRONMENT, **handler.manifest.env, **secrets.variables}
    return box.Command(reconciler.command, env, _document(asked), secrets.files)


def _document(value: Any) -> bytes:
    return orjson.dumps(value) + b"\n"
