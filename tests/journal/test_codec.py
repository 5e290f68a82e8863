"""The format, frozen byte for byte, and a parser that never gives more than was written."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.journal import codec
from supervisor.journal.codec import GENESIS, Header, Previous, is_filler

HEADER = (
    b"5d5c3a91 000072 0 0 00000000000000000000000000000000 "
    b'{"align":512,"format":1,"k":"segment","number":1,"previous":null,"size":4096}\t.\n'
)

json_texts = st.text(
    st.characters(blacklist_categories=["Cs"], min_codepoint=0x20), max_size=200
).map(lambda text: b"[" + text.encode() + b"]")
positions = st.integers(0, 10**18)


def test_a_header_line_is_frozen():
    line, digest = codec.encode(0, 0, GENESIS, codec.header_payload(Header(1, 4096, 512, None)))
    assert line == HEADER
    assert digest == hashlib.sha256(line[:-1]).hexdigest()


def test_a_decision_line_is_frozen():
    line, _ = codec.encode(12, 11, "ab" * 32, b'[{"n":1}]')
    body = b'12 11 abababababababababababababababab [{"n":1}]'
    assert line[9:] == b"%06x " % len(body) + body + b"\t.\n"
    assert line[:9] == b"ab396fb1 "


def test_a_mark_is_frozen():
    assert codec.mark("idle") == b'{"k":"mark","why":"idle"}'


@given(positions, positions, st.binary(min_size=32, max_size=32), json_texts, st.binary(max_size=9))
def test_what_was_encoded_is_parsed(position, durable, digest, payload, behind):
    line, own = codec.encode(position, durable, digest.hex(), payload)
    parsed = codec.parse(b"\n\n" + line + behind, 2, len(line) + 2 + len(behind))
    assert parsed is not None
    assert (parsed.position, parsed.durable, parsed.payload) == (position, durable, payload)
    assert parsed.previous == digest.hex()[:32]
    assert (parsed.end, parsed.gap, parsed.digest) == (len(line) + 2, None, own)
    assert len(line) <= len(payload) + codec.OVERHEAD
    assert len(line) >= codec.LINE_MIN


@given(json_texts, st.integers(0, 400), st.integers(1, 255))
def test_one_changed_byte_is_seen_or_is_the_line_end(payload, at, change):
    line, digest = codec.encode(7, 6, GENESIS, payload)
    at %= len(line)
    parsed = codec.parse(line[:at] + bytes([line[at] ^ change]) + line[at + 1 :], 0, len(line))
    if at < len(line) - 3:
        assert parsed is None
    else:
        assert parsed is not None
        assert (parsed.gap, parsed.digest) == (at, digest)


@given(st.binary(max_size=200))
def test_the_parser_answers_for_any_bytes(noise):
    line = codec.parse(noise, 0, len(noise))
    assert line is None or line.end <= len(noise) + 3
    assert codec.later_lines(noise, 0) == [] or line is not None


@given(json_texts, st.integers(0, 2))
def test_a_line_without_its_whole_end_is_proven_all_the_same(payload, kept):
    line, digest = codec.encode(3, 2, GENESIS, payload)
    cut = line[: len(line) - 3 + kept].ljust(len(line) + 5, b"\n")
    parsed = codec.parse(cut, 0, len(cut))
    assert parsed is not None
    assert parsed.digest == digest
    assert parsed.gap == (None if kept == 2 else len(line) - 3 + kept)


@pytest.mark.parametrize("damaged", [b"\nx", b"y\n"])
def test_lines_are_found_at_any_offset(damaged):
    first, digest = codec.encode(1, 0, GENESIS, b"[1]")
    second, _ = codec.encode(2, 0, digest, b"[2]")
    buf = b"\n" * 5 + first[:-1] + damaged + second
    assert [line.position for line in codec.later_lines(buf, 0)] == [1, 2]


@given(
    st.integers(1, 10**7),
    st.sampled_from([0, 512, 4096]),
    st.none()
    | st.builds(
        Previous,
        st.just("00000001-000000000001.jnl"),
        st.integers(0, 1 << 30),
        positions,
        st.just("cd" * 32),
        st.integers(0, 1 << 30),
    ),
)
def test_headers_come_back(number, align, previous):
    header = Header(number, 1 << 24, align, previous)
    payload = codec.header_payload(header)
    assert codec.parse_header(payload) == header
    assert codec.own_kind(payload) == "segment"
    assert len(payload) + codec.OVERHEAD <= 512


def test_a_newer_format_or_kind_is_named_as_such():
    payload = codec.header_payload(Header(1, 4096, 512, None))
    with pytest.raises(codec.TooNew, match="format 2"):
        codec.parse_header(payload.replace(b'"format":1', b'"format":2'))
    with pytest.raises(codec.TooNew, match="'seal'"):
        codec.own_kind(b'{"k":"seal"}')


@pytest.mark.parametrize("payload", [b"{}", b"[]", b'{"k":"segment"}', b"x", b'{"k":"mark"}'])
def test_what_is_no_header_is_none(payload):
    assert codec.parse_header(payload) is None


@given(st.integers(0, 10**9), st.sampled_from([0, 512, 4096]))
def test_alignment_goes_up_to_the_next_boundary_only(offset, align):
    at = codec.aligned(offset, align)
    assert offset <= at < offset + max(align, 1)
    assert align == 0 or at % align == 0


@pytest.mark.parametrize("at", [0, 1, 65_535, 65_536, 131_071, 131_072, 200_000])
def test_filler_of_any_size_is_compared_to_its_last_byte(at: int) -> None:
    size = 200_001
    content = (b"\n" * at + b"x").ljust(size, b"\n")
    assert is_filler(content, 0, at)
    assert is_filler(content, at + 1, size)
    assert not is_filler(content, 0, size)
    assert not is_filler(content, at, size)
    assert is_filler(b"\n" * size, 0, size)
