"""Blocks: little room, the same in any process, and what a line of one cannot say."""

from __future__ import annotations

import gc
import tracemalloc
import zlib
from hashlib import sha256
from random import Random
from uuid import UUID

import attrs
import orjson
import pytest

from supervisor.core import block as block_module
from supervisor.core.block import Block, block_in, block_line, stacked
from supervisor.core.columns import text_of_bytes
from supervisor.core.contents import Contents, away
from supervisor.core.ids import OperationId, SessionId
from supervisor.core.session_state import Tombstone
from supervisor.core.tombstones import Tombstones
from supervisor.scratch import Scratch
from tests.core.buried import older_line, small_blocks, tombstone

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def full_block() -> Block:
    """Of twelve tombstones, where blocks are small."""
    blocks: tuple[Block, ...] = ()
    for first in (0, 4, 8):
        blocks = stacked(blocks, [tombstone(n, n) for n in range(first, first + 4)])
    (block,) = blocks
    return block


@pytest.fixture
def block(monkeypatch) -> Block:
    small_blocks(monkeypatch, 4, 3)
    return full_block()


def test_it_reads_back_and_says_the_same_in_each_row(block):
    line = orjson.dumps(block_line(block))
    again = block_in(orjson.loads(line))
    assert again == block
    assert orjson.dumps(block_line(again)) == line
    assert [again[row] for row in range(len(again))] == [tombstone(n, n) for n in range(12)]


def test_an_older_line_is_the_same_block(block):
    assert block_line(block_in(older_line([tombstone(n, n) for n in range(12)]))) == block_line(
        block
    )


def test_how_it_was_compressed_is_no_part_of_the_value(block):
    otherwise = tuple(Contents(zlib.compress(zlib.decompress(text[:]), 9)) for text in block.texts)
    other = attrs.evolve(block, texts=otherwise)
    assert other.texts[0][:] != block.texts[0][:]
    assert other == block
    assert attrs.evolve(block, texts=(*block.texts[:2], block.texts[0])) != block
    assert block != 7


def test_a_line_is_read_without_its_texts(block):
    """A start looks at none: they may be anything."""
    line = {**block_line(block), "texts": [text_of_bytes(b"no text")] * 3}
    assert len(block_in(line)) == 12


@pytest.mark.guarantee("R6", "J9")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda v: v.clear(), "no block"),
        (lambda v: v.pop("texts"), "no block"),
        (lambda v: v.update(colour=["red"]), "no block"),
        (lambda v: v.update(texts="text"), "no column of tombstones: texts"),
        (lambda v: v.update(texts=[]), "no column of tombstones: texts"),
        (lambda v: v["texts"].__setitem__(1, 7), "no column of tombstones: texts"),
        (lambda v: v["texts"].__setitem__(1, "*"), "base64"),
        (lambda v: v["texts"].pop(), "not there"),
        (lambda v: v["texts"].append(""), "has not 16"),
        (lambda v: v["hints"].pop(), "no column of tombstones: hints"),
        (lambda v: v["hints"].append("AAAA"), "hints"),
        (lambda v: v["messages"].pop(), "no prints"),
        (lambda v: v["messages"].__setitem__(1, v["messages"][1][:16]), "not there"),
        (lambda v: v.update(messages=[v["messages"][0][:32], v["messages"][1][:8]]), "has not 12"),
        (lambda v: v["operations"].__setitem__(1, "AAA" + v["operations"][1][3:]), "twice"),
    ],
    ids=range(15),
)
def test_what_is_no_block_is_refused_and_says_why(change, says, block):
    line = block_line(block)
    change(line)
    with pytest.raises(ValueError, match=r"(?i)" + says):
        block_in(line)


@pytest.mark.parametrize("line", [None, [], "text"])
def test_what_is_no_line_of_a_block_is_refused(line):
    with pytest.raises(ValueError, match="no block"):
        block_in(line)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda v: v["messages"].pop(), "has not 12"),
        (lambda v: [column.pop() for column in v.values()], "has not 12"),
        (lambda v: v["messages"].__setitem__(1, v["messages"][0]), "twice"),
        (lambda v: v["operations"].__setitem__(1, v["operations"][0]), "twice"),
        (lambda v: v["rest"].__setitem__(1, "digest 1"), "no tombstone"),
        (lambda v: v["rest"].__setitem__(1, "digest 1 one"), "no tombstone"),
    ],
    ids=range(6),
)
def test_what_is_no_block_of_an_older_line_is_refused(change, says, block):
    line = older_line([tombstone(n, n) for n in range(len(block))])
    change(line)
    with pytest.raises(ValueError, match=says):
        block_in(line)


def as_they_are(n: int, random: Random) -> Tombstone:
    """With ids of those lengths, and as random, as real ones have."""
    own = n % 2
    session = SessionId(f"uid:{1_000 + n % 3}" if own else f"ses_{n // 50:020}")
    request = str(UUID(int=random.getrandbits(128))) if own else f"turn-{n // 9}:call-{n % 9}"
    digest = sha256(b"%d" % n).hexdigest()
    one = OperationId("op_" + "".join(random.choices(DIGITS, k=20)))
    return Tombstone(
        one, session, request, digest, 1_000 + n % 3, n * 10**12 + random.getrandbits(36)
    )


def test_a_tombstone_in_a_block_takes_little_room_and_hardly_any_in_memory(tmp_path):
    """Measured: 106 bytes, 22 of them what finds it. Of the others 50 are random in themselves,
    in digests and ids. All but 3 of them need not be in memory."""
    random, scratch = Random(1), Scratch(tmp_path)
    count = block_module.ROWS * block_module.TEXTS
    given = [as_they_are(n, random) for n in range(count)]
    gc.collect()
    tracemalloc.start()
    try:
        found = Tombstones()
        while given:
            found = found.with_one(given.pop(0))
        gc.collect()
        traced, _ = tracemalloc.get_traced_memory()
        for one in found.blocks:
            away(one, scratch.put)
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == count
    assert not found.recent
    assert traced / count < 130
    assert left / count < 8
    random = Random(1)
    assert [*found] == [as_they_are(n, random) for n in range(count)]
