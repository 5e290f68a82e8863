"""Charge for an order. The provider keeps idempotency keys: one charge for each key."""

import json
import os
import sys
import time

order = json.load(sys.stdin)["order"]
key = os.environ["EFFECTD_IDEMPOTENCY_KEY"]
time.sleep(0.01)
os.close(os.open(f"{os.environ['WORLD']}/charge {order} {key}", os.O_CREAT, 0o644))
time.sleep(0.01)
print(json.dumps({"charged": order}))
