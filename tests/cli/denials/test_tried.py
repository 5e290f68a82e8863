"""A real handler is denied something, `handlers try` says what, and the pasted lines allow it."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.denials.conftest import ALLOWED, DENIED, Tried, Workbench
from tests.cli.denials.listeners import answering

pytestmark = [
    pytest.mark.guarantee("S12"),
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]
NODE = pytest.param(
    "node",
    marks=pytest.mark.skipif(
        not Path("/usr/bin/node").exists(), reason="Node is not where a sandbox shows it"
    ),
)
KINDS = ("python", "sh", NODE)


def denied_then_allowed(bench: Workbench) -> Tried:
    """The first try fails; with its suggestion pasted, the second does what was wanted."""
    first = bench.try_()
    assert first.code == DENIED, first.out
    assert first.sandbox, first.out
    bench.paste(first)
    again = bench.try_()
    assert again.code == ALLOWED, again.out
    return first


READS = {
    "python": "print(open({path!r}).read())",
    "sh": "cat {path}",
    "node": "console.log(require('fs').readFileSync({path!r}, 'utf8'))",
}
WRITES = {
    "python": "open({path!r}, 'w').write('it')",
    "sh": "echo it >{path}",
    "node": "require('fs').writeFileSync({path!r}, 'it')",
}
CONNECTS = {
    "python": """
import socket
with socket.create_connection(("127.0.0.1", {port})) as one:
    assert one.recv(16)
""",
    "sh": """
perl -MIO::Socket::INET -e '
  my $one = IO::Socket::INET->new("127.0.0.1:{port}") or die "connect: $!"; <$one> or die'
""",
    "node": """
require('net').connect({port}, '127.0.0.1')
  .on('data', () => process.exit(0))
  .on('error', (error) => {{ console.error(error); process.exit(1) }})
""",
}
CONNECTS_UNIX = {
    "python": """
import socket
with socket.socket(socket.AF_UNIX) as one:
    one.connect({path!r})
    assert one.recv(16)
""",
    "sh": """
perl -MIO::Socket::UNIX -e '
  my $one = IO::Socket::UNIX->new(Peer => "{path}") or die "connect: $!"; <$one> or die'
""",
    "node": """
require('net').connect({path!r})
  .on('data', () => process.exit(0))
  .on('error', (error) => {{ console.error(error); process.exit(1) }})
""",
}
LOOKS_UP = {
    "python": "import socket; socket.getaddrinfo('db.example', 80)",
    "sh": "getent ahosts db.example",
    "node": """
require('dns').lookup('db.example', (error) => {
  if (error) { console.error(error); process.exit(1) }
})
""",
}
# Each starts more than its tasks_max at once, and not more than twice that.
STARTS = {
    "python": """
import subprocess
all = [subprocess.Popen(["/bin/sleep", "1"]) for _ in range(6)]
assert not any(one.wait() for one in all)
""",
    "sh": "for i in 1 2 3 4 5 6; do sleep 1 & done; wait",
    "node": """
for (let i = 0; i < 20; i++) require('child_process').spawn('/bin/sleep', ['1'])
  .on('error', (error) => { console.error(error); process.exit(1) })
