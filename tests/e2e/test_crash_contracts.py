"""A SIGKILL exactly between an effect and its record, under each contract and in each scope.

Everything happens once (support/story.py); each test then looks at its own operation, and brings it
to its end, through the public API alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support.api import Document
from tests.e2e.support.daemon import GONE_S, new_daemon
from tests.e2e.support.manifests import CONTRACTS, TIMEOUT_MS
from tests.e2e.support.settle import offered, settle
from tests.e2e.support.story import CELLS, OPERATIONS, SHORT_MS, Story, request_of


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    with new_daemon() as daemon:
        yield Story(daemon.start()).tell()


def timeless(document: Any) -> Any:
    """The document without what only says when it was made."""
    if isinstance(document, dict):
        kept = {k: timeless(v) for k, v in document.items()}
        return {k: v for k, v in kept.items() if k not in {"as_of", "age_ms"}}
    return [timeless(one) for one in document] if isinstance(document, list) else document


# --- the kill and the restarts ----------------------------------------------------------------


@pytest.mark.guarantee("S2")
def test_nothing_outlives_a_killed_daemon(story: Story) -> None:
    assert story.survived_s < GONE_S


@pytest.mark.guarantee("R1")
def test_a_restart_starts_nothing_and_interrupts_everything_in_one_frame(story: Story) -> None:
    assert [event["type"] for event in story.events] == ["daemon_started", "daemon_started"]
    assert story.handlers_alive == []
    states = {name: seen["state"] for name, seen in story.seen[0].items()}
    assert set(states.values()) == {"interrupted", "unknown"}, states


@pytest.mark.guarantee("R1", "R4")
def test_a_second_restart_changes_nothing(story: Story) -> None:
    assert timeless(story.seen[1]) == timeless(story.seen[0])


@pytest.mark.guarantee("R3")
def test_a_recovery_document_lists_everything_in_the_order_in_which_it_was_announced(
    story: Story,
) -> None:
    for seen in story.seen:
        for recovery in seen.values():
            ordinals = [effect["ordinal"] for effect in recovery["effects"]]
            assert ordinals == sorted(ordinals)
            asked = [one["ordinal"] for one in recovery["correlations"]]
            assert asked == sorted(asked)


@pytest.mark.guarantee("R4")
def test_what_one_operation_does_moves_no_other_ones_checkpoint(story: Story) -> None:
    before, after = (timeless({**seen, "twice": None}) for seen in story.seen[1:])
    assert after == before
    assert story.seen[2]["twice"]["checkpoint"] != story.seen[1]["twice"]["checkpoint"]


@pytest.mark.guarantee("R8")
def test_the_same_request_again_is_the_same_operation_after_the_crash(story: Story) -> None:
    one = OPERATIONS["never"]
    given = {"tag": "never", "effects": one.effects, "meet": [one.at], **one.input}
    again = story.api.dispatch(one.handler, given, request_of("never"))
    assert (again.status, again.ok()["operation_id"]) == (200, story.ids["never"])
    other = story.api.dispatch(one.handler, {**given, "tag": "other"}, request_of("never"))
    assert (other.status, other.code) == (409, "RequestConflict")


@pytest.mark.guarantee("R4")
def test_the_same_resume_again_is_the_same_one_and_another_on_its_revision_conflicts(
    story: Story,
) -> None:
    path = f"operations/{story.ids['twice']}/resume"
    calls = story.now("twice")["calls"]
    assert story.api.post(path, story.resume).status == 200
    other = story.api.post(path, {**story.resume, "resume_request_id": "twice-2"})
    assert (other.status, other.code) == (409, "DurableResumeConflict")
    assert "twice-1" in other.document["detail"]
    revision = story.resume["checkpoint_revision"] + 1
    moved = story.api.post(path, {**story.resume, "checkpoint_revision": revision})
    assert (moved.status, moved.code) == (409, "DurableResumeConflict")
    assert story.now("twice")["calls"] == calls


# --- what the table says ----------------------------------------------------------------------

ANSWERS: dict[str, tuple[str, str, set[str], list[str]]] = {
    "none": ("interrupted", "repeat", {"resume", "cancel", "extend"}, []),
    "key": ("unknown", "retry", {"resume", "resolve", "cancel", "extend"}, []),
    "check": (
        "unknown",
        "ReconciliationRequired",
        {"reconcile", "resolve", "cancel", "extend"},
        ["ReconciliationRequired"],
    ),
    "never": (
        "unknown",
        "EffectOutcomeUnknown",
        {"resolve", "cancel", "extend"},
        ["EffectOutcomeUnknown"],
    ),
}
UNKNOWN = [*CELLS, *(f"{word} unmade" for word in CONTRACTS)]


@pytest.mark.guarantee("E4", "E6", "R3")
@pytest.mark.parametrize("name", UNKNOWN)
def test_each_contract_is_answered_as_the_table_says(story: Story, name: str) -> None:
    recovery = story.seen[0][name]
    state, verdict, actions, codes = ANSWERS[re.split("[ -]", name)[0]]
    (effect,) = recovery["effects"]
    assert (recovery["state"], effect["outcome"], effect["verdict"]) == (state, "unknown", verdict)
    assert set(recovery["allowed_actions"]) == actions
    assert [refusal["code"] for refusal in recovery["refusals"]] == codes
    assert [one["effect_id"] for one in recovery["correlations"]] == [effect["effect_id"]]


@pytest.mark.guarantee("E4", "R3")
@pytest.mark.parametrize("name", ["check", "check-call", "never", "never-call", "cancelled"])
def test_a_resume_that_recovery_does_not_offer_is_refused_and_changes_nothing(
    story: Story, name: str
) -> None:
    before = story.seen[0][name]
    refused = story.api.resume(story.ids[name])
    assert refused.status == 409
    assert refused.code == before["refusals"][0]["code"]
    assert refused.document["retryable"] is False
    said = " ".join(str(refused.document[key]) for key in ("title", "detail", "fix", "for_model"))
    assert not re.search(r"(?<!not )\b(try|send|run|call) (it )?again", said, re.IGNORECASE), said
    assert story.api.recovery(story.ids[name])["checkpoint"] == before["checkpoint"]


@pytest.mark.guarantee("E1", "E6")
def test_killed_before_leave_nothing_is_known_to_exist_and_it_goes_on(story: Story) -> None:
    recovery = story.seen[0]["before"]
    assert (recovery["state"], recovery["effects"]) == ("interrupted", [])
    done = story.api.resume(story.ids["before"]).ok()
    assert done["state"] == "succeeded"
    assert list(story.world.changes("before").values()) == [1]
    assert len(done["calls"]) == 1


@pytest.mark.guarantee("R1", "R11")
def test_what_was_accepted_and_never_started_is_charged_nothing_and_goes_on(story: Story) -> None:
    assert story.operations["queued"]["budget"]["charged_ms"] == 0
    done = story.api.resume(story.ids["queued"]).ok()
    assert (done["state"], list(story.world.changes("queued").values())) == ("succeeded", [1])


# --- to the end -------------------------------------------------------------------------------


@pytest.mark.guarantee("E4", "B3", "B4")
@pytest.mark.parametrize("name", ["none", "none-call"])
def test_none_is_simply_repeated_as_the_next_attempt(story: Story, name: str) -> None:
    done = story.api.resume(story.ids[name]).ok()
    assert done["state"] == "succeeded"
    assert story.made(name) == 2
    assert [one["relaunch"] for one in done["call"]["attempts"]] == ["first", "repeat"]
    assert_charged(done, interrupted_ms=TIMEOUT_MS)


@pytest.mark.guarantee("E3", "E4", "B3", "B4")
@pytest.mark.parametrize("name", ["key", "key-call"])
def test_a_key_is_sent_again_in_a_new_call_and_the_change_is_there_once(
    story: Story, name: str
) -> None:
    done = story.api.resume(story.ids[name]).ok()
    assert done["state"] == "succeeded"
    assert (story.made(name), story.world.asked(story.effect_ids[name])) == (1, 2)
    first, second = done["calls"]
    assert (done["call"]["call_id"], done["call"]["retry_of"]) == (second, first)
    assert story.api.call(first)["retried_by"] == second
    (effect,) = done["call"]["effects"]
    assert (effect["effect_id"], effect["outcome"]) == (story.effect_ids[name], "applied")
    # What the first try itself did stays unknown; that the change is there is known.
    assert [one["outcome"] for one in effect["tries"]] == ["unknown", "applied"]
    assert_charged(done, interrupted_ms=TIMEOUT_MS)


@pytest.mark.guarantee("E4", "B8")
@pytest.mark.parametrize("name", ["check", "check-call"])
def test_the_provider_is_asked_and_its_word_is_handed_back_without_a_launch(
    story: Story, name: str
) -> None:
    settled = story.api.reconcile(story.effect_ids[name]).ok()
    (effect,) = settled["call"]["effects"]
    assert (effect["outcome"], effect["settled_by"]) == ("applied", "reconciler")
    done = story.api.resume(story.ids[name]).ok()
    assert (done["state"], done["call"]["replayed"]) == ("succeeded", True)
    assert done["result"] == {"receipt": story.world.receipt(story.effect_ids[name])}
    assert (story.made(name), story.starts(name)) == (1, 1)
    assert done["budget"] == story.operations[name]["budget"]


@pytest.mark.guarantee("E4", "E9")
def test_the_provider_has_it_not_so_it_is_made_once_by_the_retry(story: Story) -> None:
    settled = story.api.reconcile(story.effect_ids["check unmade"]).ok()
    assert settled["call"]["effects"][0]["outcome"] == "not_applied"
    done = story.api.resume(story.ids["check unmade"]).ok()
    assert (done["state"], story.made("check unmade")) == ("succeeded", 1)
    assert len(done["calls"]) == 2


@pytest.mark.guarantee("E4", "E9")
@pytest.mark.parametrize("name", ["never", "never-call"])
def test_what_has_no_safe_retry_waits_for_a_person_and_is_never_sent_again(
    story: Story, name: str
) -> None:
    one = story.effect_ids[name]
    assert [e["needs"] for e in story.seen[0][name]["effects"]] == ["person"]
    given = {"receipt": story.world.receipt(one)}
    resolved = story.api.resolve(one, "applied", result=given).ok()
    assert resolved["call"]["effects"][0]["settled_by"] == "operator"
    done = story.api.resume(story.ids[name]).ok()
    assert (done["state"], done["result"]) == ("succeeded", given)
    assert (story.made(name), story.starts(name)) == (1, 1)


@pytest.mark.guarantee("E4", "E9")
def test_a_person_who_finds_nothing_lets_it_be_made_once(story: Story) -> None:
    one = story.effect_ids["never unmade"]
    stale = story.api.resolve(one, "not_applied", if_revision=0)
    assert (stale.status, stale.code) == (409, "DurableResumeConflict")
    assert story.api.resolve(one, "not_applied").status == 200
    flipped = story.api.resolve(one, "applied")
    assert (flipped.status, flipped.code) == (409, "RequestConflict")
    done = story.api.resume(story.ids["never unmade"]).ok()
    assert (done["state"], story.made("never unmade"), len(done["calls"])) == ("succeeded", 1, 2)


@pytest.mark.guarantee("E4")
def test_what_the_provider_refused_is_retried_and_was_never_unknown(story: Story) -> None:
    (effect,) = story.seen[0]["said no"]["effects"]
    assert (effect["outcome"], effect["verdict"]) == ("not_applied", "retry")
    done = story.api.resume(story.ids["said no"]).ok()
    # It says no again, as its input says, and exits 0: the call is what its handler says it is.
    assert (done["state"], story.made("said no")) == ("succeeded", 0)
    assert [one["outcome"] for one in done["call"]["effects"][0]["tries"]] == ["not_applied"] * 2


@pytest.mark.guarantee("E4")
def test_when_everything_was_applied_the_handler_only_finishes(story: Story) -> None:
    assert {e["verdict"] for e in story.seen[0]["finish"]["effects"]} == {"finish"}
    made = story.world.changes("finish")
    done = story.api.resume(story.ids["finish"]).ok()
    assert story.world.changes("finish") == made
    assert done["state"] == "succeeded"
    assert sorted(done["result"]) == ["key", "other"]
    assert [one["relaunch"] for one in done["call"]["attempts"]] == ["first", "finish"]
    assert_charged(done, interrupted_ms=TIMEOUT_MS)


@pytest.mark.guarantee("E4", "E5")
def test_of_two_effects_only_the_unknown_one_is_sent_again(story: Story) -> None:
    done = story.api.resume(story.ids["second of two"]).ok()
    assert done["state"] == "succeeded"
    first, second = done["call"]["effects"]
    assert [story.world.asked(one["effect_id"]) for one in (first, second)] == [1, 2]
    assert [story.world.made(one["effect_id"]) for one in (first, second)] == [1, 1]


@pytest.mark.guarantee("E14")
def test_cancelled_with_an_unknown_effect_is_unknown_until_that_is_settled(story: Story) -> None:
    recovery = story.seen[0]["cancelled"]
    assert (recovery["state"], recovery["cancel_requested"]) == ("unknown", True)
    assert offered(recovery, "resume") is None
    done = settle(story.api, story.world, story.ids["cancelled"])
    assert (done["state"], story.made("cancelled"), story.starts("cancelled")) == (
        "cancelled",
        1,
        1,
    )


# --- the budget -------------------------------------------------------------------------------


def assert_charged(done: Document, *, interrupted_ms: int) -> None:
    """Each interrupted reservation whole, and beside them only what was seen to run."""
    budget = done["budget"]
    calls = done["call"]["attempts"]
    assert budget["reserved_ms"] == interrupted_ms
    assert budget["confirmed_ms"] == sum(a["active_ms"] for a in calls if a["phase"] == "ended")
    assert budget["charged_ms"] == interrupted_ms + budget["confirmed_ms"]
    assert budget["remaining_ms"] == budget["max_run_ms"] - budget["charged_ms"]


@pytest.mark.guarantee("B3", "B6")
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "queued"])
def test_an_interrupted_attempt_keeps_its_whole_reservation(story: Story, name: str) -> None:
    timeout_ms = OPERATIONS[name].terms.get("timeout_ms", TIMEOUT_MS)
    budget = story.operations[name]["budget"]
    assert (budget["reserved_ms"], budget["confirmed_ms"]) == (timeout_ms, 0)


@pytest.mark.guarantee("B3", "B4")
def test_two_crashes_charge_twice_and_the_third_time_comes_on_top(story: Story) -> None:
    assert story.now("twice")["budget"]["charged_ms"] == 2 * TIMEOUT_MS
    done = story.api.resume(story.ids["twice"]).ok()
    assert done["state"] == "succeeded"
    assert_charged(done, interrupted_ms=2 * TIMEOUT_MS)
    one = story.effect_ids["twice"]
    assert (story.world.made(one), story.world.asked(one)) == (1, 3)


@pytest.mark.guarantee("B2", "B7")
@pytest.mark.parametrize("limit_ms", [15_000, 20_000])
def test_a_resume_that_does_not_fit_strictly_is_refused_with_the_numbers(
    story: Story, limit_ms: int
) -> None:
    name = str(limit_ms)
    assert [r["code"] for r in story.seen[0][name]["refusals"]] == ["RunTimeBudgetExceeded"]
    position = story.api.status()["journal"]["position"]
    refused = story.api.resume(story.ids[name])
    assert (refused.status, refused.code) == (409, "RunTimeBudgetExceeded")
    said = {k: refused.document[k] for k in ("activeElapsedMs", "reservationMs", "remainingMs")}
    left_ms = limit_ms - SHORT_MS
    assert list(said.values()) == [SHORT_MS, SHORT_MS, left_ms]
    (event,) = story.api.events(after=position)
    assert event["type"] == "dispatch_refused_budget_exceeded"
    numbers = ("active_elapsed_ms", "reservation_ms", "remaining_ms", "limit_value")
    assert [event[k] for k in numbers] == [SHORT_MS, SHORT_MS, left_ms, limit_ms]
    assert (story.now(name)["state"], story.starts(name)) == ("unknown", 1)


@pytest.mark.guarantee("B2", "R11")
def test_a_refused_budget_can_be_extended_and_then_admits(story: Story) -> None:
    name = "15000"
    assert "extend" in story.seen[0][name]["allowed_actions"]
    assert story.api.extend(story.ids[name], 20_001).status == 200
    done = story.api.resume(story.ids[name]).ok()
    assert (done["state"], story.made(name)) == ("succeeded", 1)


@pytest.mark.guarantee("B2")
@pytest.mark.parametrize("limit_ms", [20_001, 40_000])
def test_a_resume_that_fits_by_a_millisecond_is_admitted(story: Story, limit_ms: int) -> None:
    done = story.api.resume(story.ids[str(limit_ms)]).ok()
    assert (done["state"], story.made(str(limit_ms))) == ("succeeded", 1)
    assert_charged(done, interrupted_ms=SHORT_MS)


@pytest.mark.guarantee("B8", "E16")
def test_a_recorded_result_is_handed_back_when_no_budget_is_left(story: Story) -> None:
    before = story.operations["recorded"]
    assert before["budget"]["remaining_ms"] == 1
    (effect,) = story.seen[0]["recorded"]["effects"]
    assert (effect["outcome"], effect["verdict"]) == ("applied", "restore")
    done = story.api.resume(story.ids["recorded"]).ok()
    assert (done["state"], done["call"]["replayed"]) == ("succeeded", True)
    assert done["result"] == {"receipt": story.world.receipt(story.effect_ids["recorded"])}
    assert done["budget"] == before["budget"]
    assert (story.made("recorded"), story.starts("recorded")) == (1, 1)
