"""One manifest and the files it names, as a `Handler` or as everything wrong with it."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, cast

import attrs

from config.convert import structured
from config.hidden import PRIVATE, hidden_places, relation
from config.load import names
from config.load.chain import FIXED_PATH, Chain, chain_of, located
from config.load.digest import Hashes, artifacts_of, handler_digest
from config.load.files import open_regular, read_text
from config.load.secret import secret_doubts
from config.manifest import AccessDecl, Manifest, ReconcileDecl, completed
from config.problems import Fault, Problem, WrongValueError
from config.rules import manifest_doubts, manifest_faults
from config.schema import Config
from frozen import frozen

# Values that let the rest of a manifest be checked when these keys are missing or wrong.
STAND_INS: Final[Mapping[str, object]] = {"manifest": 1, "command": ["/"], "timeout_ms": 1}


@frozen
class Handler:
    """A loaded handler.

    `manifest` has absolute paths. `digest` (SHA-256, hex) covers the manifest as parsed and
    `artifacts`: SHA-256 by resolved path of the command's own file, the reconcilers', the
    declared artifacts and the schemas. `touched` is every link and file that starting its
    commands opens, interpreters included.
    """

    manifest: Manifest
    file: Path
    digest: str
    artifacts: Mapping[str, str]
    input_schema: Mapping[str, Any] | None
    result_schema: Mapping[str, Any] | None
    touched: tuple[Path, ...]
    warnings: tuple[Problem, ...] = ()
    sources: tuple[Path, ...] = attrs.field(default=(), repr=False)
    document: Mapping[str, Any] = attrs.field(factory=dict[str, Any], repr=False)
    hashes: Hashes = attrs.field(factory=Hashes, repr=False, eq=False)
    distant: bool = False
    """Whether a look at its files may hang: said by whoever judges what it is shown."""

    @property
    def name(self) -> str:
        return self.manifest.name


class Programs:
    """What the programs of one load's handlers touch: most have an interpreter in common, and many
    all of it."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._known: dict[tuple[Path, str], Chain] = {}

    def chain(self, program: Path, search_path: str) -> Chain:
        """As `chain_of`; WrongValueError too for one that no handler can see."""
        found = self._known.get((program, search_path))
        if found is None:
            found = chain_of(program, search_path)
            _require_visible(found, self._config)
            self._known[program, search_path] = found
        return found


@attrs.define
class _Reading:
    """What has been found while one manifest is read."""

    config: Config
    programs: Programs
    base: Path
    search_path: str
    skipped: frozenset[str]
    faults: list[Fault] = attrs.field(factory=list[Fault])
    doubts: list[Fault] = attrs.field(factory=list[Fault])
    sources: list[Path] = attrs.field(factory=list[Path])
    touched: list[Path] = attrs.field(factory=list[Path])

    def skips(self, key: str) -> bool:
        return key.partition(".")[0].partition("[")[0] in self.skipped

    def fault(self, key: str, error: WrongValueError) -> None:
        if not self.skips(key):
            self.faults.append(Fault(key, error.message, error.fix))

    def absolute(self, text: str) -> Path:
        return Path(os.path.normpath(self.base / text))


