"""The reconciler of `reserve`: does the provider have this reservation?"""

import json
import os
import sys

effect = json.load(sys.stdin)["effect_id"]
found = [name for name in os.listdir(os.environ["WORLD"]) if effect in name]
if found:
    print(json.dumps({"outcome": "applied", "result": {"reserved": found[0].split()[1]}}))
else:
    print(json.dumps({"outcome": "not_applied"}))
