"""The reconciler of `ticket`: asks the desk what it opened for this effect."""

import json
import sys

import deeds

effect = json.load(sys.stdin)
found = deeds.find_tickets(effect["effect_id"])
if found:
    print(json.dumps({"outcome": "applied", "result": found[0]}))
else:
    print(json.dumps({"outcome": "not_applied"}))
