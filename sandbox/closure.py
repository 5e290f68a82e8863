"""What must be visible for a command to start, when nothing is declared: the closure of argv[0].

Its symbolic links and ``#!`` interpreters are followed; what lies outside the system directories is
exposed by the directory it stands in, never by a directory that holds other people's things.

Every path of a closure is real apart from its last name: nothing is exposed *through* a link, for
while a new root is built an absolute link in it leads to the host.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Collection
from pathlib import Path

import attrs

from frozen import frozen
from sandbox import elf, layouts, scarce, shebang
from sandbox.plan import SYSTEM
from sandbox.spec import DEFAULT_ENVIRONMENT

BROAD = frozenset(
    (
        *("/", "/dev/shm", "/home", "/media", "/mnt", "/root", "/run", "/srv", "/tmp", "/var"),  # noqa: S108
        *("/var/lib", "/var/tmp"),  # noqa: S108
    )
)
"""Directories that hold many strangers' things: never exposed as a whole."""

_CHAIN_MAX = 64
_LINKS_MAX = 40  # as many as the kernel follows
_NODES = frozenset({"node", "nodejs", "bun", "deno", "tsx", "ts-node"})
_SCRIPTS = frozenset({".js", ".mjs", ".cjs", ".ts", ".mts", ".cts"})


@frozen
class Closure:
    """``chain``: every path that exec touches, the command first (what a digest and a staleness
    check cover). ``paths``: what to expose for it, directories, files and links. ``warnings``: for
    the person who declared it. ``looked``: all whose change would make another closure."""

    chain: tuple[str, ...]
    paths: tuple[str, ...]
    warnings: tuple[str, ...]
    looked: tuple[str, ...] = ()


def closure(
    command: str,
    *,
    home: str | None = None,
    search_path: str = DEFAULT_ENVIRONMENT["PATH"],
    alone: Collection[str] = (),
) -> Closure:
    """The closure of an absolute ``command``. Reads the file system; a missing part is a warning.

    ``home`` is a directory that is never exposed as a whole (default: the caller's).
    ``search_path`` is the PATH that ``#!/usr/bin/env`` will see. Of the directories ``alone`` only
    the program's own file is exposed, and nobody is warned of that.
    """
    homes = {home} if home is not None else _homes()
    search = _Search(search_path, frozenset(BROAD | homes), frozenset(homes), frozenset(alone))
    search.follow(Path(command))
    return search.result()


