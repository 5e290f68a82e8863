"""Loading every manifest of the manifests directory, and noticing when one changes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from config.hidden import guarded, relation
from config.load.digest import Hashes, Stamp, artifacts_of, handler_digest, stamp_of
from config.load.files import explained, read_toml, require_private_writing
from config.load.names import home_of
from config.load.onefile import Handler, Programs, read_handler
from config.manifest import HANDLER_NAME
from config.problems import ConfigError, Fault, Problem, WrongValueError
from config.schema import Config
from frozen import frozen

SUFFIX: Final = ".toml"
Listing = Mapping[str, Stamp | None]


@frozen
class Handlers:
    """A mapping of handlers by name. `broken` are those whose manifest cannot be used, and why;
    nobody can run them, and they take no other down."""

    good: Mapping[str, Handler]
    broken: Mapping[str, ConfigError] = attrs.field(factory=dict[str, ConfigError])
    warnings: tuple[Problem, ...] = ()
    listing: Listing = attrs.field(factory=dict[str, "Stamp | None"], repr=False)

    def get(self, name: str) -> Handler | None:
        return self.good.get(name)

    def __getitem__(self, name: str) -> Handler:
        return self.good[name]

    def __contains__(self, name: object) -> bool:
        return name in self.good

    def __iter__(self) -> Iterator[str]:
        return iter(self.good)

    def __len__(self) -> int:
        return len(self.good)


@attrs.define
class Looking:
    """Whose files a load looks at, for who waits for it; the `dead` ones' do not answer."""

    dead: frozenset[str] = frozenset()
    at: str | None = None
    steps: int = 0

    def look(self, name: str) -> None:
        """The files of that handler come next."""
        self.at = name
        self.steps += 1


def load_handlers(
    config: Config,
    *,
    strict: bool = False,
    hashes: Hashes | None = None,
    looking: Looking | None = None,
) -> Handlers:
    """Every `NAME.toml` of the manifests directory.

    A broken one is set aside, and so is one that `looking` calls dead, unless `strict` (an
    explicit reload): then one `ConfigError` carries the problems of all. A directory that cannot
    be listed is always one; a missing one is no handlers and a warning.
    """
    hashes = Hashes() if hashes is None else hashes
    looking = Looking() if looking is None else looking
    programs = Programs(config)
    warnings: list[Problem] = []
    found = _listed(config.handlers_dir)
    if found is not None and not config.origin.dev:
        _require_private(config.handlers_dir)
    if found is None:
        warnings.append(_no_directory(config))
    listing: Listing = found or {}
    good: dict[str, Handler] = {}
    broken: dict[str, ConfigError] = {}
    for stem in listing:
        file = config.handlers_dir / f"{stem}{SUFFIX}"
        looking.look(stem)
        try:
            if stem in looking.dead:
                raise _unanswered(file)
            good[stem] = load_handler(config, file, hashes, programs)
        except ConfigError as error:
            broken[stem] = error
    for name, problems in rewriters(config, good, looking).items():
        broken[name] = ConfigError(problems)
        del good[name]
    if strict and broken:
        raise ConfigError(problem for error in broken.values() for problem in error.problems)
    warnings += [problem for handler in good.values() for problem in handler.warnings]
    return Handlers(good, broken, tuple(warnings), listing)


def load_handler(
    config: Config, file: Path, hashes: Hashes | None = None, programs: Programs | None = None
) -> Handler:
    """One manifest on its own, or `ConfigError` with all its problems. Whether it could
    rewrite another handler shows only when all are loaded."""
    hashes = Hashes() if hashes is None else hashes
    name = file.name.removesuffix(SUFFIX)
    problems: list[Problem] = []
    if not re.fullmatch(HANDLER_NAME, name) or not file.name.endswith(SUFFIX):
        fix = "rename it: 1-64 of a-z, 0-9 and -, a letter or digit first, then .toml"
        problems.append(Problem(str(file), "", f"{file.name!r} names no handler", fix))
    try:
        if not config.origin.dev:
            require_private_writing(file)
        document = read_toml(file)
    except WrongValueError as error:
        problems.append(Problem(str(file), "", error.message, error.fix))
        raise ConfigError(problems) from None
    read = read_handler(config, name, file, document, hashes, programs)
    if isinstance(read, Handler) and not problems:
        return read
    if not isinstance(read, Handler):
        problems += [fault.in_file(str(file)) for fault in read]
    raise ConfigError(problems)


