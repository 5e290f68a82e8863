"""The same four deeds as a program that a plain worker starts: DEED KEY, with its input on stdin.

The key is the worker's job, and the same on every retry: it goes to the provider that takes one.
"""

import json
import sys

import deeds
import trouble

deed, key = sys.argv[1:]
given = json.load(sys.stdin)
trouble.begin(given)
if deed == "report":
    deeds.read_report(given["name"])
elif deed == "charge":
    deeds.charge(given["order"], given["amount_cents"], key)
elif deed == "ticket":
    deeds.open_ticket(given["title"], key)
else:
    deeds.send_mail(given["to"], given["subject"], key)
