"""Finished operations in a fraction of their room: as the text that snapshots have of them,
compressed, behind the text of a card that says what the indexes of `State` find them by.

Nothing is packed by a record: who writes a snapshot does it (see filing.py).
"""

from __future__ import annotations

import zlib
from functools import lru_cache

import orjson

from supervisor.core.card import Card, card_of
from supervisor.core.drawer import Packed, texts
from supervisor.core.program_state import Approval
from supervisor.core.standing import Waits, waits_for
from supervisor.core.state import Operation, Said
from supervisor.core.text import read, text_of

# Unpacked ones that are remembered: what is looked at is mostly looked at again at once.
REMEMBERED = 8
# And cards: a frame that evicts asks twice for each, and evicts as many at the most.
CARDS = 64
# How many samples a packer has at the most, and the bytes of one: four operations of one call.
SAMPLES = 64
SAMPLE = 4_096
_LEVEL = 2  # as fast as 1, and smaller; the others take three times as long for little


def packable(operation: Operation) -> bool:
    """Finished, and nothing of it moves, is in doubt or waited for: no index but those that a
    card is made for names it."""
    tally = operation.tally
    rests = not (tally.moving or tally.unresolved or leaves(operation))
    return (
        waits_for(operation) is Waits.EVICTION
        and rests
        and operation.continuation is None
        and asked(operation) is None
    )


def leaves(operation: Operation) -> int:
    """How many tries of it have leave and no confirmation."""
    tries = (one for effect in operation.effects.values() for one in effect.tries)
    return sum(one.outcome is Said.ANNOUNCED for one in tries)


def asked(operation: Operation) -> Approval | None:
    """The approval that its program waits for, and somebody may still give."""
    over = operation.cancel_requested or operation.lost
    return operation.program.pending if operation.program is not None and not over else None


class Packer:
    """Packs many. Operations that call the same handlers are much alike, so the first of them is
    the sample that the others are compressed against: they take a third of the room then."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, ...], bytes] = {}
        self._learned: set[bytes] = set()

    def learn(self, other: Packed) -> None:
        """The sample that another one was packed with."""
        if other.sample and other.sample not in self._learned:
            self._learned.add(other.sample)
            self._samples[_card(other).standing.handlers] = other.sample

    def packed(self, card: Card, operation: bytes) -> Packed:
        """Of an operation that is there as text."""
        text = b"%b\n%b" % (text_of(card), operation)
        sample = self._sample(card.standing.handlers, text)
        made = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=sample)
        content = made.compress(text) + made.flush()
        return Packed(card.operation_id, card.serial, card.updated_at, content, sample, unpacked)

    def _sample(self, handlers: tuple[str, ...], text: bytes) -> bytes:
        if handlers not in self._samples and len(self._samples) < SAMPLES:
            self._samples[handlers] = text[:SAMPLE]
        return self._samples.get(handlers, b"")


def card_in(held: Operation | Packed) -> Card:
    """The card of either, with nothing unpacked for it."""
    return card_of(held) if isinstance(held, Operation) else _card(held)


@lru_cache(CARDS)
def _card(held: Packed) -> Card:
    card, _ = texts(held)
    return read(Card, orjson.loads(card))


@lru_cache(REMEMBERED)
def unpacked(held: Packed) -> Operation:
    _, operation = texts(held)
    return read(Operation, orjson.loads(operation))
