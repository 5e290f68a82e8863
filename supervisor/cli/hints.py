"""Why was it denied? What a failed attempt's stderr tells about the sandbox.

The paths are looked up as the user who asks, in this process: the daemon is no oracle for what
exists on the host. It is a guess from words; `handlers try` knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from supervisor.cli.denials.files import FileRule, Want
from supervisor.cli.denials.outside import Host
from supervisor.cli.denials.values import FOREIGN, Denial, Outside, Policy

MOST = 5
# The tail is bounded where it is stored; a line of it need not be.
_LINE_MAX = 2_000

# How the C library, Python, Node, Go, Java, shells, git and perl say it.
_ERRORS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("EROFS", re.compile(r"read-only file ?system|\bEROFS\b", re.IGNORECASE)),
    ("EACCES", re.compile(r"permission denied|\bEACCES\b|AccessDenied", re.IGNORECASE)),
    ("EPERM", re.compile(r"operation not permitted|\bEPERM\b", re.IGNORECASE)),
    (
        "ENOENT",
        re.compile(
            r"no such file|\bENOENT\b|NoSuchFile|does not exist|nonexistent|not found"
            r"|cannot open|could(?: not|n't) open|can't open|does not appear to be"
            r"|(?:cannot|unable to) access|not a directory|bad interpreter",
            re.IGNORECASE,
        ),
    ),
)
_WRITES = re.compile(
    r"\b(?:creat(?:e|ing)|writ(?:e|ing)|mkdir|touch|unlink|rmdir|remov(?:e|ing)|rename|saving"
    r"|lock|mkstemp)\b",
    re.IGNORECASE,
)
# In quotes a path may hold anything but the quote; bare, it ends where a sentence goes on.
_PATH = re.compile(
    r"""'(/[^']+)'|"(/[^"]+)"|[\u2018`](/[^'\u2019`]+)['\u2019`]"""
    r"""|(?<![\w:/.'"\u2018`])(/[\w.@%+=~-]+(?:/[\w.@%+=,~-]+)*)"""
)
_HERE = re.compile(r"127\.\d+\.\d+\.\d+|::1|localhost", re.IGNORECASE)
_PORT = re.compile(r"\bport[ =](\d{1,5})\b|(?:127\.\d+\.\d+\.\d+|::1\]|localhost):(\d{1,5})\b")
_REFUSED = re.compile(r"ECONNREFUSED|connection refused|failed to connect", re.IGNORECASE)


class _Phrase(NamedTuple):
    """Words, and what they mean inside; `only` names the network for which they do."""

    said: re.Pattern[str]
    hint: str
    only: Literal["", "none"] = ""


def _phrase(said: str, hint: str, only: Literal["", "none"] = "") -> _Phrase:
    return _Phrase(re.compile(said, re.IGNORECASE), hint, only)


PHRASES = (
    _phrase(
        r"network is unreachable|\bENETUNREACH\b|name resolution|EAI_AGAIN|getaddrinfo"
        r"|could not resolve host|name or service not known|UnknownHostException"
        r"|cannot assign requested address|no address associated|dial tcp: lookup",
        'this handler has no network; if it needs it, set network = "host" in [sandbox]',
        only="none",
    ),
    _phrase(
        r"address family not supported|\bEAFNOSUPPORT\b",
        "a kind of socket is refused inside; a Unix socket is declared with unix = [...] in"
        " [sandbox]",
    ),
    _phrase(
        r"(?:unshare|setns|namespace|clone|mount|pivot_root|chroot|bwrap|ptrace|strace)\b.*"
        r"(?:operation not permitted|\bEPERM\b|function not implemented)"
        r"|(?:operation not permitted).*\bnamespace",
        "namespaces, mounts and looking into other processes are refused in every sandbox",
    ),
    _phrase(
        r"bad system call|\bSIGSYS\b",
        FOREIGN,
    ),
    _phrase(
        r"effective uid is not 0|must be (?:setuid|suid) root|no new privileges"
        r"|(?:chown|changing ownership)\b.*(?:not permitted|invalid argument)",
        "a handler cannot become another user or give files to one: only one exists inside",
    ),
    _phrase(
        r"too many open files|\bEMFILE\b",
        "it had as many files open as files_max in [sandbox] allows",
    ),
    _phrase(
        r"(?:fork|clone|thread|spawn|BlockingIOError).*"
        r"(?:resource temporarily unavailable|\bEAGAIN\b)"
        r"|can't start new thread|cannot fork|unable to create (?:new )?native thread",
        "it had as many processes and threads as tasks_max in [sandbox] allows",
    ),
    _phrase(
        r"no space left on device|\bENOSPC\b",
        "inside, /tmp holds 64 MiB; for more, declare a directory with write = [...] in [sandbox]"
        " and set TMPDIR to it",
    ),
    _phrase(
        r"file too large|\bEFBIG\b",
        "a file would grow beyond file_size_max in [sandbox]",
    ),
    _phrase(
        r"cannot allocate memory|\bENOMEM\b|MemoryError|heap out of memory|OutOfMemoryError",
        "it may have met memory_max in [sandbox]",
    ),
)
OF_SIGNALS = {
    24: "it used more processor time than cpu_max_ms in [sandbox] allows",
    25: "a file grew beyond file_size_max in [sandbox]",
    31: FOREIGN,
}
"""By the number of the signal that ended it: SIGXCPU, SIGXFSZ, SIGSYS."""


def hints(
    stderr: str, policy: Policy, outside: Outside | None = None, *, signal: int = 0
) -> list[str]:
    """What the end of a failed attempt suggests, most likely causes only, each once."""
    seen = outside or Host.of_caller()
    found: dict[str, None] = {}
    for line in stderr.splitlines():
        for denial in _of_paths(line[:_LINE_MAX], policy, seen):
            found[_worded(denial)] = None
    if signal in OF_SIGNALS:
        found[OF_SIGNALS[signal]] = None
    for phrase in PHRASES:
        if phrase.said.search(stderr) and phrase.only in {"", policy.network}:
            found[phrase.hint] = None
    port = _refused_port(stderr)
    if port is not None and policy.network == "none" and seen.listens(port):
        found[
            f"something listens on port {port} outside, but loopback inside is the sandbox's own;"
            ' network = "host" in [sandbox] shares the host\'s'
        ] = None
    return list(found)[:MOST]


def _of_paths(line: str, policy: Policy, outside: Outside) -> Iterator[Denial]:
    error = next((name for name, said in _ERRORS if said.search(line)), "")
    if not error:
        return
    rule = FileRule(policy, outside, 0)
    want: Want = "create" if error == "EROFS" or _WRITES.search(line) else "read"
    for groups in _PATH.findall(line):
        path = next(one for one in groups if one)
        denial = rule.judge_path(path.rstrip(".,;:)"), want, error, path)
        if denial is not None:
            yield denial


def _worded(denial: Denial) -> str:
    if denial.key == "read":
        return f"{denial.value} exists but is hidden from this handler; add it to {_in('read')}"
    if denial.key == "write":
        return f"{denial.why}; add {denial.value} to {_in('write')}"
    path = denial.call.partition(": ")[0]
    why = denial.why if path in denial.why else f"{path}: {denial.why}"
    return f"{why}. {denial.fix}".rstrip()


def _in(key: str) -> str:
    return f"{key} = [...] in [sandbox]"


def _refused_port(stderr: str) -> int | None:
    """The port of this host on which nobody was found, by any line that says so."""
    for line in stderr.splitlines():
        said = line[:_LINE_MAX]
        port = _PORT.search(said)
        if port is not None and _REFUSED.search(said) and _HERE.search(said):
            return int(port[1] or port[2])
    return None
