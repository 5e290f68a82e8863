"""Why was it denied: what a stderr tail tells, and what it must not."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

from sandbox import plan
from supervisor.cli.denials.values import SYSTEM, Policy
from supervisor.cli.hints import MOST, OF_SIGNALS, hints

CLOSED = Policy("none", visible=("/srv/app",), writable=("/srv/out",), hidden=("/var/lib/effectd",))
OPEN = Policy("host")


class There(NamedTuple):
    """What the person who asks sees of the host."""

    files: frozenset[str]
    folders: frozenset[str]
    ports: frozenset[int] = frozenset()

    def kind(self, path: str) -> str:
        return "file" if path in self.files else "directory" if path in self.folders else ""

    def real(self, path: str) -> str:
        return {"/etc/link": "/mnt/far"}.get(path, path)

    def may(self, path: str, right: Literal["read", "write"]) -> bool:
        return True

    def listens(self, port: int) -> bool:
        return port in self.ports


HOST = There(
    frozenset(
        {
            *("/home/u/.netrc", "/home/u/my file", "/home/u/tool", "/srv/app/x", "/usr/lib/x"),
            *("/srv/out/f", "/data", "/var/lib/effectd/secrets/key", "/etc/link", "/mnt/far"),
        }
    ),
    frozenset(("/etc", "/srv/out", "/home", "/home/u", "/opt/app", "/srv/repo")),
    frozenset((5432,)),
)


def found(stderr: str, policy: Policy = CLOSED, *, signal: int = 0) -> list[str]:
    return hints(stderr, policy, HOST, signal=signal)


@pytest.mark.guarantee("S12")
@pytest.mark.parametrize(
    "stderr",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: '/home/u/.netrc'",
        "PermissionError: [Errno 13] Permission denied: '/home/u/.netrc'",
        "cat: /home/u/.netrc: No such file or directory",
        "Error: ENOENT: no such file or directory, open '/home/u/.netrc'",
        "sh: 1: cannot open /home/u/.netrc: No such file",
        "/bin/sh: line 3: /home/u/.netrc: No such file or directory",
        "open /home/u/.netrc: Permission denied",
        "panic: open /home/u/.netrc: no such file or directory",
        "java.io.FileNotFoundException: /home/u/.netrc (No such file or directory)",
        "java.nio.file.NoSuchFileException: /home/u/.netrc",
        'Can\'t open perl script "/home/u/.netrc": No such file or directory',
        "Can't open '/home/u/.netrc': No such file or directory at x.pl line 3.",
        "No such file or directory @ rb_sysopen - /home/u/.netrc (Errno::ENOENT)",
        "fatal: could not open '/home/u/.netrc' for reading: No such file or directory",
        "fatal: unable to access '/home/u/.netrc': Permission denied",
        "cp: cannot stat \u2018/home/u/.netrc\u2019: No such file or directory",
        "error: opening /home/u/.netrc, which was not found.",
    ],
)
def test_a_path_that_exists_outside_is_named_with_the_key_that_shows_it(stderr: str) -> None:
    assert found(stderr) == [
        "/home/u/.netrc exists but is hidden from this handler; add it to read = [...] in [sandbox]"
    ]


def test_a_path_in_quotes_may_hold_spaces() -> None:
    [hint] = found("FileNotFoundError: [Errno 2] No such file or directory: '/home/u/my file'")
    assert hint.startswith("/home/u/my file exists")


def test_a_program_that_is_hidden_is_named_as_well() -> None:
    [hint] = found("sh: 1: /home/u/tool: not found")
    assert hint.startswith("/home/u/tool exists")


def test_a_link_that_is_seen_and_leads_outside_names_where_it_leads() -> None:
    [hint] = found("cat: /etc/link: No such file or directory")
    assert hint.startswith("/mnt/far exists")


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


@pytest.mark.parametrize(
    "stderr",
    [
        "touch: cannot touch '/opt/app/x': Read-only file system",
        "OSError: [Errno 30] Read-only file system: '/opt/app/x'",
        "Error: EROFS: read-only file system, open '/opt/app/x'",
        "sh: 1: cannot create /opt/app/x: Read-only file system",
        "mkdir: cannot create directory '/opt/app/x': Read-only file system",
    ],
)
def test_a_read_only_path_names_the_directory_and_the_write_key(stderr: str) -> None:
    assert found(stderr) == [
        "/opt/app is read-only for this handler; add /opt/app to write = [...] in [sandbox]"
    ]


def test_a_directory_that_is_hidden_and_to_be_written_to_names_the_write_key() -> None:
    [hint] = found("sh: 1: cannot create /srv/repo/x: Directory nonexistent")
    assert "add /srv/repo to write" in hint


def test_a_whole_system_directory_is_not_suggested() -> None:
    [hint] = found("touch: cannot touch '/etc/x': Read-only file system")
    assert "directory of its own" in hint
    assert "write = [" not in hint
    [hint] = found("ls: cannot access '/home': No such file or directory")
    assert "too broad" in hint


def test_what_is_effectds_own_is_never_suggested() -> None:
    [hint] = found("cat: /var/lib/effectd/secrets/key: No such file or directory")
    assert "effectd's own" in hint
    assert "read = [" not in hint
    assert found("cat: /var/lib/effectd/secrets/none: No such file or directory") == []


def test_a_secret_that_is_not_declared_is_told_as_one() -> None:
    [hint] = found("cat: /run/credentials/token: No such file or directory")
    assert 'secrets = ["token"]' in hint


@pytest.mark.parametrize(
    "stderr",
    [
        "curl: (6) Could not resolve host: example.com",
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        "connect: Network is unreachable",
        "Error: getaddrinfo EAI_AGAIN example.com",
        "java.net.UnknownHostException: example.com",
        "dial tcp: lookup example.com: no such host",
        "ssh: Could not resolve hostname h: Name or service not known",
    ],
)
def test_a_handler_without_network_is_told_so(stderr: str) -> None:
    assert 'network = "host"' in found(stderr)[0]
    assert found(stderr, OPEN) == []


@pytest.mark.parametrize(
    "stderr",
    [
        "Error: connect ECONNREFUSED 127.0.0.1:5432",
        'connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection refused',
        "curl: (7) Failed to connect to localhost port 5432 after 0 ms",
        "dial tcp [::1]:5432: connect: connection refused",
    ],
)
def test_a_port_of_the_host_is_told_from_one_inside(stderr: str) -> None:
    [hint] = found(stderr)
    assert "port 5432 outside" in hint
    assert found(stderr, OPEN) == []
    assert found(stderr.replace("5432", "5433")) == []


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("socket: Address family not supported by protocol", "unix = [...]"),
        ("unshare: unshare failed: Operation not permitted", "refused in every sandbox"),
        ("bwrap: No permissions to create new namespace: Operation not permitted", "every sandbox"),
        ("strace: ptrace(PTRACE_TRACEME): Operation not permitted", "every sandbox"),
        ("Bad system call (core dumped)", "every sandbox refuses system calls"),
        ("sudo: effective uid is not 0, is sudo installed setuid root?", "another user"),
        ('sudo: The "no new privileges" flag is set', "another user"),
        ("chown: changing ownership of 'x': Invalid argument", "another user"),
        ("OSError: [Errno 24] Too many open files: 'x'", "files_max"),
        ("sh: 0: Cannot fork", "tasks_max"),
        ("BlockingIOError: [Errno 11] Resource temporarily unavailable", "tasks_max"),
        ("bash: fork: retry: Resource temporarily unavailable", "tasks_max"),
        ("Error: spawn /bin/sh EAGAIN", "tasks_max"),
        ("RuntimeError: can't start new thread", "tasks_max"),
        ("OutOfMemoryError: unable to create native thread", "tasks_max"),
        ("write: No space left on device", "64 MiB"),
        ("OSError: [Errno 27] File too large", "file_size_max"),
        ("MemoryError", "memory_max"),
        ("FATAL ERROR: Reached heap limit - JavaScript heap out of memory", "memory_max"),
    ],
)
def test_a_limit_or_a_refusal_is_named(stderr: str, words: str) -> None:
    assert words in found(stderr)[0]


@pytest.mark.parametrize(
    ("number", "words"), [(31, "32-bit"), (25, "file_size_max"), (24, "cpu_max_ms")]
)
def test_a_signal_of_the_kernels_is_explained_without_a_word_of_stderr(
    number: int, words: str
) -> None:
    [hint] = found("", signal=number)
    assert words in hint
    assert found("", signal=15) == []
    assert set(OF_SIGNALS) == {24, 25, 31}


def test_each_hint_comes_once_and_there_are_few() -> None:
    line = "cat: /data: No such file or directory\n"
    assert len(found(line * 50)) == 1
    many = "".join(f"cat: /d/f{n}: No such file or directory\n" for n in range(50))
    host = HOST._replace(files=frozenset(f"/d/f{n}" for n in range(50)))
    assert len(hints(many, CLOSED, host)) == MOST


def test_every_directory_of_the_system_that_a_sandbox_shows_is_known_here() -> None:
    assert set(SYSTEM) == set(plan.SYSTEM)


@pytest.fixture
def hidden() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="effectctl-hint-") as folder:
        file = Path(folder, "hidden")
        file.write_text("here")
        yield file


def test_the_host_is_looked_at_as_whoever_asks(hidden: Path) -> None:
    stderr = f"cat: {hidden}: No such file or directory"
    assert hints(stderr, CLOSED) == [
        f"{hidden} exists but is hidden from this handler; add it to read = [...] in [sandbox]"
    ]
    assert hints(stderr, CLOSED._replace(visible=(str(hidden.parent),))) == []


@pytest.mark.parametrize("tool", ["python3", "node", "perl", "git", "bash"])
def test_what_real_programs_say_of_a_missing_file_is_understood(hidden: Path, tool: str) -> None:
    missing = str(hidden)
    commands = {
        "python3": ["python3", "-I", "-c", f"open({missing!r})"],
        "node": ["node", "-e", f"require('fs').readFileSync({missing!r})"],
        "perl": ["perl", "-e", f"open(my $f, '<', '{missing}') or die \"{missing}: $!\""],
        "git": ["git", "-C", missing, "status"],
        "bash": ["bash", "-c", f"cat < {missing}"],
    }
    hidden.unlink()
    try:
        env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        done = subprocess.run(
            commands[tool], capture_output=True, text=True, env=env, timeout=60, check=False
        )
    except FileNotFoundError:
        pytest.skip(f"{tool} is not installed")
    finally:
        hidden.write_text("here")
    assert done.returncode != 0
    assert any(hint.startswith(missing) for hint in hints(done.stderr, CLOSED)), done.stderr
    assert os.path.exists(missing)