def read_handler(  # what it is made of
    config: Config,
    name: str,
    file: Path,
    document: dict[str, Any],
    hashes: Hashes,
    programs: Programs | None = None,
) -> Handler | tuple[Fault, ...]:
    """The handler, or all its faults: a fault of one key hides those of no other."""
    programs = Programs(config) if programs is None else programs
    # Relative paths are relative to where the manifest really is, so that one linked into
    # the manifests directory finds its neighbours.
    base = Path(os.path.realpath(file)).parent
    manifest, wrong = _salvaged(_with_defaults(document, config))
    if manifest is None:
        return wrong
    skipped = frozenset(fault.key.partition(".")[0].partition("[")[0] for fault in wrong)
    search_path = manifest.env.get("PATH", FIXED_PATH)
    reading = _Reading(config, programs, base, search_path, skipped, list(wrong))
    reading.faults += [each for each in manifest_faults(manifest) if not reading.skips(each.key)]
    manifest = _placed(completed(attrs.evolve(manifest, name=name)), reading)
    schemas = {key: _schema(manifest, key, reading) for key in ("input_schema", "result_schema")}
    reading.faults += _exposures(manifest, config)
    artifacts = _hashed(reading, hashes)
    if reading.faults or artifacts is None:
        return tuple(reading.faults)
    doubts = [
        *reading.doubts,
        *manifest_doubts(manifest),
        *secret_doubts(config, manifest.secret_names),
    ]
    return Handler(
        manifest=manifest,
        file=file,
        digest=handler_digest(name, document, artifacts),
        artifacts=artifacts,
        input_schema=schemas["input_schema"],
        result_schema=schemas["result_schema"],
        touched=tuple(dict.fromkeys(reading.touched)),
        warnings=tuple(doubt.in_file(str(file)) for doubt in doubts),
        sources=tuple(dict.fromkeys(reading.sources)),
        document=document,
        hashes=hashes,
    )


def _with_defaults(document: Mapping[str, Any], config: Config) -> dict[str, Any]:
    """The document with the configuration's sandbox defaults where it says nothing."""
    filled = copy.deepcopy(dict(document))
    sandbox = filled.setdefault("sandbox", {})
    if isinstance(sandbox, dict):
        table = cast("dict[str, Any]", sandbox)
        table.setdefault("level", config.sandbox.level)
        table.setdefault("accept_missing", list(config.sandbox.accept_missing))
    return filled


def _salvaged(document: dict[str, Any]) -> tuple[Manifest | None, tuple[Fault, ...]]:
    """The manifest and the faults of its single values. Top-level keys with a fault are
    left out or stood in for, so that the others can still be checked."""
    read = structured(document, Manifest)
    if isinstance(read, Manifest):
        return read, ()
    bad = {fault.key.partition(".")[0].partition("[")[0] for fault in read}
    rest = {key: value for key, value in document.items() if key not in bad}
    again = structured({**{k: v for k, v in STAND_INS.items() if k in bad}, **rest}, Manifest)
    return (again if isinstance(again, Manifest) else None), read


def _placed(manifest: Manifest, reading: _Reading) -> Manifest:
    """The manifest with its paths made absolute and its names looked up."""
    for text in manifest.artifacts:
        reading.sources.append(reading.absolute(text))
    sandbox = manifest.sandbox
    run = names.resolved(manifest.access.run)
    reading.faults += names.unknown_names("access.run", run)
    return attrs.evolve(
        manifest,
        command=_command("command", manifest.command, reading),
        artifacts=tuple(str(reading.absolute(text)) for text in manifest.artifacts),
        effect=tuple(
            attrs.evolve(
                effect, reconcile=_reconcile(f"effect[{index}]", effect.reconcile, reading)
            )
            for index, effect in enumerate(manifest.effect)
        ),
        sandbox=attrs.evolve(
            sandbox,
            read=tuple(str(reading.absolute(text)) for text in sandbox.read),
            write=tuple(str(reading.absolute(text)) for text in sandbox.write),
            unix=tuple(str(reading.absolute(text)) for text in sandbox.unix),
        ),
        access=AccessDecl(run),
    )


def _reconcile(at: str, declared: ReconcileDecl | None, reading: _Reading) -> ReconcileDecl | None:
    if declared is None:
        return None
    return attrs.evolve(
        declared, command=_command(f"{at}.reconcile.command", declared.command, reading)
    )


