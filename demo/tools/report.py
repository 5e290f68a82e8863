"""Handler `report`, contract none. It knows nothing of effectd: JSON in, JSON out."""

import json
import sys

import deeds
import trouble

given = json.load(sys.stdin)
trouble.begin(given)
print(json.dumps(deeds.read_report(given["name"])))
