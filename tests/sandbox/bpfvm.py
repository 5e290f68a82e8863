"""Runs a seccomp program the way the kernel does, and refuses what the kernel would refuse."""

from __future__ import annotations

import struct
from collections.abc import Iterator

Instruction = tuple[int, int, int, int]

ALLOW, KILL = 0x7FFF_0000, 0x8000_0000
_DATA = struct.Struct("=iIQ6Q")
_LOAD, _RETURN, _JUMP, _AND = 0x20, 0x06, 0x05, 0x54
_EQUAL, _AT_LEAST, _ANY_BIT = 0x15, 0x35, 0x45
_CONDITIONS = {_EQUAL, _AT_LEAST, _ANY_BIT}


def decode(program: bytes) -> list[Instruction]:
    return list(struct.iter_unpack("=HBBI", program))


def check(program: bytes) -> list[Instruction]:
    """What seccomp_check_filter and bpf_check_classic demand, and that every path returns."""
    code = decode(program)
    assert 0 < len(code) <= 4096
    for at, (operation, true, false, operand) in enumerate(code):
        if operation == _LOAD:
            assert operand % 4 == 0
            assert operand < _DATA.size
        elif operation == _RETURN:
            assert operand in (ALLOW, KILL) or (operand >> 16 == 5 and 0 < operand & 0xFFFF < 4096)
        else:
            assert operation in {*_CONDITIONS, _JUMP, _AND}, f"{operation:#x}"
        for follower in _followers(at, (operation, true, false, operand)):
            assert follower < len(code), f"instruction {at} runs off the end"
    return code


def _followers(at: int, instruction: Instruction) -> Iterator[int]:
    operation, true, false, operand = instruction
    if operation in _CONDITIONS:
        yield from (at + 1 + true, at + 1 + false)
    elif operation == _JUMP:
        yield at + 1 + operand
    elif operation != _RETURN:
        yield at + 1


def run(
    code: list[Instruction], audit: int, number: int, arguments: tuple[int, ...] = ()
) -> tuple[int, int]:
    """The action, and how many instructions it took."""
    words = [argument & (1 << 64) - 1 for argument in (*arguments, *[0] * 6)][:6]
    number = struct.unpack("=i", struct.pack("=I", number & 0xFFFF_FFFF))[0]
    data = _DATA.pack(number, audit, 0x7F00_0000_1234, *words)
    accumulator, at = 0, 0
    for taken in range(1, len(code) + 1):
        operation, true, false, operand = code[at]
        at += 1
        if operation == _RETURN:
            return operand, taken
        if operation == _LOAD:
            accumulator = struct.unpack_from("=I", data, operand)[0]
        elif operation == _AND:
            accumulator &= operand
        elif operation == _JUMP:
            at += operand
        else:
            holds = {
                _EQUAL: accumulator == operand,
                _AT_LEAST: accumulator >= operand,
                _ANY_BIT: bool(accumulator & operand),
            }[operation]
            at += true if holds else false
    raise AssertionError("the program does not end")


def verdict(action: int) -> int:
    """0 when a call goes through, the errno that it is refused with otherwise."""
    if action == ALLOW:
        return 0
    assert action >> 16 == 5, f"{action:#x}"
    return action & 0xFFFF
