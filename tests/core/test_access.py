"""Who may do what: every verb, every role, one's own and somebody else's."""

from __future__ import annotations

import pytest

from supervisor.core.access import RULES, Verb, missing_role

# verb: (role, own) -> missing role, None where it is allowed
TABLE = {
    Verb.READ: {
        ("", True): None,
        ("", False): "read",
        ("read", False): None,
        ("run", False): "read",
        ("resolve", False): "read",
        ("admin", False): None,
    },
    Verb.CREATE: {
        ("", True): "run",
        ("read", True): "run",
        ("run", True): None,
        ("resolve", True): "run",
        ("admin", True): None,
    },
    Verb.DRIVE: {
        ("", True): "run",
        ("read", True): "run",
        ("run", True): None,
        ("run", False): "admin",
        ("resolve", False): "admin",
        ("admin", False): None,
    },
    Verb.SETTLE: {
        ("", True): "resolve",
        ("run", True): "resolve",
        ("run", False): "resolve",
        ("resolve", True): None,
        ("resolve", False): None,
        ("admin", False): None,
    },
    Verb.ADMIN: {
        ("", True): "admin",
        ("run", True): "admin",
        ("resolve", True): "admin",
        ("admin", False): None,
    },
}
CELLS = [
    pytest.param(verb, role, owns, missing, id=f"{verb.name} {role or 'nobody'} {owns}")
    for verb, row in TABLE.items()
    for (role, owns), missing in row.items()
]


@pytest.mark.guarantee("R12")
@pytest.mark.parametrize(("verb", "role", "owns", "missing"), CELLS)
def test_a_verb_needs_its_role_and_a_denial_names_it(verb, role, owns, missing):
    assert missing_role(verb, {role} - {""}, owns=owns) == missing


def test_every_verb_has_its_row():
    assert set(TABLE) == set(Verb) == set(RULES)
