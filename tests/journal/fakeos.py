"""A disk that forgets: every state that a power cut may leave, enumerated.

It keeps what a program sees (the page cache, the names) apart from what is on the disk.
A crash may keep any subset of the 512-byte sectors and of the directory changes that were
not yet synced, each in any version written since. Real kernels write whole pages, so a
write dirties its whole page; a failed sync leaves the page clean and the disk as it was.
"""

from __future__ import annotations

import errno
import itertools
import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from supervisor.journal.file import Os

SECTOR = 512
PAGE = 4096


class Inode:
    def __init__(self, disk: bytes = b"") -> None:
        self.cache = bytearray(disk)
        self.disk = bytes(disk)
        self.pending: list[tuple[int, bytes]] = []  # page offset, the page as written back
        self.links = 1

    def copy(self) -> Inode:
        new = Inode(self.disk)
        new.cache, new.pending, new.links = bytearray(self.cache), list(self.pending), self.links
        return new

    def versions(self) -> dict[int, list[bytes]]:
        """Each unsynced sector's possible contents, the oldest first."""
        found: dict[int, list[bytes]] = {}
        for offset, page in self.pending:
            for start in range(offset, offset + len(page), SECTOR):
                old = self.disk[start : start + SECTOR]
                new = page[start - offset : start - offset + SECTOR]
                seen = found.setdefault(start, [old.ljust(len(new), b"\0")])
                if new not in seen:
                    seen.append(new)
        return {start: seen for start, seen in found.items() if len(seen) > 1}

    def written_back(self) -> bytes:
        """What the disk shows once every dirty page was sent to it."""
        content = bytearray(self.disk.ljust(len(self.cache), b"\0"))
        for offset, page in self.pending:
            content[offset : offset + len(page)] = page
        return bytes(content)