def _command(key: str, words: tuple[str, ...], reading: _Reading) -> tuple[str, ...]:
    """The command with its program located; its files become sources of the digest."""
    if not words or not words[0] or reading.skips(key):
        return words
    try:
        program = located(words[0], reading.base)
        chain = reading.programs.chain(program, reading.search_path)
    except WrongValueError as error:
        reading.fault(f"{key}[0]", error)
        return words
    reading.sources.append(program)
    reading.touched += chain.touched
    reading.doubts += _command_doubts(key, words, chain, reading)
    return (str(program), *words[1:])


def _require_visible(chain: Chain, config: Config) -> None:
    """Refuse a program that lies where no handler can see it. The manifests directory is
    an exception: a program beside its manifest is shown as a single file."""
    for file in chain.touched:
        if relation(file, config.handlers_dir) == "lies in":
            continue
        for place in hidden_places(config):
            if relation(file, place.path) is not None:
                raise WrongValueError(
                    f"{file} lies in {place.path}, {place.what}, which no handler may reach",
                    "install the program elsewhere",
                )


def _command_doubts(
    key: str, words: tuple[str, ...], chain: Chain, reading: _Reading
) -> Iterator[Fault]:
    if chain.doubt is not None:
        fix = "start it with a #! line, or check that the kernel knows its format (binfmt_misc)"
        yield Fault(f"{key}[0]", chain.doubt, fix)
    for index, word in enumerate(words[1:], 1):
        path = reading.absolute(word) if "/" in word and not word.startswith("-") else None
        if path is None or not path.is_file() or path in reading.sources:
            continue
        yield Fault(
            f"{key}[{index}]",
            f"{word} is a file that no digest covers, so its changes go unnoticed",
            "list it in artifacts, or make it the command itself with a #! line",
        )


def _schema(manifest: Manifest, key: str, reading: _Reading) -> Mapping[str, Any] | None:
    text = cast("str | None", getattr(manifest, key))
    if text is None:
        return None
    # Only where one is declared: its library is a fifth of the daemon's start-up time.
    from config.schemas import parse_schema  # noqa: PLC0415

    path = reading.absolute(text)
    try:
        schema = parse_schema(read_text(path))
    except WrongValueError as error:
        message = error.message if str(path) in error.message else f"{path}: {error.message}"
        reading.fault(key, WrongValueError(message, error.fix))
        return None
    reading.sources.append(path)
    return schema


def _hashed(reading: _Reading, hashes: Hashes) -> dict[str, str] | None:
    """The digests of all sources; each that cannot be had is a fault."""
    unreadable = False
    for source in reading.sources:
        try:
            os.close(open_regular(source))
        except WrongValueError as error:
            reading.fault("artifacts", error)
            unreadable = True
    if unreadable:
        return None
    try:
        return artifacts_of(reading.sources, hashes)
    except WrongValueError as error:
        reading.fault("artifacts", error)
        return None


def _exposures(manifest: Manifest, config: Config) -> Iterator[Fault]:
    """Declared paths that reach what must stay hidden."""
    sandbox = manifest.sandbox
    if not (sandbox.read or sandbox.write or sandbox.unix):
        return
    places = hidden_places(config)
    real = [attrs.evolve(each, path=Path(os.path.realpath(each.path))) for each in places]
    for kind in ("read", "write", "unix"):
        for index, text in enumerate(getattr(manifest.sandbox, kind)):
            if Path(text) in PRIVATE:
                yield Fault(
                    f"sandbox.{kind}[{index}]",
                    f"every sandbox has a {text} of its own",
                    "name what is needed in it",
                )
                continue
            for path in dict.fromkeys((Path(text), Path(os.path.realpath(text)))):
                hit = next(
                    (
                        (how, each)
                        for each in (*places, *real)
                        if (how := relation(path, each.path))
                    ),
                    None,
                )
                if hit is not None:
                    how, place = hit
                    yield Fault(
                        f"sandbox.{kind}[{index}]",
                        f"{path} {how} {place.path}, {place.what}, which no handler may reach",
                        "name narrower paths elsewhere",
                    )
                    break
