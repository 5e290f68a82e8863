"""From what was denied to the lines of a manifest that would allow it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from supervisor.cli.denials.values import Denial

if TYPE_CHECKING:
    from config.load import Handler
    from config.schema import Config

LISTS = ("read", "write", "unix")
LIMITS = ("tasks_max", "files_max", "file_size_max", "cpu_max_ms")


class Addition(NamedTuple):
    """One value for one key of ``[sandbox]``, and the denial that asks for it."""

    key: str
    value: str | int
    denial: Denial


class Amendment(NamedTuple):
    """Lines of TOML for ``[sandbox]``, each with the call that wanted it; `replaced` are the keys
    that the manifest has already. `beside` is what must be done on the host as well; `left` is
    what no line would allow, with the reason."""

    lines: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    beside: tuple[Denial, ...] = ()
    left: tuple[Denial, ...] = ()

    @property
    def text(self) -> str:
        """The table as it can be pasted; empty when there is nothing to add."""
        return "\n".join(("[sandbox]", *self.lines)) if self.lines else ""


def amendment(config: Config, handler: Handler, found: Sequence[Denial]) -> Amendment:
    """What would allow `found`. Each line is one that the configuration's rules accept: what they
    would refuse is among `left`."""
    from config.load import amended_problems

    additions, left = list(_additions(handler, found)), [one for one in found if not one.key]
    left += [one for one in found if one.key == "unix" and not one.value]
    left += [
        one._replace(key="", fix="A manifest is UTF-8 and cannot name it: rename it.")
        for one in found
        if not _writable(one.value)
    ]
    documents = [_amended(handler, [one]) for one in additions]
    good: list[Addition] = []
    for one, problems in zip(additions, amended_problems(config, handler, documents), strict=True):
        if problems:
            why = f"no manifest may allow it: {problems[0].message}"
            left.append(one.denial._replace(key="", why=why, fix=problems[0].fix))
        else:
            good.append(one)
    table = _table(handler.document)
    keys = list(dict.fromkeys(one.key for one in good))
    return Amendment(
        tuple(line for key in keys for line in _lines(key, table.get(key), good)),
        tuple(key for key in keys if key in table),
        tuple(one.denial for one in good if one.denial.fix),
        tuple(left),
    )


def _additions(handler: Handler, found: Sequence[Denial]) -> Iterator[Addition]:
    from sandbox.spec import FILES_MAX_LIMIT

    declared = handler.manifest.sandbox
    for one in found:
        if one.key in LIMITS:
            most = FILES_MAX_LIMIT if one.key == "files_max" else 2**50
            value = min(2 * int(getattr(declared, one.key)), most)
            yield Addition(one.key, value, one)
        elif one.key and one.value and _writable(one.value):
            yield Addition(one.key, one.value, one)


def _writable(value: str) -> bool:
    """Whether a manifest can name it at all."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _amended(handler: Handler, additions: Sequence[Addition]) -> dict[str, Any]:
    """The manifest's document with these in it."""
    document = copy.deepcopy(dict(handler.document))
    table = dict(_table(document))
    for one in additions:
        table[one.key] = [*table.get(one.key, ()), one.value] if one.key in LISTS else one.value
    document["sandbox"] = table
    return document


def _table(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("sandbox")
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _lines(key: str, declared: object, additions: Sequence[Addition]) -> Iterator[str]:
    """One key: a list with a line a path, the declared ones first, or one value."""
    mine = [one for one in additions if one.key == key]
    if key not in LISTS:
        yield f"{key} = {_toml(mine[0].value)}  # {_remark(mine[0].denial)}"
        return
    known = cast("list[object]", declared) if isinstance(declared, list) else []
    rows = [(_toml(str(one)), "") for one in known]
    rows += [(_toml(one.value), _remark(one.denial)) for one in mine]
    yield f"{key} = ["
    for value, remark in rows:
        yield f"  {value}," + (f"  # {remark}" if remark else "")
    yield "]"


def _toml(value: str | int) -> str:
    """A value as TOML writes it; its basic strings are JSON's, with DEL escaped as well."""
    if isinstance(value, int):
        return str(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _remark(denial: Denial) -> str:
    """The call, with nothing in it that would end the comment."""
    return "".join(c if c.isprintable() else "?" for c in denial.call)
