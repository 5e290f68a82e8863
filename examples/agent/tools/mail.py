"""Send a mail. Nobody can take it back, and the provider cannot say whether it went out."""

import json
import os
import sys
import time
import uuid

order = json.load(sys.stdin)["order"]
time.sleep(0.01)
os.close(os.open(f"{os.environ['WORLD']}/mail {order} {uuid.uuid4()}", os.O_CREAT, 0o644))
time.sleep(0.01)
print(json.dumps({"sent": order}))
