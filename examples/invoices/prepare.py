"""Make a directory with everything that the example needs: invoices, a program, tools, a world.

prepare.py DIRECTORY
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

TOOLS = Path(__file__).parent / "tools"
CUSTOMERS = ("ann", "ben", "cem", "dee", "eva", "fay", "gus", "hal", "ida", "jon")
INVOICES = {name: {"amount": 100 + 10 * n} for n, name in enumerate(CUSTOMERS)}
# Each tool is one effect of the whole call: the programs know nothing of effectd.
EFFECTS = {
    "charge": 'contract = "idempotency_key"',
    "report": 'contract = "no_safe_retry"\nhow_to_check = "the outbox"',
}
MANIFEST = """\
manifest = 1
command = ["{tools}/{name}.py"]
timeout_ms = 10_000
grace_ms = 200
max_running = 4
env = {{ WORLD = "{world}" }}

[[effect]]
name = "{name}"
scope = "call"
{effect}

[sandbox]
read = ["{world}"]
write = ["{world}"]
"""


def program(by: str) -> dict[str, object]:
    """A program has no loops, so it is written for the invoices at hand: a branch for each."""
    return {
        "schema_version": "effectd-program-v1",
        "nodes": [
            {"id": "total", "bind": "sum(values(input)[].amount)"},
            {
                "id": "go",
                "approve": {
                    "by": [by],
                    "expires_ms": 3_600_000,
                    "prompt": "Charge ten customers?",
                },
            },
            {
                "id": "charges",
                "parallel": {
                    "on_failure": "collect",
                    "branches": {name: [_charge(name)] for name in CUSTOMERS},
                },
            },
            {
                "id": "report",
                "call_tool": {
                    "handler": "report",
                    "input": {
                        "total": {"$": "total"},
                        "charged": {"$": "values(charges)[].charged"},
                    },
                },
            },
            {"id": "done", "give": {"total": {"$": "total"}, "charges": {"$": "charges"}}},
        ],
    }


def _charge(name: str) -> dict[str, object]:
    given = {"customer": name, "amount": {"$": f"input.{name}.amount"}}
    return {"id": "charge", "call_tool": {"handler": "charge", "input": given}}


def interpreter() -> Path:
    """A Python that the user of the handlers may run too."""
    usual = Path("/usr/bin/python3")
    return usual if usual.exists() else Path(sys.executable).resolve()


def prepare(directory: Path) -> None:
    tools, world, manifests = (directory / name for name in ("tools", "world", "handlers.d"))
    for one in (tools, world, manifests):
        one.mkdir(parents=True, exist_ok=True)
    world.chmod(0o777)  # a daemon of root's runs its handlers as somebody else
    for source in TOOLS.glob("*.py"):
        tool = tools / source.name
        tool.write_text(f"#!{interpreter()} -IS\n{source.read_text()}")
        tool.chmod(0o755)
    for name, effect in EFFECTS.items():
        text = MANIFEST.format(tools=tools, world=world, name=name, effect=effect)
        (manifests / f"{name}.toml").write_text(text)
    by = f"user:{directory.owner()}"
    (directory / "program.json").write_text(json.dumps(program(by), indent=1))
    (directory / "invoices.json").write_text(json.dumps(INVOICES, indent=1))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    prepare(Path(sys.argv[1]).resolve())
