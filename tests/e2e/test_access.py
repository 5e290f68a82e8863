"""Who may do what, asked by real other users of a daemon with a configuration file."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.api import Answer, Api, Document, fresh_id
from tests.e2e.support.daemon import Daemon
from tests.e2e.support.service import (
    ADMIN,
    BILLING,
    CLIENTS,
    DAEMON_UID,
    GRANTLESS,
    OWNER,
    READER,
    RESOLVER,
    AsUser,
    Service,
    needs_root,
    new_service,
)

other_users = needs_root("only root can be other users, and there is but one uid here")


class Cast:
    """A running service and everybody who talks to it, with one unfinished business of the owner.

    `held` is an operation of the owner with an effect that is unknown, `over` a finished one.
    """

    def __init__(self, daemon: Service) -> None:
        self.daemon = daemon
        self.who: dict[str, AsUser] = {
            "grantless": daemon.client(GRANTLESS),
            "reader": daemon.client(READER),
            "owner": daemon.client(OWNER),
            "runner": daemon.client(GRANTLESS + 1_000, CLIENTS),
            "resolver": daemon.client(RESOLVER),
            "admin": daemon.client(ADMIN),
        }
        self.owner = self.who["owner"]
        self.held = self.owner.dispatch("check-call", {"exit": 1}, wait_ms=60_000).ok()
        assert self.held["state"] == "unknown", self.held
        self.over = self.owner.dispatch("plain", {}, wait_ms=60_000).ok()
        assert self.over["state"] == "succeeded", self.over

    @property
    def call_id(self) -> str:
        return self.held["call"]["call_id"]

    @property
    def effect_id(self) -> str:
        return self.held["call"]["effects"][0]["effect_id"]


@pytest.fixture(scope="module")
def cast() -> Iterator[Cast]:
    with new_service() as daemon:
        daemon.start()
        yield Cast(daemon)


# Requests about the owner's operations. Those that would change something are made so that a
# permitted one is refused for what it says: another checkpoint, no raise, a wrong revision, a
# kind that has no continuations.
def request(cast: Cast, verb: str) -> tuple[str, str, Any]:
    operation = f"operations/{cast.held['operation_id']}"
    stale = {
        "schema_version": "effectd-operation-resume-request-v1",
        "checkpoint_revision": 0,
        "checkpoint_digest": "none",
        "resume_request_id": "r",
    }
    wrong = {"outcome": "applied", "evidence": "none", "if_revision": 999}
    table: dict[str, tuple[str, str, Any]] = {
        "show": ("GET", operation, None),
        "recovery": ("GET", f"{operation}/recovery", None),
        "call": ("GET", f"calls/{cast.call_id}", None),
        "output": ("GET", f"calls/{cast.call_id}/output", None),
        "result": ("GET", f"calls/{cast.over['call']['call_id']}/result", None),
        "effect": ("GET", f"effects/{cast.effect_id}", None),
        "note": ("GET", f"{operation}/note", None),
        "ask": (
            *("POST", f"{operation}/calls"),
            {"request_id": "t", "handler": "plain", "input": {}},
        ),
        "continue": (
            *("POST", f"{operation}/continuations"),
            {"trigger": "manual", "after": 0, "request_id": "c"},
        ),
        "end": ("POST", f"{operation}/continuations/0/end", {"reason": "done"}),
        "resume": ("POST", f"{operation}/resume", stale),
        "cancel": ("POST", f"operations/{cast.over['operation_id']}/cancel", {"reason": "r"}),
        "extend": ("POST", f"{operation}/extend", {"max_run_ms": 1, "reason": "r"}),
        "accept": ("POST", f"{operation}/accept-artifacts", {"reason": "r"}),
        "resolve": ("POST", f"effects/{cast.effect_id}/resolve", wrong),
        "attest": ("POST", f"calls/{cast.call_id}/attest-dead", {"reason": "r"}),
        "reload": ("POST", "reload", None),
    }
    return table[verb]


YES, HIDDEN = "yes", "NotFound"
USERS = ("owner", "reader", "runner", "resolver", "admin", "grantless")
# What each user's request about the owner's operation meets: yes, NotFound, or what is missing.
READING = (YES, YES, HIDDEN, HIDDEN, YES, HIDDEN)
DRIVING = (YES, "role admin", HIDDEN, HIDDEN, YES, HIDDEN)
SETTLING = ("role resolve", "role resolve", HIDDEN, YES, YES, HIDDEN)
EXPECTED = {
    "show": READING,
    "recovery": READING,
    "call": READING,
    "output": READING,
    "result": READING,
    "effect": READING,
    "note": READING,
    "ask": DRIVING,
    "continue": DRIVING,
    "end": DRIVING,
    "resume": DRIVING,
    "cancel": DRIVING,
    "extend": DRIVING,
    "accept": ("role admin", "role admin", HIDDEN, HIDDEN, YES, HIDDEN),
    "reload": (*["role admin"] * 4, YES, "role admin"),
    "resolve": SETTLING,
    "attest": SETTLING,
}


def met(answer: Answer) -> str:
    if answer.code == "AccessDenied":
        assert answer.status == 403
        assert answer.document["fix"].startswith("as root: "), answer
        return answer.document["needs"]
    return HIDDEN if answer.code == "NotFound" else YES


def dispatched(client: Api, handler: str) -> str:
    """The state that a dispatch ends in, or what is missing for it."""
    answer = client.dispatch(handler, {}, wait_ms=60_000)
    return answer.document["state"] if answer.code is None else met(answer)


@other_users
@pytest.mark.guarantee("R12")
@pytest.mark.parametrize("verb", EXPECTED)
def test_each_verb_asks_for_its_role_or_ownership_and_names_what_is_missing(
    cast: Cast, verb: str
) -> None:
    found = {who: met(cast.who[who].ask(*request(cast, verb))) for who in USERS}
    assert found == dict(zip(USERS, EXPECTED[verb], strict=True))


@other_users
@pytest.mark.guarantee("R12")
def test_a_dispatch_needs_run_and_the_handlers_own_list(cast: Cast) -> None:
    handler = cast.daemon.handlers / "billed.toml"
    manifest = (cast.daemon.handlers / "plain.toml").read_text()
    handler.write_text(f'{manifest}[access]\nrun = ["gid:{BILLING}"]\n')
    cast.daemon.reload()
    role = dict.fromkeys(("reader", "resolver", "grantless"), "role run")
    run = dict.fromkeys(("owner", "runner", "admin"), "succeeded")
    listed = dict.fromkeys(("owner", "runner"), "handler billed")
    assert {who: dispatched(cast.who[who], "plain") for who in USERS} == {**role, **run}
    assert {who: dispatched(cast.who[who], "billed") for who in USERS} == {**role, **run, **listed}
    # Groups of the process alone count too, at the request and again before the start.
    biller = cast.daemon.client(GRANTLESS, CLIENTS, BILLING)
    assert dispatched(biller, "billed") == "succeeded"
    # The list narrows the role and replaces it never.
    outsider = cast.daemon.client(GRANTLESS, BILLING)
    assert dispatched(outsider, "billed") == "role run"


@other_users
@pytest.mark.guarantee("R12")
def test_lists_and_events_show_what_one_may_read(cast: Cast) -> None:
    mine = cast.held["operation_id"]
    effect = cast.effect_id
    session = cast.who["owner"].post("sessions", {}).ok()["session_id"]
    for who, shown in {"owner": True, "reader": True, "admin": True, "runner": False}.items():
        client = cast.who[who]
        listed = {item["operation_id"] for item in client.get("operations")["items"]}
        effects = {item["effect_id"] for item in client.get("effects")["items"]}
        events = client.events()
        told = {event["operation_id"] for event in events}
        made = {event["session_id"] for event in events if event["type"] == "session_created"}
        found = (mine in listed, effect in effects, mine in told, session in made)
        assert found == (shown,) * 4, who
        counted = client.status()["needs"]["reconciler"]
        assert (counted > 0) is shown, who


@other_users
@pytest.mark.guarantee("R8", "R12")
def test_the_same_request_id_of_two_users_is_two_operations(cast: Cast) -> None:
    request_id = fresh_id()
    made = [
        cast.who[who].dispatch("plain", {}, request_id, wait_ms=60_000).ok()["operation_id"]
        for who in ("owner", "runner")
    ]
    assert len(set(made)) == 2


@other_users
@pytest.mark.guarantee("R12")
def test_reconciling_ones_own_needs_run_and_anothers_needs_resolve(cast: Cast) -> None:
    cast.daemon.world.silence()
    path = f"effects/{cast.effect_id}/reconcile"
    expected = {
        "owner": YES,
        "resolver": YES,
        "admin": YES,
        "reader": "role resolve",
        "runner": HIDDEN,
        "grantless": HIDDEN,
    }
    found = {who: met(cast.who[who].post(path, {"wait_ms": 60_000})) for who in expected}
    assert found == expected


@other_users
@pytest.mark.guarantee("R12")
def test_a_denial_says_which_group_to_join_and_to_log_in_again() -> None:
    with new_service() as daemon:
        daemon.grant(run='["group:daemon"]')
        daemon.start()
        denied = daemon.client(OWNER).dispatch("plain", {})
        assert (denied.status, denied.code) == (403, "AccessDenied")
        assert denied.document["needs"] == "role run (group daemon)"
        assert denied.document["retryable"] is False
        assert re.match(
            rf"as root: usermod -aG daemon {OWNER}; then log in again", denied.document["fix"]
        )


@pytest.mark.guarantee("S11", "R12")
def test_the_daemons_own_user_holds_nothing_in_a_service() -> None:
    # As root the daemon is made another user's: root holds everything whoever it is.
    root = os.geteuid() == 0
    uid = DAEMON_UID if root else os.geteuid()
    with new_service(DAEMON_UID if root else None) as daemon:
        everything = f'["uid:{uid}"]'
        daemon.grant(read=everything, run=everything, resolve=everything, admin=everything)
        daemon.start()
        own = daemon.client(uid) if root else daemon.api
        assert met(own.dispatch("plain", {})).startswith("role run")
        assert own.get("operations")["items"] == []
        assert own.status()["state"] in {"ready", "degraded"}


@other_users
@pytest.mark.guarantee("S11", "R12")
def test_the_handlers_user_is_no_client_not_even_of_what_everybody_may_read() -> None:
    with new_service() as daemon:
        daemon.start()
        handlers = pwd.getpwnam("nobody")
        answer = daemon.client(handlers.pw_uid).ask("GET", "status")
        assert (answer.status, answer.code) == (403, "AccessDenied")
        assert f"handlers run as uid {handlers.pw_uid}" in answer.document["detail"]
        assert daemon.client(GRANTLESS).ask("GET", "status").status == 200


@other_users
@pytest.mark.guarantee("S11", "R12")
@pytest.mark.parametrize("granted", ["uid", "gid"])
def test_a_role_that_is_granted_to_the_handlers_refuses_the_start(granted: str) -> None:
    handlers = pwd.getpwnam("nobody")
    number = handlers.pw_uid if granted == "uid" else handlers.pw_gid
    with new_service() as daemon:
        daemon.grant(resolve=f'["{granted}:{number}"]')
        told = daemon.start_another()
        assert told.returncode == 78, told.stderr
        said = "access.resolve: it grants the role to 'nobody', which handlers run as"
        assert said in told.stderr


# It asks for the status, and so does a grandchild of its that nobody waits for.
CLIMBER = """
import json, os, socket
REQUEST = b"GET /v1/status HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n"
def ask():
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(os.environ["DOOR"])
        door.sendall(REQUEST)
        return b"".join(iter(lambda: door.recv(65536), b""))
