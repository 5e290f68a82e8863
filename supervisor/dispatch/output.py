"""What a handler printed: hidden secrets, the result in it, and where it is kept.

Outputs are for people and are kept beside the journal, best effort: nothing depends on
them, and nothing waits for them.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import orjson

from sandbox.output import BoundedOutput
from supervisor.core.record import Result

TAIL_BYTES = 65_536
HIDDEN = b"[secret hidden]"


def redact(data: bytes, values: Sequence[bytes]) -> bytes:
    for value in values:
        data = data.replace(value, HIDDEN)
    return data


def redact_json(value: Any, values: Sequence[bytes]) -> Any:
    """The value with every secret in its texts hidden."""
    if not values:
        return value
    if isinstance(value, str):
        return redact(value.encode(), values).decode()
    if isinstance(value, dict):
        members = cast("Mapping[str, Any]", value)
        return {redact_json(k, values): redact_json(v, values) for k, v in members.items()}
    if isinstance(value, list):
        return [redact_json(one, values) for one in cast("Sequence[Any]", value)]
    return value


def holds_secret(value: Any, values: Sequence[bytes]) -> bool:
    return bool(values) and redact_json(value, values) != value


def keepable(value: Any) -> bool:
    """Whether the journal's encoder takes the value (depth, integers, surrogates)."""
    try:
        orjson.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def result_of(stdout: BoundedOutput, values: Sequence[bytes]) -> Result:
    """Standard output as a result: JSON when all of it is JSON, else text."""
    if stdout.omitted:
        return Result(unavailable="too_large")
    data = redact(stdout.head + stdout.tail, values)
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(text)
        if keepable(value):
            return Result(value)
    return Result(text)


def _path(directory: Path, call_id: str, attempt: int) -> Path:
    return directory / f"{call_id}-{attempt}.json"


def keep(
    directory: Path,
    call_id: str,
    attempt: int,
    streams: dict[str, BoundedOutput],
    values: Sequence[bytes],
) -> None:
    """Write what was captured; a full disk loses it and nothing else. Blocks shortly."""
    document = {
        name: {
            "head": redact(one.head, values)[-TAIL_BYTES:].decode("utf-8", "replace")
            if not one.omitted
            else redact(one.head, values)[:TAIL_BYTES].decode("utf-8", "replace"),
            "tail": redact(one.tail, values).decode("utf-8", "replace"),
            "bytes": one.total,
            "omitted": one.omitted,
        }
        for name, one in streams.items()
    }
    with contextlib.suppress(OSError):
        directory.mkdir(mode=0o700, exist_ok=True)
        path = _path(directory, call_id, attempt)
        temporary = path.with_suffix(".tmp")
        try:
            temporary.write_bytes(orjson.dumps(document))  # the daemon's umask makes it 0600
            temporary.rename(path)
        except OSError:
            temporary.unlink(missing_ok=True)


def load(directory: Path, call_id: str, attempt: int) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = orjson.loads(_path(directory, call_id, attempt).read_bytes())
    except (OSError, ValueError):
        return None
    return document


def forget(directory: Path, before_s: float) -> None:
    """Remove what was written before that time (seconds since 1970), and what a crash left half
    written. Blocks; what cannot be removed stays until the next time."""
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
        for one in entries:
            with contextlib.suppress(OSError):
                if one.stat(follow_symlinks=False).st_mtime < before_s:
                    Path(one.path).unlink()
