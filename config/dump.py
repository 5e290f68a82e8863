"""The effective configuration as a file that loads to the same."""

from __future__ import annotations

import tomli_w

from config.convert import document_of
from config.schema import Config

HEADER = """\
# The effective configuration of effectd: every key, defaults included.
# Source: {source}
"""


def dump(config: Config) -> str:
    """TOML with a comment on where it came from. No secret is in it: none is a key."""
    origin = config.origin
    source = "built-in defaults" if origin.file is None else str(origin.file)
    if origin.dev:
        source += ", with the defaults of --dev"
    if origin.overrides:
        source += f", and from the command line: {', '.join(sorted(origin.overrides))}"
    # A file name can hold a line break, and a comment cannot.
    source = source.encode("unicode_escape").decode()
    return HEADER.format(source=source) + "\n" + tomli_w.dumps(document_of(config))
