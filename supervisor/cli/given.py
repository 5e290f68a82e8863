"""Values from the command line: JSON from an argument, a file or stdin; labels."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from supervisor.cli.talk import CommandError


def json_value(text: str, option: str) -> Any:
    """`@FILE`, `-` for stdin, or the JSON itself. What is not JSON is a CommandError."""
    source = option
    if text == "-":
        text, source = sys.stdin.read(), "stdin"
    elif text.startswith("@"):
        source = text[1:]
        try:
            text = Path(source).read_text(encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{source}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise CommandError(f"{source}: not UTF-8 (byte {error.start})") from error
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise CommandError(
            f"{source}: not JSON: {error.msg} (line {error.lineno}, column {error.colno})",
            f"Give {option} as JSON, as @FILE, or as - for stdin.",
        ) from error
    except RecursionError as error:
        raise CommandError(f"{source}: nested too deeply") from error


def _no_constant(name: str) -> Any:
    raise CommandError(f"{name} is not a JSON value")


def labels(pairs: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE`, each key once."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise CommandError(f"--label {pair}: give it as KEY=VALUE")
        if key in found:
            raise CommandError(f"--label {key} is given twice")
        found[key] = value
    return found
