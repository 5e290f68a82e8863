"""The reconciliation policy, cell by cell, as the product states it."""

from __future__ import annotations

import itertools

import pytest

from supervisor.core.contract import (
    STRICTNESS,
    Contract,
    Evidence,
    Verdict,
    in_force,
    strictest,
    verdict,
)
from tests.core.made import ASK, KEY, NEVER, NONE

CELLS = {
    (Evidence.APPLIED, NONE): "restore",
    (Evidence.APPLIED, KEY): "restore",
    (Evidence.APPLIED, ASK): "restore",
    (Evidence.APPLIED, NEVER): "restore",
    (Evidence.APPLIED_NO_RESULT, NONE): "repeat",
    (Evidence.APPLIED_NO_RESULT, KEY): "EffectResultUnavailable",
    (Evidence.APPLIED_NO_RESULT, ASK): "EffectResultUnavailable",
    (Evidence.APPLIED_NO_RESULT, NEVER): "EffectResultUnavailable",
    (Evidence.NOT_APPLIED, NONE): "repeat",
    (Evidence.NOT_APPLIED, KEY): "retry",
    (Evidence.NOT_APPLIED, ASK): "retry",
    (Evidence.NOT_APPLIED, NEVER): "retry",
    (Evidence.UNKNOWN, NONE): "repeat",
    (Evidence.UNKNOWN, KEY): "retry",
    (Evidence.UNKNOWN, ASK): "ReconciliationRequired",
    (Evidence.UNKNOWN, NEVER): "EffectOutcomeUnknown",
}


@pytest.mark.guarantee("E4")
@pytest.mark.parametrize(("cell", "expected"), CELLS.items(), ids=lambda v: str(v))
def test_each_evidence_meets_each_contract_with_the_verdict_of_the_table(cell, expected):
    assert verdict(*cell).value == expected


def test_the_table_has_every_cell_and_no_other():
    assert set(CELLS) == set(itertools.product(Evidence, Contract))


@pytest.mark.guarantee("E12")
@pytest.mark.parametrize(
    ("contract", "key_valid", "has_reconciler", "counts_as"),
    [
        (KEY, True, True, KEY),
        (KEY, True, False, KEY),
        (KEY, False, True, ASK),
        (KEY, False, False, NEVER),
        (NONE, False, False, NONE),
        (NONE, False, True, NONE),
        (ASK, False, True, ASK),
        (ASK, False, False, ASK),
        (NEVER, False, False, NEVER),
        (NEVER, True, True, NEVER),
    ],
)
def test_an_expired_key_counts_as_what_is_left_of_it(
    contract, key_valid, has_reconciler, counts_as
):
    found = in_force(contract, key_valid=key_valid, has_reconciler=has_reconciler)
    assert found is counts_as


def test_strictness_is_the_products_order():
    assert [v.value for v in reversed(STRICTNESS)] == [
        "EffectCorrelationMismatch",
        "EffectOutcomeUnknown",
        "EffectResultUnavailable",
        "ReconciliationRequired",
        "retry",
        "repeat",
        "finish",
        "restore",
    ]


@pytest.mark.guarantee("E4")
@pytest.mark.parametrize(("mild", "strict"), list(itertools.combinations(STRICTNESS, 2)))
def test_the_stricter_of_two_verdicts_wins_in_any_order(mild, strict):
    assert strictest([mild, strict]) is strict
    assert strictest([strict, mild, mild]) is strict


def test_exactly_the_four_codes_refuse():
    refusing = {one.value for one in Verdict if one.refuses}
    assert refusing == {
        "EffectCorrelationMismatch",
        "EffectOutcomeUnknown",
        "EffectResultUnavailable",
        "ReconciliationRequired",
    }
