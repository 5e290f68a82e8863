"""Reserve the goods. The provider makes as many reservations as it is asked for, and lists them."""

import json
import os
import sys
import time
import uuid

order = json.load(sys.stdin)["order"]
effect = os.environ["EFFECTD_EFFECT_ID"]
time.sleep(0.01)
path = f"{os.environ['WORLD']}/reserve {order} {effect} {uuid.uuid4()}"
os.close(os.open(path, os.O_CREAT, 0o644))
time.sleep(0.01)
print(json.dumps({"reserved": order}))
