"""The kinds of values a key can take, each with its reader.

A reader takes what TOML parsed and returns the value or raises `WrongValueError`. It
converts nothing that a writer did not mean: `"7"` is no integer and `true` is not 1.
The names at the end (`Milliseconds`, `Bytes`, ...) are what the schema is written in.
"""

from __future__ import annotations

import ipaddress
import math
import os.path
import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, cast

from config.problems import WrongValueError, shown
from frozen import frozen

# Larger integers do not survive JSON: 2**53 - 1 is what every reader of it can hold.
MAX_INTEGER: Final = 2**53 - 1
MAX_DURATION_MS: Final = 366 * 24 * 3_600_000
UNITS: Final = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

Level = Literal["strict", "none"]
Network = Literal["none", "host"]
Contract = Literal["none", "idempotency_key", "reconciliation", "no_safe_retry"]
Scope = Literal["announced", "call"]
PrincipalKind = Literal["group", "user", "uid", "gid"]


class Reader(Protocol):
    """How one kind of value is read."""

    def read(self, value: object) -> object: ...


@frozen
class Principal:
    """Whom a role is granted to.

    `id` is the uid or gid; None while a name is unresolved, or when nobody has that
    name: such a grant holds for nobody.
    """

    kind: PrincipalKind
    name: str
    id: int | None = None

    @property
    def text(self) -> str:
        """As it is written in a file."""
        return f"{self.kind}:{self.name}"

    @property
    def is_group(self) -> bool:
        return self.kind in ("group", "gid")


def parse_principal(text: str) -> Principal:
    """`group:NAME`, `user:NAME`, `uid:N` or `gid:N` as a value; names stay unresolved."""
    kind, _, name = text.partition(":")
    wrong = WrongValueError(
        f"{shown(text)} names no user or group",
        'write "group:NAME", "user:NAME", "uid:NUMBER" or "gid:NUMBER"',
    )
    if kind in ("uid", "gid"):
        # 2**32 - 1 is the kernel's "no such id".
        if not re.fullmatch(r"0|[1-9][0-9]{0,9}", name) or int(name) >= 2**32 - 1:
            raise wrong
        return Principal(cast(PrincipalKind, kind), name, int(name))
    if kind not in ("group", "user") or not re.fullmatch(r"[^\s:,\x00-\x1f/]{1,256}", name):
        raise wrong
    return Principal(cast(PrincipalKind, kind), name)


