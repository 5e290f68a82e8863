"""What clients are promised: one operation for each message, answers that are not lost, codes."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from sandbox.spec import LAYERS
from tests.e2e.support.api import Answer, fresh_id
from tests.e2e.support.daemon import Daemon


def together(count: int, ask: object) -> list[Answer]:
    """The same thing asked by so many threads at once."""
    answers: list[Answer] = []
    barrier = threading.Barrier(count)

    def one() -> None:
        barrier.wait()
        answers.append(ask())  # type: ignore[operator]

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == count
    return answers


@pytest.mark.guarantee("R8", "R13")
def test_fifty_clients_with_one_request_make_one_operation_and_one_effect(
    calm_daemon: Daemon,
) -> None:
    tag, request_id = fresh_id("tag"), fresh_id()
    asked = {"tag": tag, "effects": ["never"]}
    answers = together(
        50, lambda: calm_daemon.api.dispatch("never", asked, request_id, wait_ms=60_000)
    )
    documents = [answer.ok() for answer in answers]
    assert len({document["operation_id"] for document in documents}) == 1
    assert {document["state"] for document in documents} == {"succeeded"}
    assert calm_daemon.world.arrivals(f"{tag} made never") == 1
    (attempt,) = documents[0]["call"]["attempts"]
    assert attempt["outcome"] == "succeeded"


@pytest.mark.guarantee("R8")
def test_the_same_message_is_the_same_operation_after_a_restart(daemon: Daemon) -> None:
    first = daemon.api.dispatch("plain", {"tag": "t"}, "again", wait_ms=60_000).ok()
    daemon.restart()
    second = daemon.api.dispatch("plain", {"tag": "t"}, "again")
    assert second.status == 200
    assert second.document["operation_id"] == first["operation_id"]
    assert second.document["result"] == first["result"]
    conflict = daemon.api.dispatch("plain", {"tag": "another"}, "again")
    assert (conflict.status, conflict.code) == (409, "RequestConflict")


@pytest.mark.guarantee("R8")
@pytest.mark.parametrize(
    "change",
    [{"input": {"tag": "x"}}, {"handler": "never"}, {"max_run_ms": 1}, {"labels": {"a": "b"}}],
    ids=lambda change: next(iter(change)),
)
def test_another_body_under_a_used_id_is_a_conflict(
    calm_daemon: Daemon, change: dict[str, object]
) -> None:
    body = {"request_id": fresh_id(), "handler": "plain", "input": {}, "labels": {}}
    calm_daemon.api.post("dispatch", {**body, "wait_ms": 60_000}).ok()
    answer = calm_daemon.api.post("dispatch", {**body, **change})
    assert (answer.status, answer.code) == (409, "RequestConflict")
    assert answer.document["retryable"] is False


@pytest.mark.guarantee("R8")
def test_a_refusal_before_acceptance_binds_nothing(calm_daemon: Daemon) -> None:
    request_id = fresh_id()
    assert calm_daemon.api.dispatch("no-such", {}, request_id).code == "UnknownHandler"
    assert calm_daemon.api.dispatch("plain", {}, request_id, wait_ms=60_000).status == 200


@pytest.mark.guarantee("R9")
def test_202_means_accepted_and_the_result_is_fetched_later(calm_daemon: Daemon) -> None:
    tag = fresh_id("tag")
    calm_daemon.world.hold(f"{tag} made never")
    answer = calm_daemon.api.dispatch("never", {"tag": tag, "effects": ["never"]})
    assert answer.status == 202
    operation_id = answer.document["operation_id"]
    assert answer.headers["location"] == f"/v1/operations/{operation_id}"
    assert "retry-after" in answer.headers
    calm_daemon.world.arrived(f"{tag} made never")
    call_id = answer.document["call"]["call_id"]
    early = calm_daemon.api.ask("GET", f"calls/{call_id}/result")
    assert (early.status, early.code) == (404, "NotFound")
    calm_daemon.world.release()
    document = calm_daemon.api.final(operation_id)
    assert document["state"] == "succeeded"
    assert calm_daemon.api.get(f"calls/{call_id}/result") == document["result"]


@pytest.mark.guarantee("R9")
def test_each_frame_is_told_once_and_in_order(daemon: Daemon) -> None:
    daemon.api.dispatch("never", {"tag": "t", "effects": ["never"]}, wait_ms=60_000).ok()
    events = daemon.api.events()
    positions = [event["position"] for event in events]
    assert positions == sorted(positions)
    kinds = [event["type"] for event in events]
    assert kinds == [
        "daemon_started",
        "operation_accepted",
        "call_accepted",
        "attempt_reserved",
        "attempt_started",
        "effect_announced",
        "effect_confirmed",
        "attempt_ended",
    ]
    middle = positions[3]
    assert daemon.api.events(middle) == [e for e in events if e["position"] > middle]


@pytest.mark.guarantee("R9")
def test_a_follower_hears_each_frame_as_it_becomes_durable(daemon: Daemon) -> None:
    with socket.socket(socket.AF_UNIX) as follower:
        follower.settimeout(60)
        follower.connect(daemon.api.socket_path)
        follower.sendall(b"GET /v1/events?after=0&follow=1 HTTP/1.1\r\nhost: x\r\n\r\n")
        lines = follower.makefile("rb")
        first = next(json.loads(line) for line in lines if line.startswith(b"{"))
        assert first["type"] == "daemon_started"
        made = daemon.api.dispatch("plain", {}, wait_ms=60_000).ok()
        heard = [first]
        while heard[-1]["type"] != "attempt_ended":
            heard.append(next(json.loads(line) for line in lines if line.startswith(b"{")))
    assert {event["operation_id"] for event in heard[1:]} == {made["operation_id"]}
    assert heard == daemon.api.events()


@pytest.mark.guarantee("B7")
def test_a_budget_that_is_too_small_refuses_with_the_numbers(calm_daemon: Daemon) -> None:
    document = calm_daemon.api.dispatch("plain", {}, max_run_ms=120_000, wait_ms=60_000).ok()
    assert document["state"] == "failed"
    assert document["call"]["state"] == "refused"
    assert document["call"]["error"]["code"] == "RunTimeBudgetExceeded"
    assert document["call"]["attempts"] == []
    told = [
        event
        for event in calm_daemon.api.events()
        if event["type"] == "dispatch_refused_budget_exceeded"
        and event["operation_id"] == document["operation_id"]
    ]
    assert [
        {k: e[k] for k in ("active_elapsed_ms", "reservation_ms", "remaining_ms", "limit_value")}
        for e in told
    ] == [
        {
            "active_elapsed_ms": 0,
            "reservation_ms": 120_000,
            "remaining_ms": 120_000,
            "limit_value": 120_000,
        }
    ]


def test_a_dry_run_checks_everything_and_writes_nothing(calm_daemon: Daemon) -> None:
    position = calm_daemon.api.status()["journal"]["position"]
    answer = calm_daemon.api.dispatch("never", {}, dry_run=True).ok()
    assert answer["dry_run"] is True
    assert answer["effects"] == [{"name": "never", "contract": "no_safe_retry"}]
    assert calm_daemon.api.dispatch("no-such", {}, dry_run=True).code == "UnknownHandler"
    assert calm_daemon.api.status()["journal"]["position"] == position


def test_cancel_ends_the_handler_and_leaves_its_effect_unknown(calm_daemon: Daemon) -> None:
    tag = fresh_id("tag")
    calm_daemon.world.hold(f"{tag} made never")
    operation_id = calm_daemon.api.dispatch("never", {"tag": tag, "effects": ["never"]}).ok()[
        "operation_id"
    ]
    calm_daemon.world.arrived(f"{tag} made never")
    document = calm_daemon.api.cancel(operation_id).ok()
    assert document["state"] == "unknown"
    assert document["cancel_requested"] is True
    (effect,) = document["call"]["effects"]
    assert calm_daemon.api.resume(operation_id).code == "OperationCancelled"
    calm_daemon.api.resolve(effect["effect_id"], "applied").ok()
    assert calm_daemon.api.operation(operation_id)["state"] == "cancelled"


def test_pages_of_operations_are_whole_and_newest_first(daemon: Daemon) -> None:
    made = [daemon.api.dispatch("plain", {}, wait_ms=60_000).ok()["operation_id"] for _ in range(5)]
    seen: list[str] = []
    cursor: dict[str, object] = {}
    while True:
        page = daemon.api.get("operations", limit=2, **cursor)
        seen += [item["operation_id"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen == made[::-1]


def test_what_was_printed_is_kept_with_its_attempt(calm_daemon: Daemon) -> None:
    calm_daemon.add_program(
        "talk", "import sys; print('to out'); print('to err\\x1b[2J', file=sys.stderr)"
    )
    calm_daemon.add_handler(
        "talk",
        f'manifest = 1\ncommand = ["{calm_daemon.programs}/talk"]\ntimeout_ms = 60_000\n'
        "read_only = true\n",
    )
    document = calm_daemon.api.dispatch("talk", {}, wait_ms=60_000).ok()
    assert document["result"] == "to out\n"
    kept = calm_daemon.api.get(f"calls/{document['call']['call_id']}/output")
    assert kept["stdout"]["head"] == "to out\n"
    assert kept["stderr"] == {"head": "to err\x1b[2J\n", "tail": "", "bytes": 11, "omitted": 0}


@pytest.mark.guarantee("E8")
def test_a_result_that_is_too_large_is_applied_and_unavailable_and_never_run_again(
    calm_daemon: Daemon,
) -> None:
    calm_daemon.add_program("large", "print('x' * 100_000)")
    calm_daemon.add_handler(
        "large",
        f'manifest = 1\ncommand = ["{calm_daemon.programs}/large"]\ntimeout_ms = 60_000\n'
        "[output]\nresult_max_bytes = 1_000\n",
    )
    document = calm_daemon.api.dispatch("large", {}, wait_ms=60_000).ok()
    assert document["state"] == "succeeded"
    (effect,) = document["call"]["effects"]
    assert (effect["outcome"], effect["result_unavailable"]) == ("applied", "too_large")
    lost = calm_daemon.api.ask("GET", f"calls/{document['call']['call_id']}/result")
    assert (lost.status, lost.code) == (409, "EffectResultUnavailable")
    assert calm_daemon.api.resume(document["operation_id"]).code == "NotResumable"
    calm_daemon.api.resolve(effect["effect_id"], "applied", result={"kept": 1}).ok()
    assert calm_daemon.api.operation(document["operation_id"])["result"] == {"kept": 1}
    again = calm_daemon.api.resolve(effect["effect_id"], "applied", result={"kept": 2})
    assert again.code == "RequestConflict"


@pytest.mark.guarantee("S8", "E15", "B5")
def test_what_never_started_says_so_with_the_errno_of_exec(calm_daemon: Daemon) -> None:
    # An executable file that no kernel can execute is seen to be none only by exec itself.
    program = calm_daemon.programs / "formless"
    program.write_bytes(b"\x7fELF and nothing behind it")
    program.chmod(0o755)
    calm_daemon.add_handler(
        "formless", f'manifest = 1\ncommand = ["{program}"]\ntimeout_ms = 60_000\n'
    )
    document = calm_daemon.api.dispatch("formless", {}, wait_ms=60_000).ok()
    call = document["call"]
    (attempt,) = call["attempts"]
    assert (attempt["outcome"], attempt["active_ms"]) == ("not_started", 0)
    assert "Exec format error" in call["error"]["detail"]
    assert document["budget"]["charged_ms"] == 0
    (effect,) = call["effects"]
    assert (effect["outcome"], effect["settled_by"]) == ("not_applied", "supervisor")


@pytest.mark.guarantee("R7")
def test_a_secret_is_given_to_the_handler_and_written_nowhere(daemon: Daemon) -> None:
    secret = "hunter2-and-a-long-tail"
    secrets = daemon.state / "secrets"
    secrets.mkdir()
    (secrets / "token").write_text(secret + "\n")
    daemon.add_program(
        "leak",
        "import json, os, sys\n"
        "kept = open(os.environ['CREDENTIALS_DIRECTORY'] + '/token').read().strip()\n"
        "assert kept == os.environ['TOKEN']\n"
        "channel = open(3, 'r+b', buffering=0)\n"
        "def say(**said): channel.write(json.dumps(said).encode() + b'\\n')\n"
        "say(type='announce', effect='leak', request={'token': kept})\n"
        "print(channel.readline().decode(), kept)\n"
        "print(kept, file=sys.stderr)\n",
    )
    daemon.add_handler(
        "leak",
        f'manifest = 1\ncommand = ["{daemon.programs}/leak"]\ntimeout_ms = 60_000\n'
        'secrets = ["token"]\nenv_from = { TOKEN = "token" }\n'
        '[[effect]]\nname = "leak"\ncontract = "none"\nmany = true\n',
    )
    document = daemon.api.dispatch("leak", {}, wait_ms=60_000).ok()
    assert document["call"]["error"]["code"] == "SecretInRequest"
    assert document["call"]["effects"] == []
    output = daemon.api.get(f"calls/{document['call']['call_id']}/output")
    assert "[secret hidden]" in output["stdout"]["head"]
    assert "[secret hidden]" in output["stderr"]["head"]
    daemon.stop()
    for file in daemon.state.rglob("*"):
        if file.is_file() and file.parent.name != "secrets":
            assert secret.encode() not in file.read_bytes(), file
    assert secret not in daemon.log


def test_changed_files_hold_a_relaunch_back_until_an_admin_accepts_them(daemon: Daemon) -> None:
    daemon.world.hold("t before never")
    asked = {"tag": "t", "effects": ["never"], "meet": ["before never"]}
    operation_id = daemon.api.dispatch("never", asked).ok()["operation_id"]
    daemon.world.arrived("t before never")
    daemon.restart()
    daemon.world.release()
    program = daemon.programs / "act"
    program.write_text(program.read_text() + "# changed\n")
    recovery = daemon.api.recovery(operation_id)
    assert "resume" not in recovery["allowed_actions"]
    assert "accept-artifacts" in recovery["allowed_actions"]
    assert [r["code"] for r in recovery["refusals"]] == ["HandlerArtifactChanged"]
    held = daemon.api.resume(operation_id).ok()
    assert held["state"] == "interrupted"
    assert held["call"]["error"]["code"] == "HandlerArtifactChanged"
    accepted = daemon.api.post(f"operations/{operation_id}/accept-artifacts", {"reason": "fixed"})
    assert accepted.status == 200, accepted
    assert daemon.api.resume(operation_id).ok()["state"] == "succeeded"
    assert json.dumps(daemon.api.events()).count("artifacts_accepted") == 1


@pytest.mark.guarantee("S9")
def test_status_names_every_layer_as_in_force_or_missing_and_counts_the_pool(
    calm_daemon: Daemon,
) -> None:
    asked = {"tag": "pool", "effects": []}
    assert calm_daemon.api.dispatch("plain", asked, wait_ms=60_000).ok()["state"] == "succeeded"
    sandbox = calm_daemon.api.status()["sandbox"]
    missing = {one["layer"] for one in sandbox["missing"]}
    assert {*sandbox["layers"], *missing} >= set(LAYERS)
    assert not missing & {name for name, word in sandbox["layers"].items() if word == "in force"}
    assert all(one["cause"] and one["remedy"] and not one["refuses"] for one in sandbox["missing"])
    pool = sandbox["pool"]
    assert pool["misses"] + pool["hits"] >= 1
    assert pool["templates"] >= 1
    assert set(pool) == {"ready", "hits", "misses", "templates", "stale", "evicted"}
