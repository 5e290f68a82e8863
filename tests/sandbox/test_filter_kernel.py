"""The system call filter in the kernel: it answers as the interpreter of the tests does."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import bpf, confine, syscalls
from sandbox.filter import REFUSED, Policy
from sandbox.filter import program as program_of
from tests.sandbox import bpfvm
from tests.sandbox.test_filter import BY_PID, HIGH, MINUS, POLICIES, SPECS

HERE = confine.here().architecture
if HERE is None:
    pytest.skip("there is no filter for this machine", allow_module_level=True)

CHILD = """
import ctypes, json, os, sys
sys.path.append(sys.argv[1])
from sandbox import linux, seccomp
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
given = json.load(sys.stdin)
if os.getuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
seccomp.take(bytes.fromhex(given["program"]))
seccomp.enforce()
if given["run"]:
    os.execv(given["run"], [given["run"]])
found = []
for number, *arguments in given["calls"]:
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_ulong(one) for one in arguments])
    found.append(ctypes.get_errno() if result < 0 else 0)
print(json.dumps(found))
"""
MARK = 3_000


def marked(program: bytes) -> bytes:
    """With errnos that no kernel has, so that a refusal is surely the filter's."""
    code = [
        (*rest, operand + MARK if operand >> 16 == bpf.ERRNO >> 16 else operand)
        for *rest, operand in bpfvm.decode(program)
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def confined(
    program: bytes, calls: list[tuple[int, ...]], run: str = ""
) -> subprocess.CompletedProcess[str]:
    """A process behind the filter that makes ``calls`` or becomes the program ``run``."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", CHILD, Path(bpf.__file__).parents[1]],
        input=json.dumps({"program": program.hex(), "calls": calls, "run": run}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.guarantee("S5")
@pytest.mark.parametrize("name", SPECS)
def test_the_kernel_answers_as_the_interpreter_says(name: str) -> None:
    program = program_of(HERE, POLICIES[name])
    unknown = (*range(syscalls.LAST + 1, syscalls.LAST + 6), 337, 400, 1023, 0x4000_0000 | 39)
    refused = [HERE.numbers[n] for n in REFUSED if n in HERE.numbers]
    calls: list[tuple[int, ...]] = [(number, *[MINUS] * 6) for number in (*refused, *unknown)]
    # A call that is let through fails harmlessly by its bad arguments, or asks only.
    numbers = HERE.numbers
    calls += [(numbers["socket"], family, 1, 0) for family in (0, 1, 2, 10, 16, 17, 38, 40)]
    calls += [(numbers["socket"], 2, 1, 262), (numbers["socket"], 16, 3, 9)]
    calls += [(numbers["socketpair"], 1, kind, 0, 0) for kind in (1, 2, 3, 5)]
    calls += [(numbers["clone"], 0x1000_0000 | 17, 0, 0, 0, 0), (numbers["unshare"], 0x2_0000)]
    calls += [(numbers["ioctl"], 0, request, 0) for request in (0x5412, HIGH | 0x5412, 0x5401)]
    calls += [(numbers["personality"], persona) for persona in (0xFFFF_FFFF, 0x40_0000)]
    calls += [(numbers["setpriority"], which, 1, 0) for which in (0, 1, 2)]
    calls += [(numbers["prlimit64"], 1, 7, 8, 0), (numbers["prlimit64"], 0, 7, 0, 0)]
    calls += [(numbers[call], pid, MINUS, 0) for call in BY_PID for pid in (0, 1)]
    code = bpfvm.check(program)
    done = confined(marked(program), calls)
    assert done.returncode == 0, done.stderr
    for call, found in zip(calls, json.loads(done.stdout), strict=True):
        wanted = bpfvm.verdict(bpfvm.run(code, HERE.audit, call[0], call[1:])[0])
        assert (found - MARK if found > MARK else 0) == wanted, (call, found)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="int 0x80 is an instruction of x86")
def test_a_32_bit_call_ends_the_process_with_sigsys(open_folder: Path) -> None:
    source, program = open_folder / "int80.c", open_folder / "int80"
    source.write_text(
        "int main(void) { int r; __asm__ volatile"
        '("int $0x80" : "=a"(r) : "a"(20) : "memory"); return r < 0 ? 3 : 0; }\n'
    )
    subprocess.run(["cc", "-o", program, source], check=True)
    if (plain := subprocess.run([program], check=False).returncode) != 0:
        pytest.skip(f"this kernel runs no 32-bit calls (the program ended with {plain})")
    done = confined(program_of(syscalls.X86_64, Policy()), [], run=str(program))
    assert done.returncode == -signal.SIGSYS