near, far = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        os.write(far, ask())
    os._exit(0)
os.close(far)
heard = b"".join(iter(lambda: os.read(near, 65536), b""))
print(json.dumps([ask().decode(), heard.decode()]))
"""


@pytest.mark.guarantee("S4", "S11")
def test_a_handler_is_never_a_client_not_even_with_the_socket_in_its_hands(
    calm_daemon: Daemon,
) -> None:
    # A second name of the socket, which no rule about paths can see through.
    door = calm_daemon.base / "door"
    door.mkdir(exist_ok=True)
    os.link(calm_daemon.api.socket_path, door / "socket")
    Path(calm_daemon.api.socket_path).chmod(0o666)
    calm_daemon.add_program("climber", CLIMBER)
    calm_daemon.add_handler(
        "climber",
        f'manifest = 1\ncommand = ["{calm_daemon.programs}/climber"]\ntimeout_ms = 60_000\n'
        f'read_only = true\nenv = {{ DOOR = "{door}/socket" }}\n'
        f'[sandbox]\nunix = ["{door}/socket"]\n',
    )
    heard = calm_daemon.api.dispatch("climber", {}, wait_ms=60_000).ok()["result"]
    assert len(heard) == 2
    for answer in heard:
        assert answer.startswith("HTTP/1.1 403 "), answer
        assert "a handler cannot be a client" in answer


@pytest.mark.guarantee("S4")
def test_a_manifest_that_asks_for_the_control_socket_is_refused_at_load(
    calm_daemon: Daemon,
) -> None:
    calm_daemon.add_handler(
        "greedy",
        'manifest = 1\ncommand = ["/bin/true"]\ntimeout_ms = 1_000\nread_only = true\n'
        f'[sandbox]\nunix = ["{calm_daemon.api.socket_path}"]\n',
    )
    answer = calm_daemon.api.dispatch("greedy", {})
    assert answer.code == "UnknownHandler"
    assert "sandbox.unix[0]" in answer.document["detail"]
    assert "which no handler may reach" in answer.document["detail"]
    (calm_daemon.handlers / "greedy.toml").unlink()


# --- authority that goes away ------------------------------------------------------------


def waiting_call(daemon: Service, owner: Api) -> tuple[str, str]:
    """Two operations of a handler with one place: one that runs, and one that waits for it."""
    daemon.world.hold("first made never")
    asked = {"effects": ["never"]}
    runs = owner.dispatch("single", {"tag": "first", **asked}).ok()["operation_id"]
    daemon.world.arrived("first made never")
    waits = owner.dispatch("single", {"tag": "second", **asked}).ok()["operation_id"]
    return runs, waits


def was_not_started(document: Document, code: str) -> None:
    assert document["state"] == "interrupted", document
    (attempt,) = document["call"]["attempts"]
    assert (attempt["phase"], attempt["outcome"]) == ("ended", "not_started")
    assert document["call"]["error"]["code"] == code
    budget = document["budget"]
    assert (budget["charged_ms"], budget["reserved_ms"], budget["confirmed_ms"]) == (0, 0, 0)


@other_users
@pytest.mark.guarantee("R5", "R11", "B5")
def test_a_role_that_is_taken_away_while_a_call_waits_starts_nothing_until_it_is_given_back() -> (
    None
):
    with new_service() as daemon:
        daemon.start()
        owner = daemon.client(OWNER)
        runs, waits = waiting_call(daemon, owner)
        daemon.grant(run='["uid:1"]')
        daemon.reload()
        daemon.world.release()
        assert owner.final(runs)["state"] == "succeeded"
        was_not_started(owner.final(waits), "AuthorityRevoked")
        assert daemon.world.arrivals("second made never") == 0
        assert owner.dispatch("plain", {}).code == "AccessDenied"
        assert owner.resume(waits).code == "AccessDenied"
        daemon.grant()
        daemon.reload()
        assert owner.resume(waits).ok()["state"] == "succeeded"
        assert daemon.world.arrivals("second made never") == 1


@other_users
@pytest.mark.guarantee("R5", "R12")
def test_a_handlers_list_that_leaves_the_requester_out_starts_nothing() -> None:
    with new_service() as daemon:
        daemon.start()
        owner = daemon.client(OWNER)
        _, waits = waiting_call(daemon, owner)
        manifest = daemon.handlers / "single.toml"
        text = manifest.read_text()
        manifest.write_text(f'{text}\n[access]\nrun = ["gid:{BILLING}"]\n')
        daemon.reload()
        daemon.world.release()
        final = owner.final(waits)
        # Who may run a handler is no part of what it is: it could go on once he may again.
        assert final["state"] == "interrupted"
        (attempt,) = final["call"]["attempts"]
        assert (attempt["outcome"], attempt["code"]) == ("not_started", "AuthorityRevoked")
        assert final["budget"]["charged_ms"] == 0
        assert daemon.world.arrivals("second made never") == 0
        assert owner.resume(waits).document["needs"] == "handler single"
        for denied in (owner.cancel(waits), owner.extend(waits, 10_000_000)):
            assert (denied.code, denied.document["needs"]) == ("AccessDenied", "handler single")


@other_users
@pytest.mark.guarantee("R12")
def test_a_broken_configuration_is_named_and_the_old_one_stays_in_force() -> None:
    with new_service() as daemon:
        daemon.start()
        daemon.grant(more="max_runing_attempts = 3", run='["uid:1"]')
        said = daemon.reload("not reloaded")
        assert f"{daemon.base}/effectd.toml" in said
        assert "max_runing_attempts" in said
        refused = daemon.client(ADMIN).ask("POST", "reload")
        assert refused.code == "ConfigurationRefused"
        assert f"{daemon.base}/effectd.toml: max_runing_attempts" in refused.document["detail"]
        assert daemon.client(OWNER).dispatch("plain", {}, wait_ms=60_000).status == 200