def parse_size(value: object) -> int:
    """`"256M"`, `"1G"` (powers of 1024) or a plain integer, in bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        match = re.fullmatch(r"([0-9]{1,16})([KMGT])", value)
        if match:
            return int(match[1]) * UNITS[match[2]]
        if re.fullmatch(r"[0-9]{1,16}", value):
            raise WrongValueError(
                f"expected a size, got {shown(value)}", f"write {int(value)} without quotes"
            )
    raise WrongValueError(
        f"expected a size, got {shown(value)}",
        'write bytes as an integer, or a text like "256M" or "1G" (K, M, G, T; powers of 1024)',
    )


def parse_integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    fix = "write a whole number without quotes"
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,16}", value):
        fix = f"write {int(value)} without quotes"
    raise WrongValueError(f"expected an integer, got {shown(value)}", fix)


def parse_text(value: object) -> str:
    if not isinstance(value, str):
        raise WrongValueError(f"expected a text, got {shown(value)}", "put it between quotes")
    # The kernel ends every path, argument and variable at a NUL.
    if "\0" in value:
        raise WrongValueError("the text contains a NUL character", "remove it")
    return value


def parse_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise WrongValueError(f"expected true or false, got {shown(value)}", "write true or false")
    return value


def _in_range(number: int, low: int, high: int) -> int:
    if not low <= number <= high:
        raise WrongValueError(
            f"{number} is out of range", f"choose a value from {low:_} to {high:_}"
        )
    return number


@frozen
class Integer:
    """A whole number from `low` to `high`."""

    low: int
    high: int

    def read(self, value: object) -> int:
        return _in_range(parse_integer(value), self.low, self.high)


@frozen
class Size:
    """A number of bytes from `low` to `high`."""

    low: int
    high: int

    def read(self, value: object) -> int:
        return _in_range(parse_size(value), self.low, self.high)


@frozen
class Matching:
    """A text that the whole of `pattern` describes."""

    pattern: str
    rule: str

    def read(self, value: object) -> str:
        text = parse_text(value)
        if not re.fullmatch(self.pattern, text):
            raise WrongValueError(f"{shown(text)} is not allowed here", self.rule)
        return text


@frozen
class AbsolutePath:
    """A path from the root, without `.`, `..` and doubled slashes; "" is None if `optional`."""

    optional: bool = False

    def read(self, value: object) -> Path | None:
        text = parse_text(value)
        if not text and self.optional:
            return None
        if not text.startswith("/"):
            raise WrongValueError(
                f"{shown(text)} is not an absolute path", "write it from the root: /..."
            )
        # normpath keeps two leading slashes, as POSIX lets it.
        return Path("/" + os.path.normpath(text).lstrip("/"))


class GivenPath:
    """A path that may be relative; whoever loads the file knows to what."""

    def read(self, value: object) -> str:
        text = parse_text(value)
        if not text:
            raise WrongValueError("the path is empty", "name a file or remove the entry")
        if text.startswith("~"):
            raise WrongValueError(
                f"{shown(text)} starts with ~, which only shells expand", "write the full path"
            )
        return text


class PrincipalText:
    """A user or group."""

    def read(self, value: object) -> Principal:
        return parse_principal(parse_text(value))


class Listen:
    """`ADDRESS:PORT` with a numeric address, or "" for none."""

    def read(self, value: object) -> str:
        text = parse_text(value)
        if not text:
            return text
        host, _, port = text.rpartition(":")
        try:
            version = ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).version
            fits = host.startswith("[") == host.endswith("]") == (version == 6)
        except ValueError:
            fits = False
        if not fits or not re.fullmatch(r"[1-9][0-9]{0,4}", port) or int(port) > 65_535:
            raise WrongValueError(
                f"{shown(text)} is no address and port",
                'write "127.0.0.1:9464" or "[::1]:9464", or "" for none',
            )
        return text


class JsonTable:
    """A table that is JSON: no dates, no infinities, no integers that JSON readers round."""

    def read(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise WrongValueError(f"expected a table, got {shown(value)}", "write { key = value }")
        table = cast("dict[str, Any]", value)
        _require_json(table, "")
        return table


def _require_json(value: object, at: str) -> None:
    match value:
        case dict():
            for key, inner in cast("dict[str, object]", value).items():
                _require_json(inner, f"{at}.{key}")
        case list():
            for index, inner in enumerate(cast("list[object]", value)):
                _require_json(inner, f"{at}[{index}]")
        case bool() | str():
            pass
        case int() if abs(value) <= MAX_INTEGER:
            pass
        case float() if math.isfinite(value):
            pass
        case _:
            raise WrongValueError(
                f"{at.removeprefix('.')} is {shown(value)}, which JSON cannot carry",
                "write it as a text",
            )


Milliseconds = Annotated[int, Integer(0, MAX_DURATION_MS)]
Timeout = Annotated[int, Integer(1, MAX_DURATION_MS)]
Count = Annotated[int, Integer(1, 10_000_000)]
Days = Annotated[int, Integer(1, 36_500)]
Bytes = Annotated[int, Size(1, MAX_INTEGER)]
Directory = Annotated[Path, AbsolutePath()]
OptionalDirectory = Annotated[Path | None, AbsolutePath(optional=True)]
FilePath = Annotated[str, GivenPath()]
Grantee = Annotated[Principal, PrincipalText()]
Address = Annotated[str, Listen()]
Json = Annotated[dict[str, Any], JsonTable()]
Word = Annotated[
    str,
    Matching(r"[a-z0-9][a-z0-9_-]{0,63}", "use 1-64 of a-z, 0-9, _ and -, a letter or digit first"),
]
EffectName = Annotated[
    str,
    Matching(
        r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}",
        "use 1-64 of letters, digits, '.', '_' and '-', a letter or digit first",
    ),
]
SecretName = Annotated[
    str,
    Matching(
        r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}",
        "name a plain file: letters, digits, '.', '_' and '-', without a slash",
    ),
]
UserName = Annotated[
    str,
    Matching(r"(?:[^\s:,\x00-\x1f/]{1,256})?", 'write a user name, or "" for the daemon\'s own'),
]
