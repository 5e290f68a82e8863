"""Handler `ticket`, contract reconciliation: the ticket carries the effect's id."""

import deeds
import trouble

from effectd.handler import handler


@handler
def ticket(given, effects):
    def make(effect):
        return deeds.open_ticket(given["title"], effect.effect_id)

    trouble.begin(given)
    return effects.perform("ticket", {"title": given["title"]}, make)
