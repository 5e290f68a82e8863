"""A whole is the fold: taken anywhere and read back, it goes on as if nothing had been."""

from __future__ import annotations

import inspect
import itertools

import attrs
import orjson
import pytest
from hypothesis import given
from immutables import Map

from supervisor.core import drawer, open_state, program_state, session_state
from supervisor.core import state as state_module
from supervisor.core.columns import text_of_bytes
from supervisor.core.decide.retention import DAY_NS
from supervisor.core.evolve import fold
from supervisor.core.ids import SessionId
from supervisor.core.state import State
from supervisor.core.step import ArtifactsAsked, SessionAsked, TimePassed
from supervisor.core.text import UnknownWhole
from supervisor.core.whole import CARRIED, DERIVED, Head, Index, lines, state_from
from supervisor.journal.records import decode
from tests.core.buried import small_blocks
from tests.core.examples import examples
from tests.core.made import CLIENT, MS, NONE, Core, effect, terms
from tests.core.older import is_filed, whole_of_version
from tests.core.packed import packed
from tests.core.situations import SITUATIONS
from tests.core.test_machine import history
from tests.core.test_properties import ASKED, NAME, ask


def is_the_fold_everywhere(frames: list[bytes]) -> None:
    """From every prefix; what was read back at one position goes on to the next, and so does
    what was packed at one."""
    state = again = small = State()
    for position, payload in enumerate(frames, 1):
        records = decode(payload)
        state, again, small = (fold(one, position, records) for one in (state, again, small))
        assert again == state
        assert small == state
        whole = list(lines(again))
        assert state_from(lines(small)) == state
        again, small = state_from(whole), packed(small)
        assert list(lines(again)) == whole
        assert again == state
        assert small == state


@pytest.mark.guarantee("J9")
@examples(20, 1_000)
@given(NAME, ASKED)
def test_fold_of_all_is_fold_of_the_whole_and_the_rest_at_every_position(name, asked):
    core = Core()
    call_id = SITUATIONS[name](core)
    for verb, n in asked:
        core.wait(1_000 * n)
        ask(core, call_id, verb, n)
    is_the_fold_everywhere(core.frames)


@pytest.mark.guarantee("J9")
@pytest.mark.parametrize("seed", range(2))
def test_it_is_in_whole_histories_too(seed, monkeypatch):
    small_blocks(monkeypatch, rows=3, texts=2)  # so that they have some
    is_the_fold_everywhere(history(seed).host.payloads)


@pytest.mark.guarantee("J9")
def test_artifacts_that_an_admin_accepted_are_part_of_it():
    core = Core()
    call_id = core.begin(terms(effect()))
    core.restart()
    digests = {name: letter * 64 for name, letter in (("mail", "f"), ("charge", "e"))}
    for letter in "ab":
        asked = {**digests, "charge": letter * 64}
        core.do(ArtifactsAsked(core.now, core.operation(call_id).operation_id, CLIENT, asked, "ok"))
    assert core.operation(call_id).accepted_digests["charge"] == {"a" * 64, "b" * 64}
    is_the_fold_everywhere(core.frames)


@pytest.mark.guarantee("J9")
def test_every_field_of_the_fold_is_carried_or_made_again():
    names = {field.name for field in attrs.fields(State)}
    assert names == {*CARRIED, *DERIVED}
    assert not {*CARRIED} & {*DERIVED}
    carried = {field.name for one in (Head, Index) for field in attrs.fields(one)}
    assert {*CARRIED} - {"catalogue"} <= carried
    assert {f"next_{line}" for line in ("finished", "interrupted", "buried")} <= carried


@pytest.mark.guarantee("J9")
def test_no_value_of_the_fold_has_a_field_that_is_not_written():
    """What is below `State` is carried by its class: none may keep a field to itself."""
    members = (
        inspect.getmembers(one, attrs.has)
        for one in (state_module, open_state, program_state, session_state)
    )
    for _, cls in itertools.chain(*members):
        for field in attrs.fields(cls):
            assert field.init, f"{cls.__name__}.{field.name}"
            assert field.eq, f"{cls.__name__}.{field.name}"


