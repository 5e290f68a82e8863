"""Charge a customer. The provider keeps idempotency keys: one charge for each key."""

import json
import os
import sys
import time

order = json.load(sys.stdin)
key = os.environ["EFFECTD_IDEMPOTENCY_KEY"]
ledger = f"{os.environ['WORLD']}/charge {order['customer']} {order['amount']} {key}"
time.sleep(0.2)  # a provider takes its time
os.close(os.open(ledger, os.O_CREAT, 0o644))
time.sleep(0.2)
print(json.dumps({"charged": order["amount"], "key": key}))
