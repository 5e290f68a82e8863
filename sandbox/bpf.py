"""Classic BPF programs for seccomp, put together from blocks. Pure.

A block is a tuple of instructions that ends in a return on every path, and blocks are only ever
nested whole. So no program can run off its end, jump back, or leave a case undecided.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false (both in instructions from the next one), operand."""
Block = tuple[Instruction, ...]

LENGTH_MAX = 4_096
"""BPF_MAXINSNS: the kernel takes no longer program."""

LOAD, RETURN, JUMP, AND = 0x20, 0x06, 0x05, 0x54
IF_EQUAL, IF_AT_LEAST, IF_ANY_BIT = 0x15, 0x35, 0x45

KILL_PROCESS, ERRNO, PASS = 0x8000_0000, 0x0005_0000, 0x7FFF_0000

# struct seccomp_data: int nr, u32 arch, u64 instruction_pointer, u64 args[6].
NUMBER_AT, ARCH_AT = 0, 4
_ARGUMENTS_AT = 16
_NEAR = 255

_PACKED = Struct("=HBBI")


def returns(action: int) -> Block:
    return ((RETURN, 0, 0, action),)


ALLOW = returns(PASS)
KILL = returns(KILL_PROCESS)


def fails(number: int) -> Block:
    """The call is not made; it fails with this errno."""
    return returns(ERRNO | number)


def load(offset: int, then: Block) -> Block:
    """With the 32-bit word at ``offset`` of struct seccomp_data in the accumulator."""
    return ((LOAD, 0, 0, offset), *then)


def low(argument: int, then: Block) -> Block:
    """With the low half of an argument. The kernel reads no more of an int, so a test of the high
    half would only be a way round the low one."""
    return load(_ARGUMENTS_AT + 8 * argument, then)


def high(argument: int, then: Block) -> Block:
    """With the high half of an argument; every machine that has a table is little-endian."""
    return load(_ARGUMENTS_AT + 8 * argument + 4, then)


def masked(mask: int, then: Block) -> Block:
    return ((AND, 0, 0, mask), *then)


def equal(value: int, then: Block, otherwise: Block) -> Block:
    return _branch(IF_EQUAL, value, then, otherwise)


def at_least(value: int, then: Block, otherwise: Block) -> Block:
    """Unsigned."""
    return _branch(IF_AT_LEAST, value, then, otherwise)


def any_bit(mask: int, then: Block, otherwise: Block) -> Block:
    return _branch(IF_ANY_BIT, mask, then, otherwise)


def one_of(values: Sequence[int], then: Block, otherwise: Block) -> Block:
    for value in reversed(values):
        otherwise = equal(value, then, otherwise)
    return otherwise


def by_range(starts: Sequence[tuple[int, Block]]) -> Block:
    """The block of the last start that is not above the accumulator; the first start is 0.

    A balanced tree: eight comparisons or so instead of a walk along the list, for every call that
    the kernel does not decide from its cache.
    """
    if len(starts) == 1:
        return starts[0][1]
    middle = len(starts) // 2
    return at_least(starts[middle][0], by_range(starts[middle:]), by_range(starts[:middle]))


def assemble(block: Block) -> bytes:
    """As seccomp(2) takes it. ValueError when it is too long."""
    if len(block) > LENGTH_MAX:
        raise ValueError(f"{len(block)} instructions; the kernel takes {LENGTH_MAX}")
    return b"".join(_PACKED.pack(*instruction) for instruction in block)


def _branch(code: int, value: int, then: Block, otherwise: Block) -> Block:
    if then == otherwise:
        return then
    if len(then) <= _NEAR:
        return ((code, 0, len(then), value), *then, *otherwise)
    # A conditional jump reaches 255 instructions, an unconditional one any number.
    return ((code, 1, 0, value), (JUMP, 0, 0, len(then)), *then, *otherwise)
