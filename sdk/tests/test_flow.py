"""The pure half: flows without a socket, patience with a clock of the test's, bytes and words."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effectd import _flow, errors
from effectd._document import count, objects, strings, text
from effectd._flow import Events, Pause, Reached
from effectd._outcome import ended_by_itself, is_final, value_of
from effectd._transport import Send
from effectd._wire import AnswerReader, Response, encode_request, make_response, path

# No deadline (the machine may be busy), and nothing left behind in the working directory.
CALM = settings(deadline=None, database=None)


def Patience(total_ms, clock, reached=None):
    return _flow.Patience(total_ms, reached or Reached(), clock)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def drive(flow, replies, clock):
    """Run a flow with these replies (faults are thrown in); its value, requests and pauses."""
    sent, pauses = [], []
    replies = iter(replies)
    step = next(flow)
    try:
        while True:
            if isinstance(step, Pause):
                clock.now += step.seconds
                pauses.append(step.seconds)
                step = flow.send(None)
                continue
            assert isinstance(step, Send)
            sent.append(step)
            reply = next(replies)
            step = flow.throw(reply) if isinstance(reply, Exception) else flow.send(reply)
    except StopIteration as done:
        return done.value, sent, pauses


def answer(status, document, headers=None):
    return Response(status, document, headers or {})


def forever(value):
    while True:
        yield value


DRAINING = answer(503, {"code": "Draining", "retryable": True}, {"retry-after": "3"})
MISSING = errors.Unreachable("no", temporary=True)


def ask(patience, repeatable=True):
    return _flow.ask(_flow.once("POST", "/v1/x", {}, repeatable=repeatable), patience)


def test_retry_after_is_kept_to_but_not_beyond_five_seconds():
    clock = Clock()
    eager = answer(503, DRAINING.document, {"retry-after": "3600"})
    replies = [DRAINING, eager, answer(200, {"a": 1})]
    value, sent, pauses = drive(ask(Patience(60_000, clock)), replies, clock)
    assert (value, pauses, len(sent)) == ({"a": 1}, [3.0, 5.0], 3)


def test_pauses_grow_to_two_seconds_and_differ_between_clients():
    clock = Clock()
    runs = []
    for _ in range(5):
        replies = [*[errors.AnswerLost("lost")] * 9, answer(200, {})]
        runs.append(drive(ask(Patience(60_000, clock)), replies, clock)[2])
    for pauses in runs:
        assert len(pauses) == 9
        for turn, pause in enumerate(pauses):
            limit = min(0.05 * 2**turn, 2.0)
            assert limit / 2 <= pause <= limit
    assert len({tuple(pauses) for pauses in runs}) == 5


@pytest.mark.parametrize("fault", [errors.AnswerLost("lost"), MISSING, DRAINING])
@pytest.mark.parametrize("total_ms", [0, 1_000, 60_000])
def test_patience_is_kept_to_the_second(fault, total_ms):
    clock = Clock()
    with pytest.raises(errors.EffectdError):
        drive(ask(Patience(total_ms, clock)), forever(fault), clock)
    limit = min(total_ms, 2_000) if fault is MISSING else total_ms
    assert clock.now - 100 == pytest.approx(limit / 1000)


def test_a_daemon_that_was_reached_once_is_waited_for_all_the_patience():
    clock, reached = Clock(), Reached()
    drive(ask(Patience(60_000, clock, reached)), [answer(200, {})], clock)
    with pytest.raises(errors.Unreachable):
        drive(ask(Patience(60_000, clock, reached)), forever(MISSING), clock)
    assert clock.now - 100 == pytest.approx(60)


MAYBE = answer(503, {"code": "AcceptanceUnknown", "retryable": True})


@pytest.mark.parametrize(
    ("first", "then", "kind", "code"),
    [
        (errors.AnswerLost("lost"), MISSING, errors.AnswerLost, "AnswerLost"),
        (errors.AnswerLost("lost"), DRAINING, errors.AnswerLost, "AnswerLost"),
        (MAYBE, MISSING, errors.Unavailable, "AcceptanceUnknown"),
        (MAYBE, DRAINING, errors.Unavailable, "AcceptanceUnknown"),
        (MISSING, DRAINING, errors.Unavailable, "Draining"),
        (DRAINING, MISSING, errors.Unreachable, "Unreachable"),
    ],
)
def test_nobody_is_told_that_nothing_was_started_after_an_answer_was_lost(first, then, kind, code):
    def replies():
        yield first
        yield from forever(then)

    clock = Clock()
    with pytest.raises(errors.EffectdError) as caught:
        drive(ask(Patience(10_000, clock)), replies(), clock)
    assert type(caught.value) is kind
    assert caught.value.code == code
    doubtful = code in {"AnswerLost", "AcceptanceUnknown"}
    assert ("unknown whether" in caught.value.for_model) is doubtful


def test_an_answer_ends_the_trouble():
    clock = Clock()
    patience = Patience(1_000, clock)
    for _ in range(5):
        drive(
            ask(patience), [errors.AnswerLost("x"), errors.AnswerLost("x"), answer(200, {})], clock
        )
        clock.now += 10


def test_what_cannot_get_better_is_not_waited_for():
    clock = Clock()
    denied = errors.Unreachable("denied", temporary=False)
    with pytest.raises(errors.Unreachable):
        drive(ask(Patience(60_000, clock)), [denied], clock)
    assert clock.now == 100


def test_only_a_503_or_429_is_temporary_whatever_else_says_retryable():
    clock = Clock()
    for status in (400, 403, 404, 409, 410, 413, 500, 502):
        with pytest.raises(errors.EffectdError):
            drive(ask(Patience(60_000, clock)), [answer(status, {"retryable": True})], clock)


# --- bytes ---------------------------------------------------------------------------------

ANSWERS = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello", True),
    (b"HTTP/1.1 200 OK\r\nconnection: CLOSE\r\nContent-Length: 0\r\n\r\n", 200, b"", False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", False),
    (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True),
    (b"HTTP/1.1 200\r\n\r\nto the end", 200, b"to the end", False),
    (
        (
            b"HTTP/1.1 503 X\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
        ),
        503,
        b"abc0123456789",
        True,
    ),
    (b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x", True),
]


@settings(CALM, max_examples=60)
@given(st.sampled_from(ANSWERS), st.data())
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(case, data):
    raw, status, body, reusable = case
    cuts = sorted(data.draw(st.lists(st.integers(1, len(raw) - 1), max_size=8)))
    reader = AnswerReader()
    start = 0
    for end in [*cuts, len(raw)]:
        if start != end:
            reader.feed(raw[start:end])
        start = end
    if not reader.done:
        reader.feed(b"")
    assert reader.done
    assert reader.head is not None
    assert (reader.head.status, reader.take(), reader.reusable) == (status, body, reusable)


@settings(CALM, max_examples=60)
@given(st.sampled_from([case for case in ANSWERS if b"to the end" not in case[0]]), st.data())
def test_an_answer_that_is_cut_off_anywhere_is_lost_and_never_shorter(case, data):
    raw = case[0]
    reader = AnswerReader()
    reader.feed(raw[: data.draw(st.integers(1, len(raw) - 1))])
    with pytest.raises(errors.AnswerLost):
        reader.feed(b"")


@settings(CALM, max_examples=100)
@given(st.binary(max_size=400), st.sampled_from([b"", ANSWERS[0][0][:17], ANSWERS[5][0][:49]]))
def test_garbage_is_a_bad_or_a_lost_answer_and_nothing_else(tail, head):
    reader = AnswerReader(max_body=100)
    try:
        reader.feed(head + tail)
        if not reader.done:
            reader.feed(b"")
        assert reader.head is not None
        make_response(reader.head, reader.take())
    except (errors.BadAnswer, errors.AnswerLost):
        pass


def test_two_answers_to_one_request_end_the_connection():
    reader = AnswerReader()
    reader.feed(ANSWERS[0][0] * 2)
    assert (reader.done, reader.reusable, reader.take()) == (True, False, b"hello")


@settings(CALM, max_examples=60)
@given(st.text(max_size=30))
def test_whatever_an_id_is_the_path_is_one_line_of_one_segment(segment):
    if any("\ud800" <= ch <= "\udfff" for ch in segment):
        return  # not text that could be sent anywhere
    target = path("operations", segment)
    assert re.fullmatch(r"/v1/operations/[A-Za-z0-9._~%-]*", target)
    assert encode_request("GET", target).count(b"\r\n") == 5


@settings(CALM, max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=8), st.data())
def test_however_often_a_stream_breaks_each_event_is_given_once(frames, data):
    lines, position = [], 0
    for step, facts in frames:
        position += step
        lines += [(position, n) for n in range(facts)]
    events, got = Events(0, follow=True), []
    for _ in range(data.draw(st.integers(0, 5))):
        got += _read(events, lines, data.draw(st.integers(0, 400)))
    got += _read(events, lines, None)
    assert got == lines


def _read(events, lines, stop):
    """One connection, cut off after `stop` bytes."""
    target = events.request().request.split(b" ")[1]
    after = int(re.search(rb"after=(-?\d+)", target).group(1))
    stream = b"".join(
        b'{"position":%d,"n":%d}\n' % (position, n) for position, n in lines if position > after
    )
    return [(one["position"], one["n"]) for one in events.feed(stream[:stop])]


# --- words ---------------------------------------------------------------------------------

_DENIED = re.compile(r"\b(do|does|did|must|may) not\b[^.;:]*|\bnever\b[^.;:]*", re.IGNORECASE)
_AGAIN = re.compile(r"\b(again|retry|retried|repeat|repeated|once more)\b", re.IGNORECASE)


def suggests_another_try(words):
    return _AGAIN.search(_DENIED.sub("", words)) is not None


@pytest.mark.parametrize("name", sorted(errors.CODES))
def test_no_text_suggests_another_try_unless_it_may_help(name):
    code = errors.CODES[name]
    assert code.for_model.endswith(".")
    if suggests_another_try(code.for_model):
        assert code.retryable
        assert "same" in code.for_model  # never under another id


def test_suggestions_are_told_from_their_denial():
    assert suggests_another_try("Please try it again.")
    assert suggests_another_try("Do not worry; retry.")
    assert not suggests_another_try("Do not do it again; tell the person.")


def test_the_codes_are_the_daemons_in_its_own_words():
    daemon = pytest.importorskip("supervisor.core.errors", reason="the daemon is not installed")
    for name, row in daemon.CODES.items():
        code = errors.CODES[name]
        assert (code.retryable, code.for_model) == (row.retryable, row.for_model), name


def test_what_the_daemon_says_goes_before_the_table():
    error = errors.from_document(
        {"code": "LimitExceeded", "title": "t", "retryable": True, "for_model": "busy"}, 429
    )
    assert (error.retryable, error.for_model, error.detail) == (True, "busy", "t")


@pytest.mark.parametrize("document", [{}, {"code": 7, "detail": [], "retryable": "yes"}])
def test_a_refusal_without_a_document_is_still_a_refusal(document):
    assert type(errors.from_document(document, 500)) is errors.Refused
    assert type(errors.from_document(document, 503)) is errors.Unavailable
    assert not errors.from_document(document, 503).retryable


def _every_error():
    made = [errors.from_document({"code": name, "detail": "d"}, 409) for name in errors.CODES]
    ended = errors.PartlyApplied("PartlyApplied", "d", document={"state": "failed"})
    ended.call = {"call_id": "call_1"}
    lost = errors.AnswerLost("lost", retryable=False)
    lost.request_id = "r-1"
    return [*made, ended, lost, errors.BadAnswer("bad"), errors.Unreachable("no", checklist=("a",))]


@pytest.mark.parametrize("error", _every_error(), ids=lambda error: error.code)
def test_every_exception_can_cross_a_process_boundary(error):
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error)
    assert vars(copied) == vars(error)
    assert str(copied) == str(error)


# --- documents of any shape ----------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "state",
                    "attempts",
                    "phase",
                    "outcome",
                    "error",
                    "code",
                    "effects_applied",
                    "result",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=6,
)
OBJECT = st.dictionaries(
    st.sampled_from(["state", "attempts", "error", "effects_unknown", "operation_id", "result"]),
    JSON,
)


@settings(CALM, max_examples=60)
@given(OBJECT, OBJECT)
def test_no_shape_of_a_document_is_more_than_an_ending(operation, call):
    ended_by_itself(call)
    is_final(operation)
    for read in (objects, strings, text, count):
        read(operation, "state")
    try:
        value_of(operation, call)
    except errors.EffectdError as ending:
        assert ending.for_model
