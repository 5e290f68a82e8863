"""A handler as a test imports it: a function at the top level of a file."""

from __future__ import annotations

from effectd.handler import NotApplied, handler


@handler
def pay(value, effects):
    def make(effect):
        if value == "declined":
            raise NotApplied("no")
        return [value, effect.name]

    return effects.perform("pay", value, make)
