"""A handler's manifest as a value: what it runs, which effects it makes, what it may touch.

Key names here are the key names of `handlers.d/NAME.toml`. A loaded manifest has absolute
paths and the defaults of its contracts filled in. Nothing here touches the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

import attrs

from config.values import (
    Contract,
    EffectName,
    FilePath,
    Grantee,
    Integer,
    Json,
    Level,
    Milliseconds,
    Network,
    Scope,
    SecretName,
    Size,
    Timeout,
    Word,
)
from frozen import frozen

HANDLER_NAME: Final = r"[a-z0-9][a-z0-9-]{0,63}"
DEFAULT_KEY_VALID_MS: Final = 86_400_000
MAX_EFFECTS: Final = 10_000

Exit = Annotated[int, Integer(1, 255)]


@frozen
class ReconcileDecl:
    """The command that asks the provider whether an effect was applied. *not applied*
    counts only from a reconciler that started `settle_ms` after the last try was over."""

    command: tuple[str, ...]
    timeout_ms: Timeout = 5_000
    settle_ms: Milliseconds = 5_000


@frozen
class EffectDecl:
    """One declared effect. `key_valid_ms` is set exactly for `idempotency_key`, once the
    manifest is loaded."""

    name: EffectName
    contract: Contract
    scope: Scope = "announced"
    many: bool = False
    key_valid_ms: Timeout | None = None
    reconcile: ReconcileDecl | None = None
    not_applied_exits: tuple[Exit, ...] = ()
    how_to_check: str = ""


@frozen
class SandboxDecl:
    """What a handler may touch and use; `memory_max` and `file_size_max` in bytes.
    `level` and `accept_missing` come from the configuration where the manifest is silent."""

    level: Level = "strict"
    network: Network = "none"
    read: tuple[FilePath, ...] = ()
    write: tuple[FilePath, ...] = ()
    unix: tuple[FilePath, ...] = ()
    accept_missing: tuple[Word, ...] = ()
    memory_max: Annotated[int, Size(2**20, 2**50)] = 256 * 2**20
    tasks_max: Annotated[int, Integer(1, 1_000_000)] = 64
    files_max: Annotated[int, Integer(16, 1_000_000)] = 256
    file_size_max: Annotated[int, Size(0, 2**50)] = 2**30
    cpu_max_ms: Timeout = 600_000
    trusted: bool = False
    effects_max: Annotated[int, Integer(1, MAX_EFFECTS)] = 100


@frozen
class OutputDecl:
    """How large a result may be, and how much it may write to stdout, stderr and fd 3 together
    before it is ended."""

    result_max_bytes: Annotated[int, Size(0, 64 * 2**20)] = 1_048_576
    output_max_bytes: Annotated[int, Size(65_536, 2**40)] = 64 * 2**20


@frozen
class TestDecl:
    """What the torture command runs: `count` is a command that counts effects outside."""

    __test__: ClassVar[bool] = False  # its name makes pytest take it for a test class

    input: Json = attrs.field(factory=dict[str, Any])
    env: Mapping[str, str] = attrs.field(factory=dict[str, str])
    count: tuple[str, ...] = ()


@frozen
class AccessDecl:
    """`run` narrows who may run this handler; empty, everybody who holds the role may."""

    run: tuple[Grantee, ...] = ()


@frozen
class Manifest:
    """One handler. `name` is the file's stem; `manifest` the version of this format."""

    manifest: Literal[1]
    command: tuple[str, ...]
    timeout_ms: Timeout
    name: str = ""
    description: str = ""
    grace_ms: Milliseconds = 2_000
    read_only: bool = False
    max_running: Annotated[int, Integer(1, 10_000)] = 4
    input_schema: FilePath | None = None
    result_schema: FilePath | None = None
    artifacts: tuple[FilePath, ...] = ()
    secrets: tuple[SecretName, ...] = ()
    env_from: Mapping[str, SecretName] = attrs.field(factory=dict[str, str])
    env: Mapping[str, str] = attrs.field(factory=dict[str, str])
    effect: tuple[EffectDecl, ...] = ()
    sandbox: SandboxDecl = attrs.field(factory=SandboxDecl)
    output: OutputDecl = attrs.field(factory=OutputDecl)
    test: TestDecl = attrs.field(factory=TestDecl)
    access: AccessDecl = attrs.field(factory=AccessDecl)

    @property
    def effects(self) -> tuple[EffectDecl, ...]:
        """The effects that count: a handler that declares none is one whole-call effect."""
        if self.effect:
            return self.effect
        contract: Contract = "none" if self.read_only else "no_safe_retry"
        return (EffectDecl(name="call", contract=contract, scope="call"),)

    @property
    def eligible_for_resume(self) -> bool:
        """Whether a resumable program may call it: its contracts are declared."""
        return bool(self.effect) or self.read_only

    @property
    def whole_call(self) -> bool:
        """Whether its one effect is the whole call, announced for it before it starts."""
        return self.effects[0].scope == "call"

    @property
    def secret_names(self) -> tuple[str, ...]:
        """Every secret it gets, as a file or as a variable, once each, in a fixed order."""
        return tuple(sorted({*self.secrets, *self.env_from.values()}))

    def effect_named(self, name: str) -> EffectDecl | None:
        return next((effect for effect in self.effects if effect.name == name), None)


def completed(manifest: Manifest) -> Manifest:
    """The manifest with the defaults that depend on its contracts filled in."""
    return attrs.evolve(manifest, effect=tuple(_with_validity(each) for each in manifest.effect))


def _with_validity(effect: EffectDecl) -> EffectDecl:
    if effect.contract != "idempotency_key" or effect.key_valid_ms is not None:
        return effect
    return attrs.evolve(effect, key_valid_ms=DEFAULT_KEY_VALID_MS)
