"""Carries out the steps of a plan inside a new sandbox. See `plan` for who decides them.

A template builds the root once: sources are opened while the host is still in view, as detached
copies of their mounts; only then does the new root grow, so that it may stand anywhere, even over
a directory that is exposed. The steps of one attempt go on in that root, in mounts of their own.
"""

# The launcher loads next to nothing: each module it has is copied, page by page, into every
# sandbox. So no typing, pathlib, contextlib or collections at run time.
# ruff: noqa: PTH102, PTH110, PTH115, PTH116, PTH211, SIM105

from __future__ import annotations

import os
import resource
import stat

from sandbox import landlock, linux, seccomp, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# The new root grows here. Any directory that is surely there would do: it hides nothing, since
# the sources are open by then.
BASE = b"/tmp"
READ_ONLY, FOLLOW, OPTIONAL = 1, 2, 4

_TMPFS = linux.MS_NOSUID | linux.MS_NODEV
_sources: dict[bytes, tuple[int, bytes | int]] = {}
# What stands before every path: `BASE` from `begin` to `finish`, nothing once that is the root.
_prefix: list[bytes] = [b""]


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
    _prefix[0] = BASE


def attach(path: bytes) -> None:
    """Put what `open_source` holds at the same path of the new root."""
    if path not in _sources:
        return  # optional, and not there
    mode, source = _sources.pop(path)
    target = _prefix[0] + path
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
    os.symlink(text, _prefix[0] + path)


def directory(mode: bytes, path: bytes) -> None:
    target = _prefix[0] + path
    try:
        os.mkdir(target, int(mode, 8))
    except FileNotFoundError:
        _parents(target)
        os.mkdir(target, int(mode, 8))


def memory(options: bytes, path: bytes) -> None:
    """A private file system in memory; it is gone with the sandbox."""
    target = _prefix[0] + path
    _place(target, is_directory=True)
    linux.mount(b"tmpfs", target, b"tmpfs", _TMPFS, options)


def proc() -> None:
    """The caller's own pid namespace. The kernel allows it only beside a procfs of which nothing
    is covered, so a template has one too, for its attempts' sake."""
    target = _prefix[0] + b"/proc"
    _place(target, is_directory=True)
    linux.mount(b"proc", target, b"proc", _TMPFS | linux.MS_NOEXEC, b"")


def hide(path: bytes) -> None:
    """Stand something empty in the place of ``path``, if the new root shows it."""
    target = _prefix[0] + path
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
    empty = _prefix[0] + b"/.hidden"
    if not os.path.exists(empty):
        os.close(os.open(empty, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0))
    linux.mount(empty, target, None, linux.MS_BIND, b"")
    # Every attempt of a template shows the same one, and its owner is the handler: what an attempt
    # could change of it, the next would find.
    linux.set_mount_attributes(linux.ATTR_RDONLY, path=target)


def finish() -> None:
    """Enter the new root and leave no way back."""
    os.chdir(BASE)
    linux.pivot_here()
    os.chdir(b"/")
    # Slave until here; private from here, or a mount made later under an exposed directory of the
    # host would arrive in the finished sandbox, writable.
    linux.mount(None, b"/", None, linux.MS_REC | linux.MS_PRIVATE, b"")
    linux.set_mount_attributes(linux.ATTR_RDONLY, path=b"/")
    _prefix[0] = b""


def enter(path: bytes) -> None:
    """Work from ``path``, which must be looked up anew when something was mounted on it."""
    os.chdir(path)


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


def new_cgroup_namespace() -> None:
    """From inside its cgroup, so that this is all that the sandbox sees of the hierarchy."""
    linux.new_namespace(linux.CLONE_NEWCGROUP)


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
    b"enter": enter,
    b"new_cgroup_namespace": new_cgroup_namespace,
    b"loopback": linux.loopback_up,
    b"hostname": linux.set_hostname,
    b"limit": limit,
    b"drop_capabilities": drop_capabilities,
    b"limit_capabilities": linux.limit_capabilities,
    b"no_new_privs": no_new_privs,
    b"landlock": landlock.begin,
    b"landlock_allow": landlock.allow,
    b"landlock_enforce": landlock.enforce,
    b"filter": seccomp.take,
    b"seccomp": seccomp.enforce,
}
"""Every step that a plan may name."""


class StepFailed(Exception):  # noqa: N818 - what it is
    """A layer that the sandbox cannot do without could not be built."""

    def __init__(self, layer: bytes, number: int, what: bytes) -> None:
        self.layer = layer
        self.errno = number
        self.what = what


def unpacked(plan: bytes) -> list[tuple[bytes, bool, bytes, list[bytes]]]:
    """The steps of a packed plan: layer, whether the sandbox may do without it, name, arguments."""
    steps: list[tuple[bytes, bool, bytes, list[bytes]]] = []
    for packed in wire.unpack_list(plan):
        layer, name, *arguments = wire.unpack_list(packed)
        steps.append((layer.rstrip(b"?"), layer.endswith(b"?"), name, arguments))
    return steps


def carry_out(steps: list[tuple[bytes, bool, bytes, list[bytes]]]) -> list[bytes]:
    """The layers in force afterwards, in order; `StepFailed` at the first that must not lack."""
    layers: dict[bytes, bool] = {}
    for layer, optional, name, arguments in steps:
        if not layers.setdefault(layer, True):
            continue  # an earlier step of this layer failed, and the sandbox may do without
        try:
            STEPS[name](*arguments)
        except OSError as error:
            layers[layer] = False
            if not optional:
                what = b" ".join((name, *arguments))
                raise StepFailed(layer, error.errno or 0, what[:1024]) from None
    return [layer for layer, in_force in layers.items() if in_force]


def _parents(target: bytes) -> None:
    at = target.find(b"/", len(_prefix[0]) + 1)
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
