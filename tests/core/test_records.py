"""Records and their bytes: what is written is what is read, and nothing else is read."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.record import KINDS, CallAccepted, Record
from supervisor.journal.records import UnknownRecord, decode, encode, to_document
from tests.core.examples import examples
from tests.core.generated import ANY_RECORD, RECORDS
from tests.core.made import CLIENT, NOON, effect, terms

# The format: kinds are only added, fields only with defaults.
FORMAT = {
    "announcement_refused": "at operation_id call_id attempt name code detail",
    "approval_answered": "at operation_id node choice comment by",
    "approval_expired": "at operation_id node",
    "approval_requested": "at operation_id node by prompt choices expires_at",
    "node_bound": "at operation_id node value",
    "program_accepted": "at operation_id document input terms not_resumable",
    "program_ended": "at operation_id node ended value code detail",
    "artifacts_accepted": "at operation_id handler digest reason by",
    "attempt_ended": "at operation_id call_id attempt outcome active_ms exit usage "
    "leftovers_killed late result code detail proof mono",
    "attempt_interrupted": "at operation_id call_id attempt reason dead mono",
    "attempt_reserved": "at operation_id call_id attempt reservation_ms relaunch digest",
    "attempt_started": "at operation_id call_id attempt identity layers",
    "budget_extended": "at operation_id max_run_ms reason by",
    "call_accepted": "at operation_id call_id terms input timeout_ms by retry_of continuation "
    "request_id request_digest input_digest",
    "call_queued": "at operation_id call_id relaunch",
    "call_refused": "at operation_id call_id code detail",
    "call_restored": "at operation_id call_id",
    "cancel_requested": "at operation_id by reason",
    "confirmation_disputed": "at operation_id call_id attempt ordinal effect_id applied reason",
    "continuation_ended": "at operation_id n reason by mono",
    "continuation_opened": "at operation_id n trigger by after request_id",
    "daemon_started": "at epoch boot_id version alive mono asking",
    "death_proven": "at operation_id call_id attempt proof by reason mono",
    "dispatch_refused_budget_exceeded": "at operation_id call_id active_elapsed_ms "
    "reservation_ms remaining_ms limit_value",
    "effect_announced": "at operation_id call_id attempt ordinal effect_id declared request "
    "request_digest handler_digest mono",
    "effect_answered": "at operation_id call_id attempt ordinal effect_id",
    "effect_confirmed": "at operation_id call_id attempt ordinal effect_id applied settled_by "
    "result reason",
    "effect_resolved": "at operation_id effect_id applied evidence by result",
    "operation_abandoned": "at operation_id days",
    "operation_accepted": "at operation_id kind session_id request_id request_digest by "
    "max_run_ms labels",
    "operation_evicted": "at operation_id",
    "reconciler_death_proven": "at operation_id effect_id proof by reason",
    "reconciler_ended": "at operation_id effect_id applied settles result detail",
    "reconciler_started": "at operation_id effect_id revision by identity mono",
    "repeat_answered": "at operation_id call_id continuation request_id request_digest answer by",
    "resume_accepted": "at operation_id resume_request_id revision digest by",
    "session_created": "at session_id request_id by labels",
    "session_ended": "at session_id",
    "tombstone_expired": "at operation_id",
    "tombstone_renewed": "at operation_id",
}


@pytest.mark.guarantee("R6")
def test_every_field_of_the_format_keeps_its_name_and_later_ones_have_defaults():
    for kind, names in FORMAT.items():
        fields = attrs.fields(KINDS[kind])
        assert [field.name for field in fields][: len(names.split())] == names.split(), kind
        for added in fields[len(names.split()) :]:
            assert added.default is not attrs.NOTHING, f"{kind}.{added.name}"


@pytest.mark.guarantee("J1")
@pytest.mark.parametrize("kind", sorted(RECORDS))
def test_every_kind_reads_back_as_it_was_written(kind):
    @examples(12, 500)
    @given(RECORDS[kind])
    def reads_back(record):
        payload = encode([record])
        assert decode(payload) == (record,)
        assert json.loads(payload)[0]["k"] == kind
        assert payload == encode(decode(payload))

    reads_back()


@given(st.lists(ANY_RECORD, max_size=4))
@examples(30, 2_000)
def test_a_frame_is_one_line_without_a_tab_and_keeps_its_order(records):
    payload = encode(records)
    assert decode(payload) == tuple(records)
    assert payload.startswith(b"[")
    assert payload.endswith(b"]")
    assert b"\n" not in payload
    assert b"\t" not in payload


def accepted(**members):
    call = CallAccepted(NOON, "op_1", "call_1", terms(effect()), {"a": 1}, 1_000, CLIENT)
    return {**to_document(call), **members}


def started(**members):
    return {"k": "daemon_started", "at": 1, "epoch": 1, "boot_id": "", "version": "", **members}


@pytest.mark.guarantee("R6")
@pytest.mark.parametrize(
    "document",
    [
        accepted(k="call_adopted"),
        accepted(k=None),
        accepted(k=["call_accepted"]),
        accepted(extra=1),
        accepted(at="7"),
        accepted(at=True),
        accepted(at=1.0),
        accepted(at=None),
        accepted(timeout_ms=1.5),
        accepted(call_id=7),
        accepted(retry_of=7),
        accepted(by={"uid": "0", "pid": 1}),
        accepted(by={"uid": 0, "pid": 1, "gid": 2}),
        accepted(by=[0, 1]),
        accepted(terms=None),
        accepted(terms={**accepted()["terms"], "effects": "charge"}),
        accepted(terms={**accepted()["terms"], "effects": {"name": "charge"}}),
        accepted(terms={**accepted()["terms"], "read_only": 0}),
        accepted(terms={**accepted()["terms"], "effects": [{"name": "x", "contract": "maybe"}]}),
        {"k": "call_accepted"},
        started(alive=[["c"]]),
        started(alive=[["c", 0, 1]]),
        started(alive=[["c", "0"]]),
        started(alive="c"),
        [],
        "call_accepted",
        None,
        7,
    ],
    ids=lambda d: json.dumps(d)[:60],
)
def test_what_was_never_written_is_refused(document):
    with pytest.raises(UnknownRecord):
        decode(json.dumps([document]).encode())


@pytest.mark.guarantee("R6")
@pytest.mark.parametrize(
    "payload", [b"", b"{}", b"[", b'"[]"', b"null", b"\xff", b"[[]]", b"[null]", b"[NaN]"]
)
def test_what_is_no_payload_is_refused(payload):
    with pytest.raises(UnknownRecord):
        decode(payload)


@given(ANY_RECORD, st.data())
@examples(60, 5_000)
def test_a_record_of_which_a_byte_was_changed_reads_as_another_one_or_not_at_all(record, data):
    payload = bytearray(encode([record]))
    at = data.draw(st.integers(0, len(payload) - 1))
    payload[at] ^= data.draw(st.integers(1, 255))
    try:
        found = decode(bytes(payload))
    except UnknownRecord:
        return
    assert all(isinstance(one, Record) for one in found)
    assert decode(encode(found)) == found


def test_a_value_that_json_cannot_carry_is_a_fault_of_the_writer():
    for value in (2**64, {1: 2}, object(), "\ud800"):
        call = CallAccepted(NOON, "op_1", "call_1", terms(), value, 1, CLIENT)
        with pytest.raises(TypeError):
            encode([call])
