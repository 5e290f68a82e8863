"""What each handler is shown of the host: computed when it is loaded, and judged.

A closure is found in the file system, so it holds until one of the files that were looked at
changes; a few stats tell.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from config.hidden import relation
from config.load import Handler, Handlers, Looking, load_handler, load_handlers
from config.load.reach import (
    READ,
    SEARCH,
    User,
    handler_user,
    require_reachable,
    require_usable,
)
from config.problems import ConfigError, Problem, WrongValueError
from config.schema import Config
from frozen import frozen
from sandbox.closure import Closure, closure
from sandbox.spec import DEFAULT_ENVIRONMENT, LAYERS, RECORDED
from supervisor.dispatch.distant import distant
from supervisor.dispatch.patience import patiently

_KEPT_MAX = 512
_SCRIPT = b"#!"

Stamps = tuple[tuple[int, int, int] | None, ...]


@frozen
class Visible:
    """Of all programs of a handler together: `paths` to expose, the `chains` that their starts
    touch, what to warn of, and all that was `looked` at."""

    paths: tuple[str, ...]
    chains: tuple[tuple[str, ...], ...]
    warnings: tuple[str, ...]
    looked: tuple[str, ...]


_kept: dict[tuple[str, ...], tuple[Stamps, Visible]] = {}


def visible(config: Config, handler: Handler) -> Visible:
    """What its commands and artifacts need to be seen. Of the manifests directory only the files
    themselves, never the manifests beside them."""
    search_path = handler.manifest.env.get("PATH", DEFAULT_ENVIRONMENT["PATH"])
    alone = (str(config.handlers_dir), os.path.realpath(config.handlers_dir))
    key = (*programs(handler), search_path, *alone)
    kept = _kept.get(key)
    if kept is not None and kept[0] == _stamps(kept[1].looked):
        return kept[1]
    found = [closure(one, search_path=search_path, alone=alone) for one in programs(handler)]
    made = _together(found)
    if len(_kept) >= _KEPT_MAX:
        _kept.pop(next(iter(_kept)), None)  # another thread may have been first
    _kept[key] = (_stamps(made.looked), made)
    return made


def programs(handler: Handler) -> tuple[str, ...]:
    """Everything of a handler that is started, or read beside what is."""
    manifest = handler.manifest
    reconcilers = [e.reconcile.command[0] for e in manifest.effects if e.reconcile is not None]
    return (manifest.command[0], *reconcilers, *manifest.artifacts)


def _together(found: list[Closure]) -> Visible:
    return Visible(
        tuple(sorted({path for one in found for path in one.paths})),
        tuple(one.chain for one in found),
        tuple(dict.fromkeys(warning for one in found for warning in one.warnings)),
        tuple(dict.fromkeys(path for one in found for path in one.looked)),
    )


def _stamps(paths: tuple[str, ...]) -> Stamps:
    found: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            status = os.lstat(path)
        except OSError:
            found.append(None)
        else:
            found.append((status.st_dev, status.st_ino, status.st_ctime_ns))
    return tuple(found)


# --- at load and reload -----------------------------------------------------------------


def load(config: Config, *, strict: bool = False) -> Handlers:
    """`load_handlers`, and what only a look at the file system shows: a handler that cannot be
    reached by the user it runs as, or that could write what another one runs from, is broken.

    So is one whose files do not answer. Blocks for a while, but never for ever.
    """
    return patiently(config, lambda looking: _load(config, looking, strict=strict))


def load_one(config: Config, file: Path) -> Handler:
    """The handler of one manifest, wherever it lies, judged as `load` would beside the others;
    ConfigError with all its problems."""
    handler = load_handler(config, file)
    shown = {handler.name: visible(config, handler)}
    everybody = {**_others(config, handler.name), **shown}
    problems = list(_faults(handler, everybody, _reached(config)))
    if problems:
        raise ConfigError(problems)
    return _judged(handler, shown[handler.name])


def _others(config: Config, name: str) -> dict[str, Visible]:
    good = load(config).good.values()
    return {one.name: visible(config, one) for one in good if one.name != name}


def _faults(
    handler: Handler, shown: Mapping[str, Visible], reached: _Reached | None
) -> Iterator[Problem]:
    yield from _closed(handler, shown[handler.name], reached)
    yield from _rewrites(handler, shown)
    yield from _unknown_layers(handler)


def _load(config: Config, looking: Looking, *, strict: bool) -> Handlers:
    handlers = load_handlers(config, strict=strict, looking=looking)
    shown: dict[str, Visible] = {}
    for name, handler in handlers.good.items():
        looking.look(name)
        shown[name] = visible(config, handler)
    broken: dict[str, list[Problem]] = {}
    reached = _reached(config)
    for name, handler in handlers.good.items():
        looking.look(name)
        problems = list(_faults(handler, shown, reached))
        if problems:
            broken[name] = problems
    if strict and broken:
        raise ConfigError(problem for problems in broken.values() for problem in problems)
    good = {
        name: _judged(handler, shown[name])
        for name, handler in handlers.good.items()
        if name not in broken
    }
    more = [problem for name, handler in good.items() for problem in _doubts(handler, shown[name])]
    return attrs.evolve(
        handlers,
        good=good,
        broken={**handlers.broken, **{name: ConfigError(found) for name, found in broken.items()}},
        warnings=(*handlers.warnings, *more),
    )


def _judged(handler: Handler, shown: Visible) -> Handler:
    asked = handler.manifest.sandbox
    paths = (*programs(handler), *shown.paths, *asked.read, *asked.write, *asked.unix)
    warnings = (*handler.warnings, *_doubts(handler, shown))
    return attrs.evolve(handler, warnings=warnings, distant=distant(paths))


def _unknown_layers(handler: Handler) -> Iterator[Problem]:
    for name in handler.manifest.sandbox.accept_missing:
        if name not in LAYERS:
            fix = f"name some of {', '.join(one for one in LAYERS if one not in RECORDED)}"
            at = "sandbox.accept_missing"
            yield Problem(str(handler.file), at, f"no layer is called {name!r}", fix)


def _doubts(handler: Handler, shown: Visible) -> Iterator[Problem]:
    for name in handler.manifest.sandbox.accept_missing:
        if name in RECORDED:
            message = f"{name} need not be accepted: who lacks it is not refused, it is recorded"
            yield Problem(str(handler.file), "sandbox.accept_missing", message, "leave it out")
    for warning in shown.warnings:
        message, _, fix = warning.rpartition(": ")
        yield Problem(str(handler.file), "command", message, fix)


class _Reached:
    """What the user that handlers run as gets to: asked once in a load, whoever asks. Raises
    WrongValueError for what he does not."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.startable = functools.cache(functools.partial(_require_startable, user))
        self.usable = functools.cache(functools.partial(_require_usable, user))


