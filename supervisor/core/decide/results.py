"""Decisions about recorded results: which may stand in blobs, and what a lost blob means."""

from __future__ import annotations

from supervisor.core.ids import AttemptKey
from supervisor.core.record import CallResultLost, EffectResultLost, Kind, Record, Result
from supervisor.core.state import Operation, State
from supervisor.core.step import (
    BlobLost,
    Confirmed,
    Decision,
    Exited,
    Input,
    ReconcilerAnswered,
    ResolveAsked,
)


def given(state: State, event: Input) -> Result | None:
    """The result that the event brings and that may stand in a blob; None when it brings none.

    What a program's calls return stays in their records: its bindings are evaluated from the
    state alone.
    """
    match event:
        case Confirmed(call_id=call_id, result=Result() as result):
            operation_id = state.calls.get(call_id)
        case Exited(call_id=call_id, value=Result() as result):
            operation_id = state.calls.get(call_id)
        case ReconcilerAnswered(effect_id=effect_id, result=Result() as result):
            operation_id = state.effects.get(effect_id)
        case ResolveAsked(effect_id=effect_id, result=Result() as result):
            operation_id = state.effects.get(effect_id)
        case _:
            return None
    if operation_id is None or state.operations[operation_id].kind is Kind.PROGRAM:
        return None
    return result


def next_known_result(operation: Operation, key: AttemptKey) -> Result | None:
    """What is recorded at the ordinal that the attempt announces next."""
    call = operation.calls[key.call_id]
    lineage, ordinal = operation.lineage(call), call.attempts[key.attempt].announced
    return lineage[ordinal].result if ordinal < len(lineage) else None


def blob_lost(state: State, event: BlobLost) -> Decision:
    """Every result of the operation that stood in that blob is unavailable from now on."""
    operation = state.operations[event.operation_id]
    records = _lost(operation, event)
    return Decision(
        records, outcome=True, operation_id=operation.operation_id, repeated=not records
    )


def _lost(operation: Operation, event: BlobLost) -> tuple[Record, ...]:
    base = (event.now.wall, operation.operation_id)
    effects = [
        EffectResultLost(*base, effect.effect_id, event.reason)
        for effect in operation.ordered_effects()
        if in_blob(effect.result, event.digest)
    ]
    calls = [
        CallResultLost(*base, call.call_id, event.reason)
        for call in operation.ordered_calls()
        if in_blob(call.result, event.digest)
    ]
    return (*effects, *calls)


def in_blob(result: Result | None, digest: str) -> bool:
    return result is not None and result.blob is not None and result.blob.digest == digest
