"""The manifests of the handlers here, as they are installed on a machine."""

from __future__ import annotations

PLACE = "/opt/tools"

CHARGE = f"""
manifest = 1
command = ["{PLACE}/charge.py"]
timeout_ms = 60_000
grace_ms = 300
[[effect]]
name = "charge"
contract = "idempotency_key"
[sandbox]
write = ["/srv/provider"]
"""

# The host's view of everything, and no namespace that ends it.
TRUSTED = """level = "none"
trusted = true
"""

LOOK = f"""
manifest = 1
command = ["{PLACE}/look.py"]
timeout_ms = 20_000
read_only = true
[sandbox]
"""

GREEDY = f"""
manifest = 1
command = ["{PLACE}/greedy.py"]
timeout_ms = 60_000
read_only = true
[sandbox]
memory_max = "64M"
tasks_max = 16
"""

PROGRAMS = ("charge.py", "greedy.py", "look.py")
MANIFESTS = {
    "charge": CHARGE,
    "charge-trusted": CHARGE.replace('write = ["/srv/provider"]\n', TRUSTED),
    "greedy": GREEDY,
    "look": LOOK,
    "look-trusted": LOOK + TRUSTED,
}