def _reached(config: Config) -> _Reached | None:
    user = handler_user(config)
    return None if user is None else _Reached(user)


def _closed(handler: Handler, shown: Visible, reached: _Reached | None) -> Iterator[Problem]:
    """What the user that handlers run as cannot get to."""
    if reached is None:
        return
    try:
        for program, chain in zip(programs(handler), shown.chains, strict=True):
            started = program not in handler.manifest.artifacts
            for path in chain:
                reached.startable(path, started)
        for path in shown.paths:
            reached.usable(path)
    except WrongValueError as error:
        yield Problem(str(handler.file), "command[0]", error.message, error.fix)
    for key in ("read", "write", "unix"):
        for index, text in enumerate(getattr(handler.manifest.sandbox, key)):
            try:
                require_reachable(Path(os.path.realpath(text)), reached.user)
            except WrongValueError as error:
                at = f"sandbox.{key}[{index}]"
                yield Problem(str(handler.file), at, error.message, error.fix)


def _require_startable(user: User, path: str, started: bool) -> None:
    """A script is read by what interprets it; a compiled program only needs to be executable."""
    file = Path(os.path.realpath(path))
    wanted = (SEARCH if started else 0) | (READ if not started or _is_script(file) else 0)
    require_usable(file, user, wanted)


def _require_usable(user: User, path: str) -> None:
    """Files are the chains'; of a library that is shown alone the loader says more."""
    real = Path(os.path.realpath(path))
    require_usable(real, user, READ | SEARCH if real.is_dir() else 0)


def _is_script(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(2) == _SCRIPT
    except OSError:
        return False


def _rewrites(handler: Handler, shown: Mapping[str, Visible]) -> Iterator[Problem]:
    """Write paths that overlap with what any handler, this one included, is shown to run."""
    for index, text in enumerate(handler.manifest.sandbox.write):
        hit = next(_overlaps(text, shown), None)
        if hit is not None:
            how, path, owner = hit
            yield Problem(
                str(handler.file),
                f"sandbox.write[{index}]",
                f"{text} {how} {path}, which handler {owner} runs from",
                "let it write to a directory where no program is",
            )


def _overlaps(text: str, shown: Mapping[str, Visible]) -> Iterator[tuple[str, str, str]]:
    for written in dict.fromkeys((Path(text), Path(os.path.realpath(text)))):
        for owner, one in shown.items():
            for path in one.paths:
                how = relation(written, Path(path))
                if how is not None:
                    yield how, path, owner