""",
}
TASKS = {"python": 4, "sh": 4, "node": 24}


@pytest.fixture
def port() -> Iterator[int]:
    server = socket.create_server(("127.0.0.1", 0))
    with answering(server):
        yield server.getsockname()[1]


@pytest.fixture
def unix_path(bench: Workbench) -> Iterator[str]:
    path = bench.data / "served.sock"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    path.chmod(0o777)
    server.listen()
    with answering(server):
        yield str(path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_hidden_file_is_named_and_shown(bench: Workbench, kind: str) -> None:
    path = bench.data / "wanted.txt"
    path.write_text("what it wanted")
    bench.write(READS[kind].format(path=str(path)), kind=kind)
    assert denied_then_allowed(bench).sandbox == {"read": [str(path)]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_directory_to_write_to_is_named_and_opened(bench: Workbench, kind: str) -> None:
    path = bench.data / "made.txt"
    bench.write(WRITES[kind].format(path=str(path)), kind=kind)
    assert denied_then_allowed(bench).sandbox == {"write": [str(bench.data)]}
    assert path.read_text().strip() == "it"


@pytest.mark.parametrize("kind", KINDS)
def test_a_port_of_the_host_is_named_and_reached(bench: Workbench, kind: str, port: int) -> None:
    bench.write(CONNECTS[kind].format(port=port), kind=kind)
    first = denied_then_allowed(bench)
    assert first.sandbox == {"network": "host"}
    assert f"127.0.0.1 port {port}" in first.denials[0]["call"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_unix_socket_is_named_and_reached(bench: Workbench, kind: str, unix_path: str) -> None:
    bench.write(CONNECTS_UNIX[kind].format(path=unix_path), kind=kind)
    assert denied_then_allowed(bench).sandbox == {"unix": [unix_path]}


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_cannot_be_looked_up_asks_for_the_network(bench: Workbench, kind: str) -> None:
    bench.write(LOOKS_UP[kind], kind=kind)
    tried = bench.try_()
    assert tried.code == DENIED
    assert tried.sandbox == {"network": "host"}
    assert "port 53" in tried.denials[0]["call"]


@pytest.mark.parametrize("kind", KINDS)
def test_too_few_tasks_are_named_and_doubled(bench: Workbench, kind: str) -> None:
    bench.write(STARTS[kind], f"tasks_max = {TASKS[kind]}", kind=kind)
    assert denied_then_allowed(bench).sandbox == {"tasks_max": 2 * TASKS[kind]}


REFUSED = {
    "a namespace": ("sh", "exec unshare --user true", "new namespaces cannot be made"),
    "another root": (
        "sh",
        'exec perl -e \'chroot "/" or die "chroot: $!"\'',
        "mounts and roots",
    ),
    "another process": (
        "python",
        "import ctypes; assert ctypes.CDLL(None).ptrace(0, 0, 0, 0) == 0",
        "no hands in another's memory",
    ),
    "a socket family": (
        "python",
        "import socket; socket.socket(socket.AF_VSOCK)",
        "only the socket families",
    ),
    "a family from perl": (
        "sh",
        "exec perl -e 'socket(my $one, 38, 5, 0) or die \"socket: $!\"'",  # AF_ALG
        "only the socket families",
    ),
    "a datagram pair": (
        "python",
        "import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
        "only connected pairs",
    ),
    "another owner": (
        "python",
        "import os; open('mine', 'w'); os.chown('mine', 1, 1)",
        "only one user exists inside",
    ),
    "another user": ("python", "import os; os.setuid(1)", "cannot become another user"),
    "more memory for files": (
        "sh",
        "exec dd if=/dev/zero of=/tmp/big bs=1M count=80",
        "/tmp inside is in memory",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_every_sandbox_refuses_is_named_with_the_reason(bench: Workbench, what: str) -> None:
    kind, body, reason = REFUSED[what]
    bench.write(body, kind=kind)
    tried = bench.try_()
    assert tried.code == DENIED, tried.out
    assert tried.sandbox == {}
    assert any(reason in one["why"] for one in tried.denials), tried.denials


LIMITS = {
    "files_max": ("python", "held = [open('/dev/null') for _ in range(40)]", 32),
    "file_size_max": ("sh", "exec dd if=/dev/zero of=/tmp/big bs=1k count=48", 32_768),
}


@pytest.mark.parametrize("key", LIMITS)
def test_a_limit_that_is_too_small_is_named_and_doubled(bench: Workbench, key: str) -> None:
    kind, body, small = LIMITS[key]
    bench.write(body, f"{key} = {small}", kind=kind)
    assert denied_then_allowed(bench).sandbox == {key: 2 * small}


def test_what_is_declared_already_is_kept_in_the_suggestion(bench: Workbench) -> None:
    first, second = bench.data / "first", bench.data / "second"
    for one in (first, second):
        one.write_text("here")
    bench.write(f"cat {first} {second}", f'read = ["{first}"]')
    assert denied_then_allowed(bench).sandbox == {"read": [str(first), str(second)]}


def test_two_denials_one_after_the_other_are_told_one_after_the_other(bench: Workbench) -> None:
    wanted = bench.data / "wanted"
    wanted.write_text("here")
    bench.write(f"set -e\ncat {wanted}\necho it >{bench.data}/made")
    first = bench.try_()
    assert first.sandbox == {"read": [str(wanted)]}
    bench.paste(first)
    second = bench.try_()
    assert second.sandbox == {"write": [str(bench.data)]}


def test_many_files_of_one_directory_are_told_as_that_directory(bench: Workbench) -> None:
    for number in range(6):
        (bench.data / f"{number}.txt").write_text("here")
    bench.write(
        f"cd / && for n in 0 1 2 3 4 5; do cat {bench.data}/$n.txt || bad=1; done; exit $bad"
    )
    assert denied_then_allowed(bench).sandbox == {"read": [str(bench.data)]}


def test_directories_to_make_below_one_that_is_hidden_open_that_one(bench: Workbench) -> None:
    deep = bench.data / "a" / "b"
    bench.write(f"import os; os.makedirs({str(deep)!r})", kind="python")
    assert denied_then_allowed(bench).sandbox == {"write": [str(bench.data)]}
    assert deep.is_dir()


def test_a_link_in_the_system_that_leads_outside_names_where_it_leads(bench: Workbench) -> None:
    target = bench.data / "target"
    target.write_text("here")
    link = bench.programs / "link"
    link.symlink_to(target)
    bench.write(f"cat {link}")
    assert denied_then_allowed(bench).sandbox == {"read": [str(target)]}


def test_a_handler_that_is_denied_nothing_hears_of_nothing(bench: Workbench) -> None:
    bench.write(
        "import json, ssl, sqlite3, subprocess; subprocess.run(['/bin/true'])", kind="python"
    )
    tried = bench.try_()
    assert tried.code == ALLOWED, tried.out
    assert tried.denials == []
    assert "denied" not in bench.try_(form="text").words


@pytest.mark.parametrize("kind", KINDS)
def test_what_every_program_looks_for_in_vain_is_not_told(bench: Workbench, kind: str) -> None:
    bodies = {
        "python": "import os, pwd, locale; os.cpu_count(); pwd.getpwuid(os.getuid())",
        "sh": "id >/dev/null; ls -l / >/dev/null; date >/dev/null; git --version >/dev/null",
        "node": "require('os').cpus(); require('os').userInfo()",
    }
    bench.write(bodies[kind], kind=kind)
    tried = bench.try_()
    assert tried.code == ALLOWED, tried.out
    assert tried.denials == []


def test_what_is_survived_is_told_as_such(bench: Workbench) -> None:
    wanted = bench.data / "wanted"
    wanted.write_text("here")
    bench.write(f"cat {wanted} 2>/dev/null; exit 0")
    tried = bench.try_(form="text")
    assert tried.code == ALLOWED
    assert "ended well without" in tried.words
    assert str(wanted) in tried.out


def test_the_supervisors_own_places_are_never_suggested(bench: Workbench) -> None:
    secrets = bench.base / "state"
    secrets.mkdir(exist_ok=True)
    (secrets / "journal").write_text("here")
    bench.write(f"cat {secrets}/journal {bench.manifests}/tried.toml")
    tried = bench.try_()
    assert tried.code == DENIED
    assert tried.sandbox == {}
    assert {one["key"] for one in tried.denials} == {""}
    assert "effectd's own" in bench.try_(form="text").words


def test_a_line_that_no_manifest_may_have_is_not_suggested(bench: Workbench) -> None:
    bench.write(f"echo it >{bench.programs}/tried.new")
    tried = bench.try_()
    assert tried.code == DENIED
    assert tried.sandbox == {}
    said = bench.try_(form="text").words
    assert "no manifest may allow it" in said
    assert "runs from" in said


def test_the_whole_systems_directories_are_not_suggested(bench: Workbench) -> None:
    bench.write("echo it >/etc/effectd-test-never")
    tried = bench.try_()
    assert tried.sandbox == {}
    assert "whole system's" in bench.try_(form="text").words


def test_a_secret_that_is_not_declared_is_told_as_one(bench: Workbench) -> None:
    bench.write("cat /run/credentials/token")
    said = bench.try_(form="text").words
    assert 'secrets = ["token"]' in said


def test_a_program_that_cannot_start_is_explained_as_well(bench: Workbench) -> None:
    hidden = bench.base / "tools"
    hidden.mkdir()
    tool = hidden / "tool"
    tool.write_text("#!/bin/sh\nexit 0\n")
    tool.chmod(0o755)
    bench.write(f"exec {tool}")
    assert denied_then_allowed(bench).sandbox == {"read": [str(tool)]}


def test_what_may_be_written_to_is_not_asked_for_to_read_as_well(bench: Workbench) -> None:
    (bench.data / "old").write_text("here")
    bench.write(f"cat {bench.data}/old; echo it >{bench.data}/new")
    assert denied_then_allowed(bench).sandbox == {"write": [str(bench.data)]}


def test_what_must_be_done_on_the_host_as_well_is_said(bench: Workbench) -> None:
    kept = bench.data / "kept"
    kept.write_text("here")
    kept.chmod(0)
    bench.write(f"cat {kept}")
    tried = bench.try_(form="text")
    assert f"And on the host: {kept}: let uid" in tried.words


def test_each_run_that_was_watched_says_so_and_what_it_cost(bench: Workbench) -> None:
    bench.write("exit 0")
    assert "watched by strace" in bench.try_(form="text").words


def test_a_strace_that_may_not_attach_leaves_the_rest_as_it_is(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A program of that name which ends at once, as strace does where it is not permitted.
    stand_in = bench.base / "strace"
    stand_in.write_text("#!/bin/sh\necho 'attach: Operation not permitted' >&2; exit 1\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(bench.base), prepend=":")
    wanted = bench.data / "wanted"
    wanted.write_text("here")
    bench.write(f"cat {wanted}")
    tried = bench.try_(form="text")
    assert tried.code == DENIED
    assert "strace could not attach: attach: Operation not permitted" in tried.words
    assert f"hint: {wanted} exists but is hidden" in tried.words


def test_nothing_of_a_watched_run_is_left(bench: Workbench) -> None:
    before = {one.name for one in Path("/proc/self/fd").iterdir()}
    bench.write("exit 0")
    bench.try_()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert [one for one in children if "strace" in command_of(one)] == []
    assert len({one.name for one in Path("/proc/self/fd").iterdir()}) <= len(before) + 1


def command_of(pid: str) -> str:
    return Path("/proc", pid, "cmdline").read_text().replace("\0", " ")


def test_twice_is_traced_twice(bench: Workbench) -> None:
    bench.write("cat /nowhere; exit 0")
    tried = bench.try_("--twice")
    assert [one["untraced"] for one in tried.document["runs"]] == ["", ""]
