"""A request's target, taken apart. Pure: bytes in, segments and query out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import unquote_to_bytes

_FIELDS_MAX = 64

_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ABSOLUTE = re.compile(r"https?://[^/?]*", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class BadTargetError(ValueError):
    """Says what is wrong with a target, for the client to read."""


def parse(target: str) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]:
    """Split origin form (`/a/b?c=d`) or absolute form (`http://host/a/b`).

    Segments are split before they are decoded, so an escaped slash stays inside
    its segment. Raises `BadTargetError`.
    """
    # RFC 9112, 3.2.2: a server accepts the absolute form, and its authority
    # means nothing on a Unix socket.
    absolute = _ABSOLUTE.match(target)
    if absolute:
        target = target[absolute.end() :] or "/"
        target = f"/{target}" if target.startswith("?") else target
    if not target.startswith("/"):
        raise BadTargetError("The request's target does not begin with a slash")
    if "#" in target:
        raise BadTargetError("The request's target has a fragment (#)")
    path, _, query = target.partition("?")
    if path == "/":
        return (), _fields(query)
    return tuple(_decoded(segment) for segment in path[1:].split("/")), _fields(query)


def _fields(query: str) -> Mapping[str, tuple[str, ...]]:
    pairs = [pair for pair in query.split("&") if pair]
    if len(pairs) > _FIELDS_MAX:
        raise BadTargetError(f"the query has more than {_FIELDS_MAX} fields")
    found: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        name, _, value = (_decoded(part.replace("+", " ")) for part in pair.partition("="))
        found[name] = (*found.get(name, ()), value)
    return MappingProxyType(found)


def _decoded(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise BadTargetError("The request's target has a % without two hexadecimal digits")
    try:
        decoded = unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        raise BadTargetError("The request's target is not UTF-8 once decoded") from None
    if _CONTROL.search(decoded):
        raise BadTargetError("The request's target has a control character")
    return decoded
