"""Why was it denied? What a failed attempt's stderr tells about the sandbox.

The paths are looked up as the user who asks, in this process: the daemon is no oracle for
what exists on the host.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

DENIED = re.compile(
    r"No such file or directory|ENOENT|Permission denied|EACCES|Read-only file system|EROFS"
    r"|Operation not permitted|EPERM|cannot open|not found"
)
WRITING = re.compile(r"Read-only file system|EROFS")
PATH = re.compile(r"(?<![\w:/.])(/[\w.@%+=,~-]+(?:/[\w.@%+=,~-]+)*)")
MOST = 5

# Phrases of the C library and of common runtimes, with the key that would allow it.
NETWORK = (
    (
        re.compile(
            r"Network is unreachable|ENETUNREACH|[Nn]ame resolution|EAI_AGAIN|getaddrinfo"
            r"|Could not resolve host|Name or service not known"
        ),
        'this handler has no network; if it needs it, set network = "host" in [sandbox]',
    ),
    (
        re.compile(r"Address family not supported|EAFNOSUPPORT"),
        "a socket family is refused inside; a Unix socket is declared with unix in [sandbox]",
    ),
)


class Policy(NamedTuple):
    """What the handler may see beside the system, from its manifest as loaded."""

    network: str
    visible: tuple[str, ...]
    writable: tuple[str, ...]


def hints(
    stderr: str, policy: Policy, exists: Callable[[str], bool], system: Iterable[str]
) -> list[str]:
    """What the stderr of a failed attempt suggests, most likely causes only, each once."""
    found: dict[str, None] = {}
    shown = (*system, *policy.visible, *policy.writable)
    for line in stderr.splitlines():
        if not DENIED.search(line):
            continue
        for path in PATH.findall(line):
            hint = _of_path(path, policy, exists, shown, writing=bool(WRITING.search(line)))
            if hint:
                found[hint] = None
    for pattern, text in NETWORK:
        if pattern.search(stderr) and not (policy.network == "host" and "no network" in text):
            found[text] = None
    return list(found)[:MOST]


def _of_path(
    path: str,
    policy: Policy,
    exists: Callable[[str], bool],
    shown: tuple[str, ...],
    *,
    writing: bool,
) -> str:
    if writing:
        if _inside(path, policy.writable):
            return ""
        return f"{path} is read-only for this handler; add it to write = [...] in [sandbox]"
    if _inside(path, shown) or not exists(path):
        return ""
    return f"{path} exists but is hidden from this handler; add it to read = [...] in [sandbox]"


def _inside(path: str, directories: Iterable[str]) -> bool:
    return any(path == one or path.startswith(one.rstrip("/") + "/") for one in directories)


# What every sandbox shows of the host, beside the command's own closure.
SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt",
    "/nix/store", "/gnu/store", "/proc", "/dev", "/run/credentials",
)  # fmt: skip
