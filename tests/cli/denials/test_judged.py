"""The rule: what fails inside and would not fail outside. Each kind of call, and its innocents."""

from __future__ import annotations

from typing import Literal, NamedTuple

import pytest

from supervisor.cli.denials.judge import Judge
from supervisor.cli.denials.values import Denial, Policy
from tests.cli.denials.test_lines import hexed

INIT, HANDLER = 1, 7
CLOSED = Policy("none", visible=("/srv/app",), writable=("/srv/out",), hidden=("/var/lib/effectd",))
OPEN = CLOSED._replace(network="host")


class There(NamedTuple):
    """A host of a few paths; what is in `kept` is not the handler's user's."""

    kinds: dict[str, str]
    links: dict[str, str]
    kept: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()

    def kind(self, path: str) -> str:
        return self.kinds.get(self.real(path), "")

    def real(self, path: str) -> str:
        return self.links.get(path, path)

    def may(self, path: str, right: Literal["read", "write"]) -> bool:
        return path not in self.kept

    def listens(self, port: int) -> bool:
        return port in self.ports


HOST = There(
    {
        **dict.fromkeys(
            ("/", "/home", "/home/u", "/data", "/data/deep", "/etc", "/srv"), "directory"
        ),
        **dict.fromkeys(("/srv/out", "/srv/app", "/opt/tool", "/var/lib/effectd"), "directory"),
        **dict.fromkeys(("/home/u/.netrc", "/data/f", "/srv/app/x", "/opt/tool/x"), "file"),
        **dict.fromkeys(("/var/lib/effectd/secrets/a", "/sys/fs/cgroup/cpu.max", "/far"), "file"),
        **dict.fromkeys(("/run/db/s", "/run/nscd/socket", "/run/effectd.sock"), "socket"),
    },
    links={"/etc/link": "/far", "/var/run/db/s": "/run/db/s"},
    kept=frozenset({"/srv/app/x", "/data/f"}),
    ports=frozenset({5432}),
)


def judged(*lines: str, policy: Policy = CLOSED, host: There = HOST) -> list[Denial]:
    judge = Judge(policy, host, 1000, init=INIT)
    for line in lines:
        judge.feed(f"{HANDLER} {line}")
    return judge.found


NETRC = "/home/u/.netrc"


def call(name: str, *paths: str, error: str, more: str = "") -> str:
    words = ", ".join(f'"{hexed(path)}"' for path in paths)
    return f"{name}({words}{more}) = -1 {error} (said)"


def at(name: str, path: str, *, error: str, more: str = "", folder: str = "/tmp") -> str:
    return f'{name}(AT_FDCWD<{hexed(folder)}>, "{hexed(path)}"{more}) = -1 {error} (said)'


def wanted(found: list[Denial]) -> list[tuple[str, str]]:
    return [(one.key, one.value) for one in found]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (at("openat", NETRC, error="ENOENT", more=", O_RDONLY"), ("read", NETRC)),
        (call("open", NETRC, error="ENOENT", more=", O_RDONLY"), ("read", NETRC)),
        (at("newfstatat", "/data/f", error="ENOENT"), ("read", "/data/f")),
        (call("execve", "/data/f", error="ENOENT"), ("read", "/data/f")),
        (call("chdir", "/data", error="ENOENT"), ("read", "/data")),
        (at("openat", "f", error="ENOENT", more=", O_RDONLY", folder="/data"), ("read", "/data/f")),
        (at("openat", "../data/./f", error="ENOENT", folder="/srv"), ("read", "/data/f")),
        (at("openat", "/etc/link", error="ENOENT", more=", O_RDONLY"), ("read", "/far")),
        (at("openat", "/data/f", error="ENOENT", more=", O_WRONLY|O_CREAT"), ("write", "/data/f")),
        (at("openat", "/data/new", error="ENOENT", more=", O_RDWR|O_CREAT"), ("write", "/data")),
        (at("openat", "/opt/tool/new", error="EROFS", more=", O_CREAT"), ("write", "/opt/tool")),
        (at("openat", "/opt/tool/x", error="EROFS", more=", O_WRONLY"), ("write", "/opt/tool/x")),
        (call("mkdir", "/data/new", error="ENOENT"), ("write", "/data")),
        (call("unlink", "/data/f", error="ENOENT"), ("write", "/data")),
        (call("rename", "/opt/tool/x", "/opt/tool/y", error="EROFS"), ("write", "/opt/tool")),
        (call("symlink", "anything", "/data/new", error="ENOENT"), ("write", "/data")),
        (call("chmod", "/opt/tool/x", error="EROFS", more=", 0644"), ("write", "/opt/tool/x")),
        (at("faccessat", "/opt/tool", error="EROFS", more=", W_OK"), ("write", "/opt/tool")),
    ],
)
def test_a_path_is_wanted_for_what_the_call_would_do(line: str, expected: tuple[str, str]) -> None:
    assert wanted(judged(line)) == [expected]


