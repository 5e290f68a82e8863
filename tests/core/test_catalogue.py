"""Lists: they show what looking at everything would show, and look at a page's worth."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
import pytest

from supervisor.api import listing
from supervisor.api.command import Page, page_of
from supervisor.api.fields import Invalid, Query
from supervisor.api.routes import ListEffects, ListOperations
from supervisor.core import catalogue
from supervisor.core.ids import default_session
from supervisor.core.lineage import needs_of
from supervisor.core.ordered import END
from supervisor.core.standing import operation_state
from tests.core.crowd import USERS, Crowd, crowd
from tests.core.made import NOON, effect, terms

STATES = ("succeeded", "unknown", "interrupted,running", "failed,cancelled", "accepted", "odd")


@pytest.fixture(scope="module")
def full() -> Crowd:
    return crowd()


def pages(show, command):
    """All that is listed, in the smallest pages that are any."""
    items, cursor = [], None
    while True:
        page = show(attrs.evolve(command, page=Page(2, cursor)))
        items += page["items"]
        assert len(page["items"]) <= 2
        if page["next_cursor"] is None:
            return items
        cursor = int(page["next_cursor"])


def at(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat()


WANTED = [
    {},
    *({"state": state} for state in STATES),
    *({"handler": name} for name in ("mail", "none")),
    *({"session": default_session(uid)} for uid in (*USERS, 7)),
    *({"needs": needs} for needs in ("person", "reconciler", "client", "nothing", "odd")),
    {"since": at(NOON + 20_000_000_000)},
    {"handler": "mail", "state": "unknown", "session": "uid:1001", "needs": "person"},
    {"handler": "mail", "needs": "reconciler", "since": at(NOON + 9_000_000_000)},
]


@pytest.mark.parametrize("owner", [None, *USERS, 7])
@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_operations_are_those_that_fit_newest_first(full, wanted, owner):
    state, now = full.state, full.now
    command = ListOperations(Page(1, None), **{**dict.fromkeys(FILTERS), **wanted})

    def fits(one):
        since = datetime.fromisoformat(wanted.get("since", at(0))).timestamp() * 1e9
        return (
            owner in {None, one.by.uid}
            and one.at >= since
            and wanted.get("session", one.session_id) == one.session_id
            and ("state" not in wanted or operation_state(one).value in wanted["state"].split(","))
            and any(wanted.get("handler", c.terms.handler) == c.terms.handler for c in calls(one))
            and ("needs" not in wanted or wanted["needs"] in needs(one, now))
        )

    listed = pages(lambda asked: listing.operations(state, asked, owner, now), command)
    known = sorted(state.operations.values(), key=lambda one: -one.serial)
    assert [one["operation_id"] for one in listed] == [o.operation_id for o in known if fits(o)]


FILTERS = ("state", "handler", "session", "request_id", "needs", "since")


def calls(operation):
    return operation.calls.values()


def needs(operation, now):
    return {needs_of(operation, one, now).value for one in operation.effects.values()}


def test_a_request_id_finds_its_operation_in_any_session(full):
    for one in full.state.operations.values():
        for session in (None, one.session_id, "uid:7"):
            asked = {**dict.fromkeys(FILTERS), "request_id": one.request_id, "session": session}
            command = ListOperations(Page(5, None), **asked)
            listed = listing.operations(full.state, command, None, full.now)["items"]
            assert [i["operation_id"] for i in listed] == [one.operation_id] * (session != "uid:7")


@pytest.mark.parametrize("owner", [None, 1001])
@pytest.mark.parametrize("outcome", [None, "applied", "not_applied", "unknown", "announced", "odd"])
@pytest.mark.parametrize(
    ("needed", "handler"), [(None, None), ("person", None), ("nothing", "mail"), ("client", "mail")]
)
def test_effects_are_those_that_fit_newest_first(full, owner, outcome, needed, handler):
    state, now = full.state, full.now
    command = ListEffects(Page(1, None), outcome, needed, handler)
    listed = pages(lambda asked: listing.effects(state, asked, owner, now), command)
    known = [
        one.effect_id
        for operation in sorted(state.operations.values(), key=lambda o: -o.serial)
        for one in operation.effects.values()
        if owner in {None, operation.by.uid}
        and outcome in {None, one.outcome.value}
        and needed in {None, needs_of(operation, one, now).value}
        and handler in {None, operation.calls[one.newest.call_id].terms.handler}
    ]
    assert [one["effect_id"] for one in listed] == known


def test_messages_are_listed_newest_first_and_evicted_ones_behind_them():
    core = Crowd()
    for n in range(7):
        core.confirm(call_id := core.begun("charge", USERS[n % 5 == 1]))
        core.exit(call_id)
    kept = core.submitted(terms(effect()), "kept", session_id="uid:1000", operations_kept=4)
    while core.state.operations.get(kept.operation_id) is None:
        assert core.do(kept).refusal is None
    core.do(attrs.evolve(core.submitted(terms(effect()), "last"), operations_kept=3))

    def show(asked):
        found = listing.session_view(core.state, default_session(1000), asked.page)
        return {"items": found["messages"], "next_cursor": found["next_cursor"]}

    listed = pages(show, ListOperations(Page(1, None), *[None] * 6))
    known = [*core.state.messages, *(one.message for one in core.state.tombstones)]
    mine = [message for message in known if message[0] == "uid:1000"]
    assert sorted(one["message_id"] for one in listed) == sorted(message for _, message in mine)
    gone = [one["state"] == "expired" for one in listed]
    assert gone == sorted(gone)
    assert 0 < sum(gone) < len(gone)
    known = [one["operation_id"] for one in listed if one["operation_id"] in core.state.operations]
    assert known == sorted(known, key=lambda one: -core.state.operations[one].serial)


@pytest.mark.parametrize("cursor", [0, 1 << 39, 1 << 40, 1 << 72, 10**40])
def test_a_cursor_that_nobody_gave_shows_what_stands_below_it(full, cursor):
    command = ListOperations(Page(1_000, cursor), *[None] * 6)
    listed = listing.operations(full.state, command, None, full.now)["items"]
    assert len(listed) == (len(full.state.operations) if cursor else 0)
    asked = ListEffects(Page(1_000, cursor), None, None, None)
    assert bool(listing.effects(full.state, asked, None, full.now)["items"]) is (cursor > 0)
    messages = listing.session_view(full.state, default_session(1000), Page(1_000, cursor))
    assert bool(messages["messages"]) is (0 < cursor < 1 << 40)


class Looks:
    """How often a list asked an ordered set for its next number, and looked at an effect."""

    def __init__(self, monkeypatch) -> None:
        self.count = 0
        for where, name in ((catalogue.Ordered, "at_most"), (listing, "needs_of")):
            monkeypatch.setattr(where, name, self._counting(getattr(where, name)))

    def _counting(self, made):
        def counted(*given):
            self.count += 1
            return made(*given)

        return counted

    def of(self, show) -> int:
        self.count = 0
        show()
        return self.count


@pytest.fixture(scope="module")
def fuller() -> Crowd:
    return crowd(12)


@pytest.fixture(scope="module")
def few() -> Crowd:
    return crowd(2)


# Where two filters leave nothing together, a page costs as often as they alternate.
TOGETHER = [
    (wanted, owner)
    for wanted in WANTED
    for owner in (None, 1001)
    if wanted.get("session") != "uid:1000"
]


@pytest.mark.parametrize(("wanted", "owner"), TOGETHER, ids=str)
def test_a_page_costs_what_it_costs_among_few(few, fuller, wanted, owner, monkeypatch):
    looks = Looks(monkeypatch)

    def first(core, cursor=None):
        command = ListOperations(Page(1, cursor), **{**dict.fromkeys(FILTERS), **wanted})
        return listing.operations(core.state, command, owner, core.now)

    def cost(core):
        later = first(core)["next_cursor"]
        of_first = looks.of(lambda: first(core))
        of_later = looks.of(lambda: first(core, int(later))) if later is not None else 0
        return max(of_first, of_later)

    assert len(fuller.state.operations) > 5 * len(few.state.operations)
    assert cost(fuller) <= 3 * cost(few)


@pytest.mark.parametrize("cursor", ["", "-1", "1.5", "²", "٣", "x", "9" * 31, "9" * 5_000])
def test_a_cursor_that_is_no_number_of_ours_is_refused(cursor):
    with pytest.raises(Invalid, match="next_cursor"):
        page_of(Query({"cursor": [cursor]}))


def test_the_largest_cursor_of_an_effect_is_one():
    largest = str((END - 1) << 32 | (1 << 32) - 1)
    assert page_of(Query({"cursor": [largest]})).cursor == int(largest)
