"""What a handler promises of an effect, what the journal can prove, what follows.

The verdict table is the policy: every kind of evidence meets every contract exactly
once, and a test walks all cells.
"""

from __future__ import annotations

import enum


class Contract(enum.Enum):
    NONE = "none"
    IDEMPOTENCY_KEY = "idempotency_key"
    RECONCILIATION = "reconciliation"
    NO_SAFE_RETRY = "no_safe_retry"


class Evidence(enum.Enum):
    """What the journal can prove about an effect, over all its tries."""

    APPLIED = "applied, result available"
    APPLIED_NO_RESULT = "applied, result unavailable"
    NOT_APPLIED = "not applied"
    UNKNOWN = "unknown"


class Verdict(enum.Enum):
    RESTORE = "restore"
    FINISH = "finish"
    REPEAT = "repeat"
    RETRY = "retry"
    RECONCILE = "ReconciliationRequired"
    RESULT_LOST = "EffectResultUnavailable"
    OUTCOME_UNKNOWN = "EffectOutcomeUnknown"
    MISMATCH = "EffectCorrelationMismatch"

    @property
    def refuses(self) -> bool:
        return self in _REFUSING


_REFUSING = frozenset(
    {Verdict.RECONCILE, Verdict.RESULT_LOST, Verdict.OUTCOME_UNKNOWN, Verdict.MISMATCH}
)

# From the mildest to the strictest: a call's verdict is the strictest of its lineage's.
STRICTNESS = tuple(Verdict)

_N, _K = Contract.NONE, Contract.IDEMPOTENCY_KEY
_R, _X = Contract.RECONCILIATION, Contract.NO_SAFE_RETRY

VERDICTS: dict[tuple[Evidence, Contract], Verdict] = {
    (Evidence.APPLIED, _N): Verdict.RESTORE,
    (Evidence.APPLIED, _K): Verdict.RESTORE,
    (Evidence.APPLIED, _R): Verdict.RESTORE,
    (Evidence.APPLIED, _X): Verdict.RESTORE,
    (Evidence.APPLIED_NO_RESULT, _N): Verdict.REPEAT,
    (Evidence.APPLIED_NO_RESULT, _K): Verdict.RESULT_LOST,
    (Evidence.APPLIED_NO_RESULT, _R): Verdict.RESULT_LOST,
    (Evidence.APPLIED_NO_RESULT, _X): Verdict.RESULT_LOST,
    (Evidence.NOT_APPLIED, _N): Verdict.REPEAT,
    (Evidence.NOT_APPLIED, _K): Verdict.RETRY,
    (Evidence.NOT_APPLIED, _R): Verdict.RETRY,
    (Evidence.NOT_APPLIED, _X): Verdict.RETRY,
    (Evidence.UNKNOWN, _N): Verdict.REPEAT,
    (Evidence.UNKNOWN, _K): Verdict.RETRY,
    (Evidence.UNKNOWN, _R): Verdict.RECONCILE,
    (Evidence.UNKNOWN, _X): Verdict.OUTCOME_UNKNOWN,
}


def verdict(evidence: Evidence, contract: Contract) -> Verdict:
    return VERDICTS[evidence, contract]


def in_force(contract: Contract, *, key_valid: bool, has_reconciler: bool) -> Contract:
    """The contract that counts now: an expired key protects nothing any more."""
    if contract is not Contract.IDEMPOTENCY_KEY or key_valid:
        return contract
    return Contract.RECONCILIATION if has_reconciler else Contract.NO_SAFE_RETRY


def strictest(verdicts: list[Verdict]) -> Verdict:
    return max(verdicts, key=STRICTNESS.index)
