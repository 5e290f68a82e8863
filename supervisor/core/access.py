"""Who may do what: one table of verbs, and what a refusal says is missing."""

from __future__ import annotations

import enum
from collections.abc import Collection

from frozen import frozen


class Verb(enum.Enum):
    READ = "read"
    CREATE = "create"
    DRIVE = "resume, cancel, extend or reconcile"
    SETTLE = "resolve or attest"
    ADMIN = "administer"


@frozen
class Rule:
    """`role` is needed; `owned` says that it counts only for one's own, and `others` which
    role does for somebody else's."""

    role: str | None
    owned: bool
    others: str | None = None


RULES: dict[Verb, Rule] = {
    Verb.READ: Rule(None, owned=True, others="read"),
    Verb.CREATE: Rule("run", owned=False),
    Verb.DRIVE: Rule("run", owned=True, others="admin"),
    Verb.SETTLE: Rule("resolve", owned=False),
    Verb.ADMIN: Rule("admin", owned=False),
}


def missing_role(verb: Verb, roles: Collection[str], *, owns: bool) -> str | None:
    """The role that is missing, or None when it is allowed. `admin` holds them all."""
    if "admin" in roles:
        return None
    rule = RULES[verb]
    role = rule.role if owns or not rule.owned else rule.others
    return None if role is None or role in roles else role
