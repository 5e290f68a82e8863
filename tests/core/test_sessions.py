"""Sessions: made once for each request, counted, and needed before a message."""

from __future__ import annotations

import pytest

from supervisor.core.ids import SessionId
from supervisor.core.record import By
from supervisor.core.step import Decision, SessionAsked
from tests.core.made import CLIENT, Core, code, effect, kinds, terms, unchanged


def ask(core: Core, request_id: str, by: By = CLIENT, **members: object) -> Decision:
    one = SessionId(core.name("ses"))
    return core.do(SessionAsked(core.now, one, request_id, by, **members))  # type: ignore[arg-type]  # labels, sessions_max


@pytest.mark.guarantee("R8")
def test_the_same_request_of_the_same_user_names_the_same_session():
    core = Core()
    first = ask(core, "s1", labels={"team": "billing"})
    assert kinds(first) == ["SessionCreated"]
    again = ask(core, "s1", labels={"team": "billing"})
    assert again.session_id == first.session_id
    assert unchanged(again)
    assert code(ask(core, "s1", labels={})) == "RequestConflict"
    other = ask(core, "s1", By(1001, 7))
    assert other.session_id not in {None, first.session_id}


@pytest.mark.guarantee("R8", "R10")
def test_a_message_needs_its_session_and_is_unique_in_it():
    core = Core()
    missing = core.submitted(terms(effect()), "m1", session_id="ses_none")
    refused = core.do(missing)
    assert code(refused) == "NotFound"
    assert unchanged(refused)
    one, two = ask(core, "s1").session_id, ask(core, "s2").session_id
    first = core.do(core.submitted(terms(effect()), "m1", session_id=one))
    other = core.do(core.submitted(terms(effect()), "m1", session_id=two))
    again = core.do(core.submitted(terms(effect()), "m1", session_id=one))
    assert first.operation_id != other.operation_id
    assert again.operation_id == first.operation_id
    assert unchanged(again)


@pytest.mark.guarantee("R10")
def test_no_more_sessions_than_the_limit_are_made():
    core = Core()
    made = [ask(core, f"s{n}", sessions_max=3) for n in range(4)]
    assert [code(one) for one in made] == [None, None, None, "LimitExceeded"]
    assert unchanged(made[3])
    assert ask(core, "s0", sessions_max=3).session_id == made[0].session_id
