"""Handler `charge`, contract idempotency_key."""

import deeds
import trouble

from effectd.handler import handler


@handler
def charge(given, effects):
    def make(effect):
        return deeds.charge(given["order"], given["amount_cents"], effect.idempotency_key)

    trouble.begin(given)
    request = {"order": given["order"], "amount_cents": given["amount_cents"]}
    return effects.perform("charge", request, make)
