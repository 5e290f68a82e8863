"""Carries out the steps of a plan inside a new sandbox. See `plan` for who decides them.

Sources are opened while the host is still in view, as detached copies of their mounts; only then
is the new root built, so that it may stand anywhere, even over a directory that is exposed.
"""

# The launcher loads next to nothing: each module it has is copied, page by page, into every
# sandbox. So no typing, pathlib, contextlib or collections at run time.
# ruff: noqa: PTH102, PTH110, PTH115, PTH116, PTH211, SIM105

from __future__ import annotations

import os
import resource
import stat

from sandbox import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# The new root grows here. Any directory that is surely there would do: it hides nothing, since
# the sources are open by then.
BASE = b"/tmp"
READ_ONLY, FOLLOW, OPTIONAL = 1, 2, 4

_TMPFS = linux.MS_NOSUID | linux.MS_NODEV
_sources: dict[bytes, tuple[int, bytes | int]] = {}


def open_source(flags: bytes, path: bytes) -> None:
    """Take hold of ``path``: a copy of its mounts, or the text of a symbolic link."""
    wanted = int(flags)
    try:
        mode = os.stat(path, follow_symlinks=bool(wanted & FOLLOW)).st_mode
        if stat.S_ISLNK(mode):
            _sources[path] = (mode, os.readlink(path))
            return
        tree = linux.open_tree(path, follow=bool(wanted & FOLLOW))
    except FileNotFoundError:
        if wanted & OPTIONAL:
            return
        raise
    attributes = linux.ATTR_NOSUID | (linux.ATTR_RDONLY if wanted & READ_ONLY else 0)
    linux.set_mount_attributes(attributes, tree=tree)
    _sources[path] = (mode, tree)


def begin() -> None:
    """An empty root to build in. From here on the host's mounts no longer reach back."""
    linux.mount(None, b"/", None, linux.MS_REC | linux.MS_SLAVE, b"")
    linux.mount(b"tmpfs", BASE, b"tmpfs", _TMPFS, b"mode=755,size=1m,nr_inodes=4k")


def attach(path: bytes) -> None:
    """Put what `open_source` holds at the same path of the new root."""
    if path not in _sources:
        return  # optional, and not there
    mode, source = _sources.pop(path)
    target = BASE + path
    _parents(target)
    if isinstance(source, bytes):
        try:
            os.symlink(source, target)
        except FileExistsError:
            pass  # it lies in a directory that is exposed
        return
    _place(target, is_directory=stat.S_ISDIR(mode))
    linux.move_mount(source, target)
    os.close(source)


def link(text: bytes, path: bytes) -> None:
    os.symlink(text, BASE + path)


def directory(mode: bytes, path: bytes) -> None:
    _parents(BASE + path)
    os.mkdir(BASE + path, int(mode, 8))


def memory(options: bytes, path: bytes) -> None:
    """A private file system in memory; it is gone with the sandbox."""
    _place(BASE + path, is_directory=True)
    linux.mount(b"tmpfs", BASE + path, b"tmpfs", _TMPFS, options)


def proc() -> None:
    os.mkdir(BASE + b"/proc", 0o555)
    linux.mount(b"proc", BASE + b"/proc", b"proc", _TMPFS | linux.MS_NOEXEC, b"")


def hide(path: bytes) -> None:
    """Stand something empty in the place of ``path``, if the new root shows it."""
    target = BASE + path
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        return  # its target is what would be hidden
    if stat.S_ISDIR(mode):
        flags = _TMPFS | linux.MS_RDONLY | linux.MS_NOEXEC
        linux.mount(b"tmpfs", target, b"tmpfs", flags, b"mode=000,size=4k,nr_inodes=2")
        return
    empty = BASE + b"/.hidden"
    if not os.path.exists(empty):
        os.close(os.open(empty, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0))
    linux.mount(empty, target, None, linux.MS_BIND, b"")


def finish() -> None:
    """Enter the new root and leave no way back."""
    os.chdir(BASE)
    linux.pivot_here()
    os.chdir(b"/")
    # Slave until here; private from here, or a mount made later under an exposed directory of the
    # host would arrive in the finished sandbox, writable.
    linux.mount(None, b"/", None, linux.MS_REC | linux.MS_PRIVATE, b"")
    linux.set_mount_attributes(linux.ATTR_RDONLY, path=b"/")
    os.chdir(b"/tmp")


def limit(number: bytes, soft: bytes, hard: bytes) -> None:
    resource.setrlimit(int(number), (int(soft), int(hard)))


def oom_score(value: bytes) -> None:
    """Offer the handler to the OOM killer before the daemon."""
    fd = os.open(b"/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value)
    finally:
        os.close(fd)


def drop_capabilities() -> None:
    linux.drop_bounding_set()
    linux.limit_capabilities()


def no_new_privs() -> None:
    linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)


def nothing() -> None:
    """For a layer that stands already: clone(2) made it."""


STEPS: dict[bytes, Callable[..., None]] = {
    b"have": nothing,
    b"oom_score": oom_score,
    b"open": open_source,
    b"begin": begin,
    b"attach": attach,
    b"link": link,
    b"directory": directory,
    b"memory": memory,
    b"proc": proc,
    b"hide": hide,
    b"finish": finish,
    b"loopback": linux.loopback_up,
    b"hostname": linux.set_hostname,
    b"limit": limit,
    b"drop_capabilities": drop_capabilities,
    b"limit_capabilities": linux.limit_capabilities,
    b"no_new_privs": no_new_privs,
}
"""Every step that a plan may name."""


def _parents(target: bytes) -> None:
    at = target.find(b"/", len(BASE) + 1)
    while at > 0:
        try:
            os.mkdir(target[:at], 0o755)
        except FileExistsError:
            pass
        at = target.find(b"/", at + 1)


def _place(target: bytes, *, is_directory: bool) -> None:
    """Something to mount on. Inside an exposed directory it is there already."""
    if os.path.lexists(target):
        return
    if is_directory:
        os.mkdir(target, 0o755)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