@pytest.mark.parametrize(
    "line",
    [
        at("openat", "/nowhere", error="ENOENT"),  # outside it fails as well
        at("openat", "/data/f", error="EISDIR"),  # not a denial's error
        at("openat", "/srv/app/gone", error="ENOENT"),  # shown, and not there
        at("openat", "/data/none/new", error="ENOENT", more=", O_CREAT"),  # no such directory
        call("mkdir", "/data", error="EROFS"),  # outside it fails as well: it is there
        call("mkdir", "/home", error="EROFS"),
        at("openat", "/sys/fs/cgroup/cpu.max", error="ENOENT"),  # habit
        at("openat", "/srv/out/x", error="ENOENT", more=", O_WRONLY"),  # declared, not there
        "clone3({flags=CLONE_VM}, 88) = -1 ENOSYS (said)",  # and then clone(2)
        'openat(AT_FDCWD, "", O_RDONLY) = -1 ENOENT (said)',
        "wait4(-1, 0x1, 0, NULL) = -1 ECHILD (said)",
        at("openat", "/home/u/.netrc", error="ENOENT").replace("-1 ENOENT (said)", "3"),
    ],
)
def test_what_the_sandbox_did_not_deny_is_not_told(line: str) -> None:
    assert judged(line) == []


def test_what_init_itself_does_is_not_told() -> None:
    judge = Judge(CLOSED, HOST, 1000, init=INIT)
    judge.feed(f"{INIT} " + at("openat", "/home/u/.netrc", error="ENOENT"))
    assert judge.found == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (at("openat", "/var/lib/effectd/secrets/a", error="ENOENT"), "effectd's own"),
        (at("openat", "/run/credentials/token", error="ENOENT"), "does not declare this secret"),
        (at("openat", "/srv/app/x", error="EACCES"), "may not read it"),
        (at("openat", "/home", error="ENOENT", more=", O_RDONLY|O_DIRECTORY"), "too broad"),
        (at("openat", "/home/u", error="ENOENT", more=", O_DIRECTORY"), "too broad"),
        (at("openat", "/etc/new", error="EROFS", more=", O_CREAT"), "whole system's"),
        (at("openat", "/srv/out/x", error="EROFS", more=", O_CREAT"), "read-only outside too"),
        ("unshare(CLONE_NEWUSER) = -1 EPERM (said)", "new namespaces"),
        ("clone(child_stack=NULL, flags=CLONE_NEWNS|SIGCHLD) = -1 EPERM (said)", "new namespaces"),
        ("ptrace(PTRACE_TRACEME) = -1 EPERM (said)", "another's memory"),
        ("setuid(0) = -1 EINVAL (said)", "another user"),
        (call("chown", "/srv/out/x", error="EINVAL", more=", 5, 5"), "only one user exists"),
        ("socket(AF_ALG, SOCK_SEQPACKET, 0) = -1 EAFNOSUPPORT (said)", "every sandbox"),
        ("socket(AF_INET, SOCK_RAW, 1) = -1 EPERM (said)", "every sandbox"),
        ("socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT) = -1 EPERM (said)", "every sandbox"),
        ("socketpair(AF_UNIX, SOCK_DGRAM, 0, 0x1) = -1 EPERM (said)", "every sandbox"),
        (f'write(5<{hexed("/tmp/big")}>, ""..., 4096) = -1 ENOSPC (said)', "64 MiB"),
        ("--- SIGSYS {si_signo=SIGSYS, si_syscall=__NR_bpf} ---", "another architecture"),
    ],
)
def test_what_no_key_allows_is_told_with_the_reason(line: str, words: str) -> None:
    [denial] = judged(line)
    assert denial.key == ""
    assert words in denial.why


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("clone(child_stack=NULL, flags=SIGCHLD) = -1 EAGAIN (said)", "tasks_max"),
        ("clone3({flags=CLONE_VM}, 88) = -1 EAGAIN (said)", "tasks_max"),
        ("vfork() = -1 EAGAIN (said)", "tasks_max"),
        (at("openat", "/srv/app/x", error="EMFILE"), "files_max"),
        ("socket(AF_INET, SOCK_STREAM, 0) = -1 EMFILE (said)", "files_max"),
        ("pipe2(0x1, 0) = -1 EMFILE (said)", "files_max"),
        (f'write(5<{hexed("/srv/out/x")}>, ""..., 4096) = -1 EFBIG (said)', "file_size_max"),
        ("--- SIGXFSZ {si_signo=SIGXFSZ} ---", "file_size_max"),
        ("--- SIGXCPU {si_signo=SIGXCPU} ---", "cpu_max_ms"),
    ],
)
def test_a_limit_that_was_met_is_named(line: str, key: str) -> None:
    assert [one.key for one in judged(line)] == [key]


def inet(address: str, port: int) -> str:
    return f'{{sa_family=AF_INET, sin_port=htons({port}), sin_addr=inet_addr("{hexed(address)}")}}'


def connect(peer: str, result: str, name: str = "connect") -> str:
    return f"{name}(4<{hexed('socket:[9]')}>, {peer}, 16) = {result}"


