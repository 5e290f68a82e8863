"""Make a directory with everything that the agent's daemon needs: tools, manifests, a world.

prepare.py DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

TOOLS = Path(__file__).parent / "tools"
# Each tool is one effect of the whole call: the programs know nothing of effectd.
EFFECTS = {
    "charge": 'contract = "idempotency_key"',
    "reserve": """contract = "reconciliation"
[effect.reconcile]
command = ["{tools}/find_reservation.py"]
timeout_ms = 5_000
settle_ms = 0""",
    "mail": 'contract = "no_safe_retry"\nhow_to_check = "the outbox"',
}
MANIFEST = """\
manifest = 1
command = ["{tools}/{name}.py"]
timeout_ms = 10_000
grace_ms = 200
env = {{ WORLD = "{world}" }}

[[effect]]
name = "{name}"
scope = "call"
{effect}

[sandbox]
read = ["{world}"]
write = ["{world}"]
"""


def interpreter():
    """A Python that the user of the handlers may run too."""
    usual = Path("/usr/bin/python3")
    return usual if usual.exists() else Path(sys.executable).resolve()


def prepare(directory):
    tools, world, manifests = (directory / name for name in ("tools", "world", "handlers.d"))
    for one in (tools, world, manifests):
        one.mkdir(parents=True, exist_ok=True)
    world.chmod(0o777)  # a daemon of root's runs its handlers as somebody else
    for source in TOOLS.glob("*.py"):
        tool = tools / source.name
        tool.write_text(f"#!{interpreter()} -IS\n{source.read_text()}")
        tool.chmod(0o755)
    for name, effect in EFFECTS.items():
        values = {"tools": tools, "world": world, "name": name}
        text = MANIFEST.format(**values, effect=effect.format(**values))
        (manifests / f"{name}.toml").write_text(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    prepare(Path(sys.argv[1]).resolve())
