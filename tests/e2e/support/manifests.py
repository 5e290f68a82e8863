"""Manifests of the test handlers: one for each contract and scope, and some with several effects.

Handlers `none`, `key`, `check` and `never` announce one effect of the same name; with `-call`
behind it the effect is the whole call's. What they do comes with their input, see handlers/act.py.
"""

from __future__ import annotations

from pathlib import Path

CONTRACTS = {
    "none": "none",
    "key": "idempotency_key",
    "check": "reconciliation",
    "never": "no_safe_retry",
}
# Long enough that no handler which a test holds is ever ended by its deadline.
TIMEOUT_MS = 120_000


def manifests(programs: Path, port: int) -> dict[str, str]:
    """Each handler's manifest, by name."""
    made = {}
    for word in CONTRACTS:
        made[word] = _head(programs, port) + _effect(word, programs)
        made[f"{word}-call"] = _head(programs, port) + _effect(word, programs, 'scope = "call"')
    made["plain"] = _head(programs, port, "read_only = true")
    made["single"] = _head(programs, port, "max_running = 1") + _effect("never", programs)
    made["pair"] = _head(programs, port) + _effect("key", programs) + _effect("other", programs)
    made["mixed"] = _head(programs, port) + "".join(
        _effect(word, programs, "many = true") for word in CONTRACTS
    )
    made["lingering"] = _head(programs, port, "grace_ms = 60_000") + _effect("never", programs)
    made["tree"] = _head(programs, port, "max_running = 64\ngrace_ms = 300") + _effect(
        "never", programs
    )
    grace = "max_running = 64\ngrace_ms = 300"
    made["short-grace"] = _head(programs, port, grace) + _effect("never", programs)
    made["short"] = _head(programs, port, grace, timeout_ms=1_500) + _effect("never", programs)
    return made


def _head(
    programs: Path, port: int, more: str = "max_running = 64\ngrace_ms = 200", timeout_ms: int = 0
) -> str:
    return f"""\
manifest = 1
description = "A handler of the tests"
command = ["{programs}/act"]
timeout_ms = {timeout_ms or TIMEOUT_MS}
env = {{ WORLD_PORT = "{port}" }}
{more}
[sandbox]
network = "host"
"""


def _effect(word: str, programs: Path, more: str = "") -> str:
    contract = CONTRACTS.get(word, "idempotency_key")
    reconcile = ""
    if contract == "reconciliation":
        reconcile = (
            f'reconcile = {{ command = ["{programs}/find"], timeout_ms = 10_000, settle_ms = 0 }}'
        )
    return f"""
[[effect]]
name = "{word}"
contract = "{contract}"
{more}
{reconcile}
"""