@pytest.mark.parametrize(
    "lines",
    [
        [connect(inet("192.0.2.1", 443), "-1 ENETUNREACH (said)")],
        [connect(inet("127.0.0.1", 5432), "-1 ECONNREFUSED (said)")],
        [connect(inet("192.0.2.53", 53), "-1 ENETUNREACH (said)")],
        ["socket(AF_INET, SOCK_STREAM, 0) = -1 EAFNOSUPPORT (said)"],
        ["socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE) = -1 EAFNOSUPPORT (said)"],
        [  # a stub resolver: connecting works, the answer is the refusal
            connect(inet("127.0.0.53", 53), "0"),
            f"recvfrom(4<{hexed('socket:[9]')}>, 0x1, 1024, 0, NULL, NULL) = -1 ECONNREFUSED (x)",
        ],
        [  # not waited for: how it went is asked later
            connect(inet("127.0.0.1", 5432), "-1 EINPROGRESS (said)"),
            f"getsockopt(4<{hexed('socket:[9]')}>, SOL_SOCKET, SO_ERROR, [ECONNREFUSED], [4]) = 0",
        ],
    ],
)
def test_what_needs_the_network_asks_for_it_only_without_one(lines: list[str]) -> None:
    assert wanted(judged(*lines)) == [("network", "host")]
    assert [one for one in judged(*lines, policy=OPEN) if one.key == "network"] == []


def test_a_port_on_which_nobody_listens_is_no_denial() -> None:
    assert judged(connect(inet("127.0.0.1", 9), "-1 ECONNREFUSED (said)")) == []


def unix(path: str, error: str, name: str = "connect", mark: str = "") -> str:
    return connect(f'{{sa_family=AF_UNIX, sun_path={mark}"{hexed(path)}"}}', error, name)


def test_a_unix_socket_is_named_by_its_real_path() -> None:
    assert wanted(judged(unix("/var/run/db/s", "-1 ENOENT (x)"))) == [("unix", "/run/db/s")]


@pytest.mark.parametrize(
    "line",
    [
        unix("/run/nscd/socket", "-1 ENOENT (x)"),  # habit
        unix("/run/none", "-1 ENOENT (x)"),  # nobody is there
        unix("/run/db/s", "0"),
    ],
)
def test_a_unix_socket_that_nobody_misses_is_not_told(line: str) -> None:
    assert judged(line) == []


def test_the_daemons_own_socket_is_never_suggested() -> None:
    policy = CLOSED._replace(hidden=("/run/effectd.sock",))
    [denial] = judged(unix("/run/effectd.sock", "-1 ENOENT (x)"), policy=policy)
    assert denial.key == ""


def test_an_abstract_socket_and_one_of_its_own_are_explained() -> None:
    [abstract] = judged(unix("bus", "-1 ECONNREFUSED (x)", mark="@"))
    assert "abstract" in abstract.why
    [own] = judged(unix("/tmp/own", "0", name="bind"))
    assert "declares none" in own.why
    declared = CLOSED._replace(unix=("/run/db/s",))
    assert judged(unix("/tmp/own", "0", name="bind"), policy=declared) == []


def test_a_socket_that_was_refused_before_it_could_say_for_whom_has_no_value() -> None:
    line = "socket(AF_UNIX, SOCK_STREAM, 0) = -1 EAFNOSUPPORT (said)"
    assert wanted(judged(line)) == [("unix", "")]


def test_relative_paths_follow_the_directory_that_the_process_went_to() -> None:
    host = HOST._replace(kinds={**HOST.kinds, "/srv/app/sub/f": "file"})
    policy = CLOSED._replace(visible=())
    found = judged(
        f'chdir("{hexed("/srv/app")}") = 0',
        f'chdir("{hexed("sub")}") = 0',
        call("open", "f", error="ENOENT", more=", O_RDONLY"),
        policy=policy,
        host=host,
    )
    assert wanted(found) == [("read", "/srv/app/sub/f")]


def test_looking_at_a_directory_on_the_way_is_no_wish_for_all_of_it() -> None:
    found = judged(
        at("newfstatat", "/data", error="ENOENT"), at("openat", "/data/f", error="ENOENT")
    )
    assert wanted(found) == [("read", "/data/f")]
    listed = at("openat", "/data", error="ENOENT", more=", O_RDONLY|O_DIRECTORY")
    found = judged(listed, at("openat", "/data/f", error="ENOENT"))
    assert wanted(found) == [("read", "/data")]


def test_what_was_looked_for_below_a_directory_to_make_is_wanted_to_write() -> None:
    found = judged(at("newfstatat", "/data", error="ENOENT"), call("mkdir", "/data", error="EROFS"))
    assert wanted(found) == [("write", "/data")]


def test_each_denial_is_told_once_and_there_is_an_end() -> None:
    line = at("openat", "/home/u/.netrc", error="ENOENT")
    assert len(judged(*[line] * 50)) == 1
    host = HOST._replace(kinds={f"/d{n}/f": "file" for n in range(500)})
    many = [at("openat", f"/d{n}/f", error="ENOENT") for n in range(500)]
    assert len(judged(*many, host=host)) == 200


def test_what_the_handlers_user_may_not_is_said_beside_the_key() -> None:
    [denial] = judged(at("openat", "/data/f", error="ENOENT", more=", O_RDONLY"))
    assert "uid 1000" in denial.fix