class FakeOs(Os):
    """One directory, 0, and others below and beside it, whose files have their path for a name.

    `after` is called behind each call that changes something.
    """

    def __init__(self) -> None:
        self.inodes: dict[int, Inode] = {}
        self.names: dict[str, int] = {}
        self.durable_names: dict[str, int] = {}
        self.moves: list[tuple[str | None, str | None, int]] = []  # old name, new name, inode
        self.fds: dict[int, int] = {}
        self.below: dict[int, str] = {}  # descriptors of directories, which are negative
        self.sticky = False  # dropping clean pages does not work (they are in use)
        self.far = False  # the other directories are on another file system
        self.before: Callable[[str], None] = lambda call: None
        self.after: Callable[[str], None] = lambda call: None
        self._number = 1000

    # The calls.

    def lock(self, fd: int) -> None: ...

    def unlock(self, fd: int) -> None: ...

    def open_directory(self, path: Path, *, create: bool) -> int:
        self.before("open_directory")
        parts = path.parts[1:]  # the first is the journal's own
        if not parts:
            return 0
        return self.place("/".join(parts) + "/")

    def listdir(self, directory: int) -> list[str]:
        self.before("listdir")
        prefix = self.below.get(directory, "")
        inside = (n.removeprefix(prefix) for n in self.names if n.startswith(prefix))
        return sorted({name.split("/")[0] for name in inside})

    def subdirectory(self, directory: int, name: str) -> int:
        self.before("subdirectory")
        return self.place(self._path(directory, name) + "/")

    def place(self, prefix: str) -> int:
        """A descriptor of the directory whose files are named with this prefix."""
        known = next((fd for fd, place in self.below.items() if place == prefix), None)
        fd = -1 - len(self.below) if known is None else known
        self.below[fd] = prefix
        return fd

    def open(self, directory: int, name: str, *, create: bool = False) -> int:
        self.before("open")
        name = self._path(directory, name)
        self._number += 1
        if create:
            if name in self.names:
                raise FileExistsError(errno.EEXIST, "exists", name)
            self.inodes[self._number] = Inode()
            self._move(None, name, self._number)
        elif name not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        fd = self._number = self._number + 1
        self.fds[fd] = self.names[name]
        self.after("open")
        return fd

    def close(self, fd: int) -> None:
        self.fds.pop(fd, None)

    def links(self, fd: int) -> int:
        return self._inode(fd).links

    def exists(self, directory: int, name: str) -> bool:
        self.before("exists")
        return self._path(directory, name) in self.names

    def allocate(self, fd: int, size: int) -> None:
        self.before("allocate")
        inode = self._inode(fd)
        inode.cache.extend(bytes(max(0, size - len(inode.cache))))
        self.after("allocate")

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        self.before("pwrite")
        self.put(fd, data, offset)
        self.after("pwrite")
        return len(data)

    def put(self, fd: int, data: bytes, offset: int) -> None:
        inode = self._inode(fd)
        end = offset + len(data)
        inode.cache.extend(bytes(max(0, end - len(inode.cache))))
        inode.cache[offset:end] = data
        for page in range(offset // PAGE * PAGE, end, PAGE):
            inode.pending.append((page, bytes(inode.cache[page : page + PAGE])))

    def fdatasync(self, fd: int) -> None:
        self.before("fdatasync")
        self._sync(self._inode(fd))
        self.after("fdatasync")

    def fsync(self, fd: int) -> None:
        self.before("fsync")
        if fd > 0:
            self._sync(self._inode(fd))
        else:
            self._sync_names(fd)
        self.after("fsync")

    def _sync(self, inode: Inode) -> None:
        inode.disk, inode.pending = inode.written_back(), []

    def _sync_names(self, directory: int) -> None:
        """Those of one directory only; the others' changes stay to be lost."""
        inside = self.below.get(directory, "")
        kept: list[tuple[str | None, str | None, int]] = []
        for move in self.moves:
            name = move[0] or move[1] or ""
            if name[: name.rfind("/") + 1] == inside:
                _apply(self.durable_names, *move)
            else:
                kept.append(move)
        self.moves = kept

    def lose(self, fd: int, rng: random.Random) -> None:
        """What a failed sync leaves: pages that look clean, a disk that has some of them."""
        inode = self._inode(fd)
        inode.disk = _choose(inode, rng)
        inode.pending = []

    def rename(self, directory: int, old: str, new: str) -> None:
        self.before("rename")
        old, new = self._path(directory, old), self._path(directory, new)
        self._move(old, new, self.names[old])
        self.after("rename")

    def link(self, directory: int, name: str, place: int) -> None:
        self.before("link")
        if self.far:
            raise OSError(errno.EXDEV, "another file system", name)
        self._move(None, self._path(place, name), self.names[self._path(directory, name)])
        self.after("link")

    def unlink(self, directory: int, name: str) -> None:
        self.before("unlink")
        name = self._path(directory, name)
        self._named(name)
        self._move(name, None, self.names[name])
        self.after("unlink")

    def read_disk(self, directory: int, name: str) -> bytes:
        self.before("read_disk")
        return self._named(self._path(directory, name)).written_back()

    def read_cached(self, directory: int, name: str, *, most: int = -1) -> bytes:
        self.before("read_cached")
        inode = self._named(self._path(directory, name))
        return bytes(inode.cache if most < 0 else inode.cache[:most])

    def holds_only(self, directory: int, name: str, byte: bytes) -> tuple[int, bool]:
        self.before("holds_only")
        content = self._named(self._path(directory, name)).written_back()
        return len(content), content == byte * len(content)

    def is_cached(self, directory: int, name: str, content: bytes) -> bool:
        self.before("is_cached")
        inode = self._named(self._path(directory, name))
        if not self.sticky:
            inode.cache = bytearray(inode.written_back())
        return bytes(inode.cache) == content

    def _named(self, name: str) -> Inode:
        if name not in self.names:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        return self.inodes[self.names[name]]

    def _path(self, directory: int, name: str) -> str:
        return self.below.get(directory, "") + name

    def _inode(self, fd: int) -> Inode:
        return self.inodes[self.fds[fd]]

    def _move(self, old: str | None, new: str | None, ino: int) -> None:
        self.moves.append((old, new, ino))
        _apply(self.names, old, new, ino)

    # Crashes.

    def killed(self) -> FakeOs:
        """The process is gone, the kernel lives: all that was written is there, unsynced."""
        new = FakeOs()
        new.inodes = {ino: inode.copy() for ino, inode in self.inodes.items()}
        new.names, new.durable_names = dict(self.names), dict(self.durable_names)
        new.moves, new.sticky, new._number = list(self.moves), self.sticky, self._number
        new.far, new.below = self.far, dict(self.below)
        return new

    def power_cuts(self, rng: random.Random, limit: int) -> Iterator[FakeOs]:
        """Every state when there are at most `limit`, else that many drawn at random."""
        versions = {ino: inode.versions() for ino, inode in self.inodes.items()}
        sectors = [(ino, at, v) for ino, all_ in versions.items() for at, v in all_.items()]
        sizes = [(i, n) for i, n in self.inodes.items() if len(n.cache) != len(n.disk)]
        factors = [len(v) for _, _, v in sectors] + [2] * (len(sizes) + len(self.moves))
        if math.prod(factors) <= limit:
            picks = itertools.product(*(range(n) for n in factors))
        else:
            picks = (tuple(rng.randrange(n) for n in factors) for _ in range(limit))
        for pick in picks:
            yield self._image(pick, sectors, sizes)

    def _image(self, pick, sectors, sizes) -> FakeOs:
        chosen = iter(pick)
        contents = {i: bytearray(n.disk.ljust(len(n.cache), b"\0")) for i, n in self.inodes.items()}
        for ino, start, versions in sectors:
            version = versions[next(chosen)]
            contents[ino][start : start + len(version)] = version
        for ino, inode in sizes:
            if not next(chosen):
                del contents[ino][len(inode.disk) :]
        names = dict(self.durable_names)
        for move in self.moves:
            if next(chosen):
                _apply(names, *move)
        return from_contents({name: bytes(contents[ino]) for name, ino in names.items()})


def from_contents(contents: dict[str, bytes]) -> FakeOs:
    """A directory with these files, all of it durable."""
    new = FakeOs()
    for number, (name, content) in enumerate(contents.items(), 1):
        new.inodes[number] = Inode(content)
        new.names[name] = number
    new.durable_names = dict(new.names)
    return new


def contents_of(os_: FakeOs) -> dict[str, bytes]:
    return {name: bytes(os_.inodes[ino].cache) for name, ino in os_.names.items()}


def _apply(names: dict[str, int], old: str | None, new: str | None, ino: int) -> None:
    if old is not None and names.get(old) == ino:
        del names[old]
    if new is not None:
        names[new] = ino


def _choose(inode: Inode, rng: random.Random) -> bytes:
    content = bytearray(inode.disk.ljust(len(inode.cache), b"\0"))
    for start, versions in inode.versions().items():
        version = rng.choice(versions)
        content[start : start + len(version)] = version
    return bytes(content)
