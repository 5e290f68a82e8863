"""Handler `mail`, contract no_safe_retry."""

import deeds
import trouble

from effectd.handler import handler


@handler
def mail(given, effects):
    def make(effect):
        return deeds.send_mail(given["to"], given["subject"], effect.effect_id)

    trouble.begin(given)
    request = {"to": given["to"], "subject": given["subject"]}
    return effects.perform("mail", request, make)
