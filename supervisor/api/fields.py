"""Reading a request's members strictly: every fault names its pointer and what fits.

JSON is taken as I-JSON: no duplicate keys, no NaN, no lone surrogates, no integer that a
double cannot carry; what cannot be written down canonically is refused before anything.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import orjson
import rfc8785

from supervisor.core.errors import Refusal

CLIENT_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_INT_MAX = 2**53 - 1


class Invalid(Exception):  # noqa: N818  # carries a refusal, is caught where routes end
    """A request that is not well formed."""

    def __init__(
        self,
        detail: str,
        pointer: str = "",
        code: str = "InvalidInput",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.refusal = Refusal(code, detail, pointer=pointer, extra=extra or {})


def parse_json(body: bytes) -> Any:
    """The body as a JSON value, or Invalid."""
    try:
        value = json.loads(body, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
        rfc8785.dumps(value)
        orjson.dumps(value)  # the journal's encoder: it has a depth of its own
    except RecursionError:
        raise Invalid("the body is nested too deeply") from None
    except UnicodeDecodeError:
        raise Invalid("the body is not UTF-8") from None
    except (ValueError, TypeError) as error:
        raise Invalid(f"the body is not JSON that can be kept exactly: {error}") from None
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} is there twice")
    return made


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def nearest(key: str, known: Sequence[str]) -> str:
    found = difflib.get_close_matches(key, known, n=1)
    return f"; did you mean {found[0]!r}?" if found else f"; known: {', '.join(known)}"


_ABSENT: Any = object()


class Fields:
    """One object's members, taken one by one; `done` refuses what was not taken."""

    def __init__(self, value: Any, pointer: str = "") -> None:
        if not isinstance(value, dict):
            raise Invalid("an object is expected here", pointer)
        self._members = cast("dict[str, Any]", value)
        self._pointer = pointer
        self._known: list[str] = []

    def _take(self, key: str, default: Any) -> Any:
        self._known.append(key)
        value = self._members.get(key, _ABSENT)
        if value is _ABSENT:
            if default is _ABSENT:
                raise Invalid(f"{key!r} is missing", f"{self._pointer}/{key}")
            return default
        return value

    def _wrong(self, key: str, expected: str) -> Invalid:
        return Invalid(f"{key!r} must be {expected}", f"{self._pointer}/{key}")

    def any(self, key: str, default: Any = _ABSENT) -> Any:
        return self._take(key, default)

    def has(self, key: str) -> bool:
        return key in self._members

    def text(self, key: str, default: Any = _ABSENT, *, most: int = 4_096) -> Any:
        value = self._take(key, default)
        if value is default:
            return value
        if not isinstance(value, str) or not 1 <= len(value) <= most:
            raise self._wrong(key, f"text of 1 to {most} characters")
        return value

    def client_id(self, key: str) -> str:
        value = self._take(key, _ABSENT)
        if not isinstance(value, str) or CLIENT_ID.fullmatch(value) is None:
            raise self._wrong(key, "1 to 128 of letters, digits and . _ : -")
        return value

    def integer(
        self, key: str, default: Any = _ABSENT, *, least: int = 0, most: int = _INT_MAX
    ) -> Any:
        value = self._take(key, default)
        if value is default:
            return value
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(key, f"an integer from {least} to {most}")
        return value

    def one_of(self, key: str, *choices: str, default: Any = _ABSENT) -> Any:
        value = self._take(key, default)
        if value is default:
            return value
        if value not in choices:
            raise self._wrong(key, f"one of {', '.join(choices)}")
        return value

    def labels(self, key: str) -> Mapping[str, str]:
        value: Any = self._take(key, {})
        labels = cast("dict[str, Any]", value) if isinstance(value, dict) else None
        if labels is None or len(labels) > 32 or not all(map(_is_label, labels.items())):
            expected = "at most 32 labels: names of 1 to 64, text of at most 256 characters"
            raise self._wrong(key, expected)
        return dict(labels)

    def done(self) -> None:
        for key in self._members:
            if key not in self._known:
                raise Invalid(
                    f"{key!r} is not known here{nearest(key, self._known)}",
                    f"{self._pointer}/{key}",
                )


def _is_label(pair: tuple[str, Any]) -> bool:
    key, value = pair
    return 1 <= len(key) <= 64 and isinstance(value, str) and len(value) <= 256


class Query:
    """A query string's parameters, strictly; every one at most once."""

    def __init__(self, parameters: Mapping[str, Sequence[str]]) -> None:
        self._parameters = parameters
        self._known: list[str] = []

    def text(self, key: str, default: str | None = None) -> str | None:
        self._known.append(key)
        values = self._parameters.get(key)
        if not values:
            return default
        if len(values) > 1:
            raise Invalid(f"query parameter {key!r} is given {len(values)} times")
        return values[0]

    def integer(self, key: str, default: int, *, least: int = 0, most: int = _INT_MAX) -> int:
        value = self.text(key)
        if value is None:
            return default
        if not value.isascii() or not value.isdigit() or not least <= int(value) <= most:
            raise Invalid(f"query parameter {key!r} must be an integer from {least} to {most}")
        return int(value)

    def flag(self, key: str) -> bool:
        value = self.text(key)
        if value not in {None, "0", "1", "true", "false"}:
            raise Invalid(f"query parameter {key!r} must be 0 or 1")
        return value in {"1", "true"}

    def done(self) -> None:
        for key in self._parameters:
            if key not in self._known:
                raise Invalid(
                    f"query parameter {key!r} is not known here{nearest(key, self._known)}"
                )