@attrs.define
class _Search:
    """What has been found of one command's closure."""

    search_path: str
    broad: frozenset[str]
    homes: frozenset[str]
    alone: frozenset[str]
    chain: dict[Path, None] = attrs.field(factory=dict[Path, None])
    paths: set[Path] = attrs.field(factory=set[Path])
    warnings: dict[str, None] = attrs.field(factory=dict[str, None])
    looked: dict[Path, None] = attrs.field(factory=dict[Path, None])

    def result(self) -> Closure:
        kept = {path for path in self.paths if not self.paths.intersection(path.parents)}
        return Closure(
            tuple(map(str, self.chain)),
            tuple(sorted(map(str, kept))),
            tuple(self.warnings),
            tuple(map(str, {**self.chain, **self.looked})),
        )

    def follow(self, command: Path) -> None:
        """The command, what interprets it, what interprets that."""
        waiting = [command]
        while waiting and len(self.chain) < _CHAIN_MAX:
            path = waiting.pop(0)
            if path in self.chain:
                continue
            self.chain[path] = None
            try:
                file = self._found(path)
                named = shebang.interpreters(file, self.search_path)
                self._belongings(file, named)
            except OSError as error:
                if error.errno in scarce.FILES:
                    raise  # that says nothing of the file
                self.warnings[f"{path}: {error.strerror}"] = None
                continue
            waiting += named

    # --- where it is

    def _found(self, path: Path) -> Path:
        """The real file, with all links on the way to it; its directory and theirs are exposed."""
        links, file = _walk(path)
        for link in links:
            self.looked[link] = None
            if link.is_dir():
                # Only the way: what it leads to is exposed where it really is.
                self._expose(link)
            else:
                self.chain[link] = None
                self._folder_of(link, warn=False)
        self.chain[file] = None
        self._folder_of(file, warn=True)
        return file

    def _folder_of(self, path: Path, *, warn: bool) -> None:
        folder = path.parent
        if str(folder) in self.alone:
            self._expose(path)
        elif self._is_broad(folder):
            self._expose(path)
            if warn and not _is_system(path):
                self.warnings[
                    f"{path}: only this file is visible to the handler, not {folder}:"
                    " put it in a folder of its own if it needs what lies beside it"
                ] = None
        elif folder.name == "bin":
            self._prefix(folder.parent)
            self._expose(path)
        else:
            self._expose(folder)

    def _is_broad(self, folder: Path) -> bool:
        """A home, or a directory in one whose name begins with a dot, is its owner's alone."""
        if str(folder) in self.broad or folder.parent == Path("/home"):
            return True
        at_home = str(folder.parent) in self.homes or folder.parent.parent == Path("/home")
        return folder.name.startswith(".") and (at_home or str(folder.parent) == "/root")

    def _expose(self, path: Path) -> None:
        if not _is_system(path):
            self.paths.add(path)

    # --- what belongs to it

    def _belongings(self, file: Path, interpreters: list[Path]) -> None:
        if not interpreters:
            self._compiled(file)
        if file.suffix in _SCRIPTS or any(one.name in _NODES for one in interpreters):
            for folder in layouts.node_package(file):
                self._node(folder)
        if any(one.name.startswith("python") for one in interpreters):
            self._user_site(file, interpreters)

    def _prefix(self, prefix: Path) -> None:
        """The parts of an installation, and of the interpreter that a venv in it is based on."""
        for part in layouts.prefix_parts(prefix):
            self._real(part)
        self.looked[prefix / "pyvenv.cfg"] = None
        base = layouts.base_prefix(prefix)
        if base is None:
            return
        for part in layouts.prefix_parts(base):
            self._real(part)
        for file, place in layouts.elsewhere(prefix):
            self.looked[file] = None
            if not _is_system(place):
                self.warnings[
                    f"{file}: its packages lie in {place}, which the handler does not see:"
                    " name that in [sandbox] read if it needs them"
                ] = None

    def _real(self, path: Path) -> None:
        """Expose ``path`` where it really is, with the links that lead there."""
        try:
            links, real = _walk(path)
        except OSError:
            return
        for link in links:
            self.looked[link] = None
            self._expose(link)
        if not self._is_broad(real):
            self._expose(real)

    def _compiled(self, file: Path) -> None:
        """Its loader, and its libraries when they are not the system's."""
        needs = elf.needs(file)
        if needs.loader is not None and not _is_system(needs.loader):
            self._real(needs.loader)
        for place in needs.places:
            if not place.is_dir() or _is_system(place):
                continue
            if self._is_broad(place.resolve()):
                for name in needs.libraries:
                    self._real(place / name)
            else:
                self._real(place)

    def _node(self, folder: Path) -> None:
        if not self._is_broad(folder):
            self._expose(folder)
            return
        for name in ("package.json", "node_modules"):
            if (folder / name).exists():
                self._real(folder / name)

    def _user_site(self, file: Path, interpreters: list[Path]) -> None:
        base = layouts.user_base(file)
        if base is not None and all(_is_system(one) for one in interpreters):
            self.warnings[
                f"{file}: its packages were installed for one user, whose home is not the"
                f' handler\'s: set env = {{ PYTHONUSERBASE = "{base}" }}'
            ] = None


def _homes() -> set[str]:
    """The caller's, by the environment and by the user database; a uid may have none."""
    found = {os.environ.get("HOME", "/")}
    with contextlib.suppress(KeyError):
        found.add(pwd.getpwuid(os.getuid()).pw_dir)
    return found


def _walk(path: Path) -> tuple[list[Path], Path]:
    """The links on the way, each by its real directory, and the real path. Raises OSError."""
    links: list[Path] = []
    todo = list(reversed(path.parts[1:]))
    here = Path("/")
    while todo:
        part = todo.pop()
        if part == "..":
            here = here.parent
            continue
        step = here / part
        if not stat.S_ISLNK(step.lstat().st_mode):
            here = step
            continue
        links.append(step)
        if len(links) > _LINKS_MAX:
            step.stat()  # raises ELOOP in the kernel's words
        target = step.readlink()
        here = Path("/") if target.is_absolute() else here
        todo += reversed([word for word in target.parts if word != "/"])
    return links, here


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(root) for root in SYSTEM)
