"""Secrets: read for each spawn, from the secrets directory or the service's credentials."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from config.load.files import present, read_regular
from config.problems import ConfigError, Fault, Problem, WrongValueError
from config.schema import Config

MAX_SECRET_BYTES: Final = 65_536
_PLAIN_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}"


def read_secret(config: Config, name: str) -> bytes:
    """The secret's bytes as they are now, unchanged, 1 to 65,536 of them.

    `secrets_dir` comes first. The service manager's credentials, fixed until the service
    restarts, come second. `ConfigError` names both places and never the content.
    """
    if not re.fullmatch(_PLAIN_NAME, name):
        raise _error(config, name, f"{name!r} is no plain file name", "name a file in secrets_dir")
    places = _places(config, name)
    for place in places:
        if not present(place):
            continue
        try:
            content = read_regular(place, MAX_SECRET_BYTES)
        except WrongValueError as error:
            raise _error(config, name, error.message, error.fix) from None
        if not content:
            # Redaction replaces every occurrence of a secret, and nothing occurs everywhere.
            raise _error(config, name, f"{place} is empty", "write the secret into it")
        return content
    looked = " or ".join(map(str, places))
    raise _error(
        config, name, f"no secret {name!r}: looked for {looked}", f"put it into {places[0]}"
    )


def secret_doubts(config: Config, secret_names: tuple[str, ...]) -> Iterator[Fault]:
    """What is worth a warning before the first spawn needs these secrets."""
    for name in secret_names:
        place = next((each for each in _places(config, name) if present(each)), None)
        if place is None:
            yield Fault(
                "secrets",
                f"no secret {name!r} yet, so no attempt can start",
                f"put it into {config.secrets_dir / name}",
            )
        elif _readable_by_everybody(place):
            yield Fault("secrets", f"everybody can read {place}", f"chmod o-rwx {place}")


def _places(config: Config, name: str) -> list[Path]:
    places = [config.secrets_dir / name]
    if config.origin.credentials_dir is not None:
        places.append(config.origin.credentials_dir / name)
    return places


def _readable_by_everybody(place: Path) -> bool:
    try:
        return bool(place.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def _error(config: Config, name: str, message: str, fix: str) -> ConfigError:
    return ConfigError([Problem(str(config.secrets_dir), name, message, fix)])