def values_of(state: State) -> list:
    return [orjson.loads(line) for line in lines(state)]


def state_of(values: list) -> State:
    return state_from(orjson.dumps(one) for one in values)


def both() -> State:
    """A dispatch that runs, and one that is done."""
    core = Core()
    core.begin(terms(effect()))
    core.exit(core.begin(terms(effect(contract=NONE)), "done"))
    return core.state


def replaced(value: dict, name: str, content: bytes) -> None:
    value[name] = text_of_bytes(content)


@pytest.mark.guarantee("R6", "J9")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda v: v.clear(), "head"),
        (lambda v: v.pop(), "no drawer"),
        (lambda v: (v.pop(), v.pop()), "does not read back"),
        (lambda v: v.append(v[-1]), "more than"),
        (lambda v: v[0].update(whole=4), "version 4"),
        (lambda v: v[0].update(whole=0), "version 0"),
        (lambda v: v[0].update(whole=True), "head"),
        (lambda v: v[0].update(claims={}), "does not read back"),
        (lambda v: v[0].pop("latest"), "does not read back"),
        (lambda v: (v[0].update(operations=2), v.insert(1, v[1])), "twice"),
        (lambda v: (v[0].update(left=["0", "0"]), v.append(v[3])), "twice"),
        (lambda v: v[0].update(left=["1"]), "or all"),
        (lambda v: v[0].update(left=["-1"]), "or all"),
        (lambda v: v[0].update(left=["x"]), "drawer does not read back"),
        (lambda v: v[1].update(place=0), "line"),
        (lambda v: v[1]["operation"].update(colour="red"), "does not read back"),
        (lambda v: v[1]["operation"].update(serial="0"), "does not read back"),
        (lambda v: v[1]["operation"].pop("budget"), "does not read back"),
        (lambda v: v[1]["operation"].update(calls=[]), "does not read back"),
        (lambda v: v[2].pop("facets"), "does not read back"),
        (lambda v: v[2].update(facets=[]), "not in its catalogue"),
        (lambda v: v[2]["facets"][0].update(nodes=[[0, "x"]]), "facet does not read back"),
        (lambda v: v[2]["facets"][2].update(kind="owner", value="me"), "facet does not read back"),
        (lambda v: v[3].update(colour="red"), "no drawer"),
        (lambda v: v[3].update(samples=1), "no drawer"),
        (lambda v: v[3].update(serials=1), "no text"),
        (lambda v: v[3].update(serials="*"), "drawer does not read back"),
        (lambda v: replaced(v[3], "places", b"\0" * 9), "middle of a number"),
        (lambda v: replaced(v[3], "places", b"\0" * 16), "as many rows"),
        (lambda v: replaced(v[3], "contents", b"\0"), "in its contents"),
        (lambda v: replaced(v[3], "sampled", b"\1\0"), "in its contents"),
        (lambda v: v[3].update(names=[]), "no prints"),
        (lambda v: v[3].update(hints=""), "no hints"),
    ],
    ids=range(33),
)
def test_what_is_no_whole_is_refused_and_says_why(change, says):
    value = values_of(both())
    assert state_of(value)
    change(value)
    with pytest.raises(UnknownWhole, match=says):
        state_of(value)


def test_rows_that_are_not_in_order_are_refused():
    core = Core()
    for n in range(2):
        core.exit(core.begin(terms(effect(contract=NONE)), f"done {n}"))
    value = values_of(core.state)
    replaced(value[2], "places", b"\0" * 16)
    with pytest.raises(UnknownWhole, match="not in order"):
        state_of(value)


