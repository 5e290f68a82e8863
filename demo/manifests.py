"""The four handlers' manifests, as an operator would write them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from string import Template

TIMEOUT_MS = 60_000
GRACE_MS = 300

SHARED_FILES = ("deeds.py", "trouble.py")
OWN_FILES = {"ticket": ("find_ticket.py",)}
EFFECTS = {
    "report": "",  # read only: one effect `none`, the whole call
    "charge": """
[[effect]]
name = "charge"
contract = "idempotency_key"
""",
    "ticket": """
[[effect]]
name = "ticket"
contract = "reconciliation"
reconcile = { command = $finder, timeout_ms = 10_000, settle_ms = 1_000 }
""",
    "mail": """
[[effect]]
name = "mail"
contract = "no_safe_retry"
how_to_check = "the mail server's books: Message-ID {effect_id}"
""",
}


def write_manifests(
    directory: Path, tools: Path, python: str, environment: Mapping[str, str]
) -> None:
    """Write one file for each handler; `environment` is what every one of them is given."""
    # A Python outside the system's directories brings its library along.
    library = os.path.dirname(os.path.dirname(python))
    read = [str(tools)] if library == "/usr" else [str(tools), library]
    finder = json.dumps([python, str(tools / "find_ticket.py")])
    env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in environment.items())
    for name, effect in EFFECTS.items():
        artifacts = json.dumps(
            [str(tools / file) for file in (*OWN_FILES.get(name, ()), f"{name}.py", *SHARED_FILES)]
        )
        command = json.dumps([python, str(tools / f"{name}.py")])
        effects = Template(effect).substitute(finder=finder)
        (directory / f"{name}.toml").write_text(
            f"""manifest = 1
description = "the demo's {name}"
command = {command}
artifacts = {artifacts}
timeout_ms = {TIMEOUT_MS}
grace_ms = {GRACE_MS}
read_only = {"false" if effect else "true"}
max_running = 64
env = {{ {env} }}
{effects}
[sandbox]
network = "host"
read = {json.dumps(read)}
"""
        )
