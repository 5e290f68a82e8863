"""What a manifest must not say, beyond the kind of each value.

`manifest_faults` refuses; `manifest_doubts` warns. Both are pure and look at one manifest
alone; what needs the disk or the other manifests is `config.load`'s.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from config.manifest import EffectDecl, Manifest
from config.problems import Fault

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# LD_* would run other code than what was digested; the others are the daemon's words.
RESERVED_PREFIXES = ("LD_", "EFFECTD_")
RESERVED_NAMES = frozenset({"CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "GCONV_PATH"})


def manifest_faults(manifest: Manifest) -> Iterator[Fault]:
    """Every reason to refuse this manifest."""
    yield from _command_faults("command", manifest.command)
    yield from _effect_faults(manifest)
    for key, names in (
        ("env", manifest.env),
        ("env_from", manifest.env_from),
        ("test.env", manifest.test.env),
    ):
        yield from _env_faults(key, tuple(names))
    for name in sorted(set(manifest.env) & set(manifest.env_from)):
        yield Fault(f"env_from.{name}", "env sets the same variable", "remove one of the two")
    if manifest.sandbox.level == "none" and not manifest.sandbox.trusted:
        yield Fault(
            "sandbox.level",
            'level "none" runs the handler without a sandbox, which only a trusted one may',
            'set level = "strict", or trusted = true if you mean it',
        )
    output = manifest.output
    if output.output_max_bytes < output.result_max_bytes:
        yield Fault(
            "output.output_max_bytes",
            f"{output.output_max_bytes} bytes of output cannot hold a result of result_max_bytes"
            f" ({output.result_max_bytes})",
            "raise it, or lower result_max_bytes",
        )
    if manifest.test.count:
        yield from _command_faults("test.count", manifest.test.count)


def manifest_doubts(manifest: Manifest) -> Iterator[Fault]:
    """What is allowed and probably not meant."""
    for index, effect in enumerate(manifest.effect):
        if effect.contract == "reconciliation" and effect.reconcile is None:
            yield Fault(
                f"effect[{index}]",
                "without a reconciler an unknown outcome waits for a person"
                " (ReconciliationRequired)",
                "declare reconcile = { command = [...] }, or expect to resolve it by hand",
            )
        if effect.contract == "none" and effect.reconcile is not None:
            yield Fault(
                f"effect[{index}].reconcile",
                'contract "none" repeats an unknown effect and asks no reconciler',
                "remove it, or choose another contract",
            )
        valid_ms = effect.key_valid_ms
        if valid_ms is not None and valid_ms <= manifest.timeout_ms + manifest.grace_ms:
            yield Fault(
                f"effect[{index}].key_valid_ms",
                f"a retry must end while the key is valid, and {valid_ms} ms leave no room for"
                f" timeout_ms + grace_ms ({manifest.timeout_ms + manifest.grace_ms} ms)",
                "raise it to what the provider promises, or lower timeout_ms",
            )


def _command_faults(key: str, command: tuple[str, ...]) -> Iterator[Fault]:
    if not command or not command[0]:
        yield Fault(key, "it names no program", 'write ["/path/to/program", "argument", ...]')


def _env_faults(key: str, names: tuple[str, ...]) -> Iterator[Fault]:
    for name in names:
        if not ENV_NAME.fullmatch(name):
            yield Fault(
                f"{key}.{name}",
                f"{name!r} cannot name an environment variable",
                "use letters, digits and _, no digit first",
            )
        elif name.startswith(RESERVED_PREFIXES) or name in RESERVED_NAMES:
            yield Fault(
                f"{key}.{name}",
                "handlers cannot be given this variable: it changes what is loaded, or is"
                " effectd's own",
                "remove it",
            )


def _effect_faults(manifest: Manifest) -> Iterator[Fault]:
    counts = Counter(effect.name for effect in manifest.effect)
    seen: set[str] = set()
    for index, effect in enumerate(manifest.effect):
        at = f"effect[{index}]"
        if counts[effect.name] > 1 and effect.name in seen:
            yield Fault(f"{at}.name", f"another effect is named {effect.name!r}", "rename one")
        seen.add(effect.name)
        if effect.scope == "call" and len(manifest.effect) > 1:
            yield Fault(
                f"{at}.scope",
                'an effect with scope = "call" is the whole call and must be the only one',
                'announce the effects one by one (scope = "announced"), or declare only this one',
            )
        if manifest.read_only and effect.contract != "none":
            yield Fault(
                f"{at}.contract",
                f'a read_only handler changes nothing, and "{effect.contract}" says it does',
                'remove read_only, or declare contract = "none"',
            )
        yield from _one_effect_faults(at, effect)


def _one_effect_faults(at: str, effect: EffectDecl) -> Iterator[Fault]:
    if effect.many and effect.scope == "call":
        yield Fault(
            f"{at}.many",
            "a whole-call effect is made once",
            'remove many, or use scope = "announced"',
        )
    if effect.contract == "no_safe_retry" and effect.reconcile is not None:
        yield Fault(
            f"{at}.reconcile",
            'contract "no_safe_retry" says that nobody can be asked',
            'use contract = "reconciliation", or remove reconcile',
        )
    if effect.reconcile is not None:
        yield from _command_faults(f"{at}.reconcile.command", effect.reconcile.command)
    if effect.key_valid_ms is not None and effect.contract != "idempotency_key":
        yield Fault(
            f"{at}.key_valid_ms",
            f'contract "{effect.contract}" has no key',
            'remove it, or use contract = "idempotency_key"',
        )
    if effect.not_applied_exits and effect.scope != "call":
        yield Fault(
            f"{at}.not_applied_exits",
            "an announced effect is settled by what the handler confirms, not by its exit",
            'remove it, or use scope = "call"',
        )
