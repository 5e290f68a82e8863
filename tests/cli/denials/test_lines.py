"""strace's lines become calls: whole ones, halves, and whatever a handler can put into a name."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.denials.lines import Call, Reader, Signal


def hexed(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(text))


def read(*lines: str) -> list[Call | Signal]:
    reader = Reader()
    return [one for line in lines for one in reader.feed(line)]


def test_a_call_has_its_name_arguments_and_error() -> None:
    line = f'7 openat(AT_FDCWD<{hexed("/var")}>, "{hexed("a/b")}", O_RDONLY) = -1 ENOENT (No such)'
    [call] = read(line)
    assert isinstance(call, Call)
    assert (call.pid, call.name, call.error) == (7, "openat", "ENOENT")
    assert (call.place(0), call.text(1), call.arguments[2]) == ("/var", "a/b", "O_RDONLY")


@pytest.mark.parametrize(
    "result", ["= 0", "= 3<\\x2f>", "= ?", "= 0x7f00", "= 5 /* 1234 in strace's PID NS */"]
)
def test_a_call_that_did_not_fail_has_no_error(result: str) -> None:
    [call] = read(f"7 socket(AF_INET, SOCK_STREAM, 0)     {result}")
    assert isinstance(call, Call)
    assert call.error == ""


def test_two_halves_are_one_call_whatever_stands_between() -> None:
    found = read(
        f'7 execve("{hexed("/bin/a")}", [...], 0x1 /* 3 vars */ <unfinished ...>',
        "8 vfork( <unfinished ...>",
        "7 <... execve resumed>) = -1 EACCES (Permission denied)",
        "8 <... vfork resumed>) = 9",
    )
    assert [(one.pid, one.name) for one in found] == [(7, "execve"), (8, "vfork")]
    assert isinstance(found[0], Call)
    assert (found[0].text(0), found[0].error) == ("/bin/a", "EACCES")


def test_commas_and_brackets_within_structures_do_not_part_arguments() -> None:
    line = (
        f"7 connect(4<{hexed('socket:[1]')}>, {{sa_family=AF_INET, sin_port=htons(9),"
        f' sin_addr=inet_addr("{hexed("127.0.0.1")}")}}, 16) = -1 ECONNREFUSED (refused)'
    )
    [call] = read(line)
    assert isinstance(call, Call)
    assert len(call.arguments) == 3
    assert call.place(0) == "socket:[1]"


def test_a_signal_says_which_and_why() -> None:
    [one] = read("7 --- SIGSYS {si_signo=SIGSYS, si_code=SYS_SECCOMP, si_syscall=__NR_bpf} ---")
    assert one == Signal(7, "SIGSYS", "{si_signo=SIGSYS, si_code=SYS_SECCOMP, si_syscall=__NR_bpf}")


@pytest.mark.parametrize(
    "line",
    ["", "strace: Process 9 attached", "7 +++ exited with 0 +++", "7 )(", "7 <... x resumed>", "x"],
)
def test_what_is_no_call_is_left_out(line: str) -> None:
    assert read(line) == []


@given(st.text(min_size=1).filter(lambda text: "\0" not in text))
def test_no_name_looks_like_a_part_of_the_line(name: str) -> None:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return  # a surrogate that stands for no byte: no file has that name
    [call] = read(f'7 rename("{hexed(name)}", "{hexed(name)}") = -1 EROFS (Read-only)')
    assert isinstance(call, Call)
    assert (call.text(0), call.text(1), call.error) == (name, name, "EROFS")


@given(st.lists(st.text(alphabet='7 ()<>{}[],.=+-"\\x2fENOT_ unfinished resumed', max_size=80)))
def test_no_line_at_all_is_too_odd_to_be_read(lines: list[str]) -> None:
    read(*lines)