@pytest.mark.guarantee("R6", "J9")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda v: v.pop(), "no operation behind it"),
        (lambda v: (v.pop(), v.pop()), "does not read back"),
        (lambda v: (v[0].update(operations=3), v.append(v[1])), "twice"),
        (lambda v: (v[0].update(operations=3), v.extend(v[2:])), "twice"),
        (lambda v: v[2].update(place=-1), "line"),
        (lambda v: v[2].pop("place"), "does not read back"),
        (lambda v: v[2].update(colour="red"), "does not read back"),
        (lambda v: v[2]["card"].update(colour="red"), "does not read back"),
        (lambda v: v[2]["card"].update(uid="0"), "does not read back"),
        (lambda v: v[2]["card"]["standing"].update(state=None), "does not read back"),
    ],
    ids=range(10),
)
def test_what_is_no_whole_of_the_second_version_is_refused_and_says_why(change, says):
    value = whole_of_version(2, both())
    assert state_of(value)
    change(value)
    with pytest.raises(UnknownWhole, match=says):
        state_of(value)


def test_a_session_that_is_in_it_twice_is_refused():
    core = Core()
    core.do(SessionAsked(core.now, SessionId("ses_1"), "s1", CLIENT))
    value = values_of(core.state)
    assert state_of(value).sessions
    value[0].update(sessions=2)
    value.insert(1, value[1])
    with pytest.raises(UnknownWhole, match="a session is in it twice"):
        state_of(value)


@pytest.mark.guarantee("R6", "J9")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", SITUATIONS)
def test_a_whole_of_an_older_version_is_read(name, version, monkeypatch):
    monkeypatch.setattr(drawer, "FULL_ROWS", 2)
    core = Core()
    SITUATIONS[name](core)
    for n in range(3):
        core.exit(core.begin(terms(effect(contract=NONE)), f"done {n}"))
    first = whole_of_version(version, core.state)
    again = state_of(first)
    assert again == core.state
    assert is_filed(again) is (version > 1)
    assert state_from(lines(again)) == core.state


def test_a_line_that_is_no_json_is_refused():
    with pytest.raises(UnknownWhole, match="no JSON"):
        state_from([b"{"])


def test_messages_whose_records_a_repair_gave_up_stay_refused():
    state = attrs.evolve(State(), forgotten=Map({("s", "b"): 7, ("s", "a"): 3}))
    assert state_from(lines(state)) == state


def buried() -> list:
    """A whole of two blocks, of which a tombstone is gone, and a tombstone behind them."""
    core = Core()
    for n in range(7):
        core.exit(core.begin(terms(effect(contract=NONE)), f"r{n}"))
    core.wait(30 * DAY_NS // MS)
    core.do(TimePassed(core.now, 1_000, 30, 400, 30))
    state = attrs.evolve(core.state, tombstones=core.state.tombstones.without_oldest())
    assert state_from(lines(state)) == state
    return values_of(state)


@pytest.mark.guarantee("R6", "J9")
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda v: v[0].update(gone=3), "more are gone"),
        (lambda v: v[0].update(blocks=3), "no block"),
        (lambda v: v[0].update(blocks=1), "number"),
        (lambda v: v[0].update(tombstones=7), "number"),
        (lambda v: v[1].pop("texts"), "no block"),
        (lambda v: v[1].update(texts="text"), "no column of tombstones: texts"),
        (lambda v: v[2]["messages"].pop(), "no prints"),
        (lambda v: v[2]["texts"].append(""), "has not 6"),
        (lambda v: (v[0].update(blocks=3), v.insert(3, v[2])), "neither 9 nor 3"),
        (lambda v: v[3][0].pop(), "no tombstone"),
    ],
    ids=range(10),
)
def test_tombstones_that_are_no_whole_are_refused_and_say_why(change, says, monkeypatch):
    small_blocks(monkeypatch, rows=3, texts=3)
    value = buried()
    assert len(state_of(value).tombstones) == 6
    index = value.pop(1)
    change(value)
    value.insert(1, index)
    with pytest.raises(UnknownWhole, match=says):
        state_of(value)
