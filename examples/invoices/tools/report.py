"""Mail the report. Nobody can take a mail back, and the provider cannot say whether it went."""

import json
import os
import sys
import uuid

report = json.load(sys.stdin)
with open(f"{os.environ['WORLD']}/report {uuid.uuid4()}", "x", encoding="utf-8") as file:
    json.dump(report, file)
print(json.dumps({"sent": True}))
