"""How the demo fails: in one sentence, and with the file that tells more."""

from __future__ import annotations

from pathlib import Path


class DemoFailed(Exception):
    """The demo cannot go on. `look_at` names the files that tell more."""

    def __init__(self, what: str, *look_at: Path) -> None:
        super().__init__(what)
        self.look_at = look_at
