"""How the demo fails: in one sentence, and with the file that tells more."""

from __future__ import annotations

from pathlib import Path


class DemoFailed(Exception):
    """The demo cannot go on. `look_at` is a file worth reading, if there is one."""

    def __init__(self, what: str, look_at: Path | None = None) -> None:
        super().__init__(what)
        self.look_at = look_at