def fresh(handler: Handler) -> str:
    """The handler's digest as its files are now; the loaded manifest stays in force.

    Costs a few stats while nothing changes. A file that cannot be read makes a digest that
    equals no other, so the caller's comparison refuses. OSError without a descriptor to read with.
    """
    try:
        artifacts: Mapping[str, str | None] = artifacts_of(handler.sources, handler.hashes)
    except WrongValueError:
        artifacts = dict.fromkeys(handler.artifacts)
    if artifacts == handler.artifacts:
        return handler.digest
    return handler_digest(handler.name, handler.document, artifacts)


def stale(config: Config, handlers: Handlers) -> bool:
    """Whether a manifest was added, removed or touched since `handlers` were loaded."""
    return (_listed(config.handlers_dir) or {}) != handlers.listing


def _listed(directory: Path) -> Listing | None:
    """The stems of the manifests with the stamps of their files; None without a directory.
    Hidden files are editors' and are left alone."""
    try:
        names = sorted(entry.name for entry in directory.iterdir())
    except FileNotFoundError:
        return None
    except OSError as error:
        fault = explained(error, directory)
        raise ConfigError([Problem(str(directory), "", fault.message, fault.fix)]) from None
    stems = [
        name.removesuffix(SUFFIX)
        for name in names
        if name.endswith(SUFFIX) and not name.startswith(".")
    ]
    return {stem: _stamp(directory / f"{stem}{SUFFIX}") for stem in stems}


def _unanswered(file: Path) -> ConfigError:
    message = "a path that it names does not answer: it lies on a file system that hangs"
    fix = "look at the mounts below its command, artifacts, read and write; then load it again"
    return ConfigError([Problem(str(file), "", message, fix)])


def _require_private(directory: Path) -> None:
    try:
        require_private_writing(directory)
    except WrongValueError as error:
        raise ConfigError([Problem(str(directory), "", error.message, error.fix)]) from None


def _stamp(path: Path) -> Stamp | None:
    try:
        return stamp_of(path.stat())
    except OSError:
        return None


def _no_directory(config: Config) -> Problem:
    return Problem(
        str(config.handlers_dir),
        "",
        "there is no such directory, so there are no handlers",
        "create it and put NAME.toml files into it",
    )


def rewriters(
    config: Config, good: Mapping[str, Handler], looking: Looking | None = None
) -> dict[str, list[Problem]]:
    """Handlers that could write what another one (or they themselves) will run."""
    looking = Looking() if looking is None else looking
    home = home_of(config.origin.daemon_uid)
    owners: dict[Path, str] = {}
    for handler in good.values():
        looking.look(handler.name)
        # A link to a directory is only passed: what lies beside it is nobody's program.
        passed = [path for path in handler.touched if path.is_dir()]
        files = guarded([path for path in handler.touched if path not in passed], home)
        for path in (*files, *passed, handler.file.resolve(), *handler.sources):
            owners.setdefault(path, handler.name)
    below = {parent: path for path in owners for parent in path.parents}
    found: dict[str, list[Problem]] = {}
    for handler in good.values():
        looking.look(handler.name)
        faults = list(_rewrites(handler, owners, below))
        if faults:
            found[handler.name] = [fault.in_file(str(handler.file)) for fault in faults]
    return found


def _rewrites(
    handler: Handler, owners: Mapping[Path, str], below: Mapping[Path, Path]
) -> Iterator[Fault]:
    """`owners` by guarded path; `below` a guarded path by each directory that contains it."""
    for index, text in enumerate(handler.manifest.sandbox.write):
        for path in (Path(text), Path(os.path.realpath(text))):
            around = next((each for each in (path, *path.parents) if each in owners), None)
            target = around or below.get(path)
            if target is not None:
                yield Fault(
                    f"sandbox.write[{index}]",
                    f"{text} {relation(path, target)} {target}, which handler"
                    f" {owners[target]} runs from",
                    "let it write to a directory where no program is",
                )
                break
