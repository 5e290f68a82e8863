"""Why was it denied: what a stderr tail tells, and what it must not."""

from __future__ import annotations

import pytest

from supervisor.cli.hints import SYSTEM, Policy, hints

CLOSED = Policy(network="none", visible=("/srv/app",), writable=("/srv/out",))
OPEN = Policy(network="host", visible=(), writable=())
OUTSIDE = {"/home/u/.netrc", "/srv/app/x", "/usr/lib/x", "/srv/out/f", "/data"}


def found(stderr: str, policy: Policy = CLOSED) -> list[str]:
    return hints(stderr, policy, OUTSIDE.__contains__, SYSTEM)


@pytest.mark.guarantee("S12")
@pytest.mark.parametrize(
    "stderr",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: '/home/u/.netrc'",
        "cat: /home/u/.netrc: No such file or directory",
        "Error: ENOENT: no such file or directory, open '/home/u/.netrc'",
        "sh: 1: cannot open /home/u/.netrc: No such file",
        "open /home/u/.netrc: Permission denied",
    ],
)
def test_a_path_that_exists_outside_is_named_with_the_key_that_shows_it(stderr: str) -> None:
    assert found(stderr) == [
        "/home/u/.netrc exists but is hidden from this handler; add it to read = [...] in [sandbox]"
    ]


@pytest.mark.parametrize(
    "stderr",
    [
        "cat: /nowhere: No such file or directory",  # does not exist outside either
        "cat: /srv/app/x: Permission denied",  # the handler sees it: ordinary permissions
        "cat: /usr/lib/x: No such file or directory",  # part of every sandbox
        "read /data fine",  # no denial
        "https://home/u/.netrc: not found",  # an address, not a path
        "",
    ],
)
def test_what_the_sandbox_did_not_deny_gets_no_hint(stderr: str) -> None:
    assert found(stderr) == []


def test_a_read_only_path_names_the_write_key() -> None:
    [hint] = found("touch: cannot touch '/etc/x': Read-only file system")
    assert hint == "/etc/x is read-only for this handler; add it to write = [...] in [sandbox]"
    assert found("touch: /srv/out/f: Read-only file system") == []


@pytest.mark.parametrize(
    "stderr",
    [
        "curl: (6) Could not resolve host: example.com",
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        "connect: Network is unreachable",
        "Error: getaddrinfo EAI_AGAIN example.com",
    ],
)
def test_a_handler_without_network_is_told_so(stderr: str) -> None:
    assert 'network = "host"' in found(stderr)[0]
    assert found(stderr, OPEN) == []


def test_a_refused_socket_family_names_the_unix_key() -> None:
    assert "unix = " not in "".join(found("fine"))
    [hint] = found("socket: Address family not supported by protocol")
    assert "unix" in hint


def test_each_hint_comes_once_and_there_are_few() -> None:
    line = "cat: /data: No such file or directory\n"
    assert len(found(line * 50)) == 1
    many = "".join(f"cat: /home/f{i}: No such file or directory\n" for i in range(50))
    assert len(hints(many, CLOSED, lambda _: True, SYSTEM)) == 5
