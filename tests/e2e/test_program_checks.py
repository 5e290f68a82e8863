"""What changes while a program runs is seen before its next call starts: real users, real files.

In each, the first node is held in the world; what the second needs is changed; then it goes on.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.api import Api, Document, fresh_id
from tests.e2e.support.daemon import Daemon
from tests.e2e.support.processes import wait_until
from tests.e2e.support.service import BILLING, OWNER, needs_root, new_service
from tests.e2e.test_programs import call, expr, give, send

other_users = needs_root("only root can be other users, and there is but one uid here")


def begun(daemon: Daemon, api: Api, tag: str, second: Document) -> str:
    """A program whose first node has made its change and is held there."""
    daemon.world.hold(f"{tag} made key")
    one = send(api, [call("first", tag), second, give()]).ok()["operation_id"]
    daemon.world.arrived(f"{tag} made key")
    return str(one)


def plain(handler: str, tag: str) -> Document:
    given = {"tag": tag, "effects": ["key"]}
    return {"id": "second", "call_tool": {"handler": handler, "input": given}}


def copied(daemon: Daemon, name: str, more: str = "") -> Path:
    """A handler of its own with a program of its own: what the tests' own one does."""
    text = (daemon.handlers / "key.toml").read_text()
    program = daemon.programs / name
    program.write_bytes((daemon.programs / "act").read_bytes())
    program.chmod(0o755)
    daemon.add_handler(
        name, text.replace("/act", f"/{name}").replace("[sandbox]", f"{more}[sandbox]")
    )
    return program


def second_of(api: Api, one: str) -> Document:
    return api.call(api.operation(one)["calls"][1])


@other_users
@pytest.mark.guarantee("R5", "R12", "P4")
def test_authority_that_goes_between_two_nodes_starts_nothing_until_it_is_back() -> None:
    with new_service() as daemon:
        daemon.start()
        owner, tag = daemon.client(OWNER), fresh_id("t")
        copied(daemon, "listed")
        daemon.reload()
        manifest = daemon.handlers / "listed.toml"
        text = manifest.read_text()
        one = begun(daemon, owner, tag, plain("listed", f"{tag}-2"))
        manifest.write_text(f'{text}\n[access]\nrun = ["gid:{BILLING}"]\n')
        daemon.reload()
        daemon.world.release()
        stands = owner.final(one)
        assert stands["state"] == "interrupted"
        (attempt,) = second_of(owner, one)["attempts"]
        assert (attempt["outcome"], attempt["code"]) == ("not_started", "AuthorityRevoked")
        assert stands["budget"]["reserved_ms"] == 0
        assert daemon.world.changes(f"{tag}-2") == {}
        assert owner.resume(one).document["needs"] == "handler listed"
        # The branches of a group are looked at each for itself.
        branches = {
            "may": [call("x", f"{tag}-may")],
            "not": [{**plain("listed", f"{tag}-not"), "id": "x"}],
        }
        manifest.write_text(text)
        daemon.reload()
        assert owner.resume(one).ok()["state"] == "succeeded"
        assert [list(daemon.world.changes(f"{tag}{n}").values()) for n in ("", "-2")] == [[1], [1]]
        group = {"id": "both", "parallel": {"on_failure": "collect", "branches": branches}}
        daemon.world.hold(f"{tag}-0 made key")
        two = send(owner, [call("zero", f"{tag}-0"), group, give()]).ok()["operation_id"]
        daemon.world.arrived(f"{tag}-0 made key")
        manifest.write_text(f'{text}\n[access]\nrun = ["gid:{BILLING}"]\n')
        daemon.reload()
        daemon.world.release()
        assert owner.final(two)["state"] == "interrupted"
        assert list(daemon.world.changes(f"{tag}-may").values()) == [1]
        assert daemon.world.changes(f"{tag}-not") == {}


@pytest.mark.guarantee("R5", "E13", "P4")
def test_a_program_file_that_changes_between_two_nodes_is_not_started(
    calm_daemon: Daemon,
) -> None:
    api, tag = calm_daemon.api, fresh_id("t")
    program = copied(calm_daemon, "replaced")
    one = begun(calm_daemon, api, tag, plain("replaced", f"{tag}-2"))
    program.write_bytes(program.read_bytes() + b"\n# another one\n")
    calm_daemon.world.release()
    assert api.final(one)["state"] == "interrupted"
    second = second_of(api, one)
    assert (second["state"], second["error"]["code"]) == ("refused", "HandlerArtifactChanged")
    assert second["attempts"] == []
    assert "accept-artifacts" in api.recovery(one)["allowed_actions"]
    assert "resume" not in api.recovery(one)["allowed_actions"]
    assert api.resume(one).ok()["state"] == "interrupted"
    assert calm_daemon.world.changes(f"{tag}-2") == {}
    api.post(f"operations/{one}/accept-artifacts", {"reason": "a comment"}).ok()
    assert api.resume(one).ok()["state"] == "succeeded"
    assert list(calm_daemon.world.changes(f"{tag}-2").values()) == [1]
    assert calm_daemon.world.arrivals(f"{tag} made key") == 1


@pytest.mark.guarantee("R5", "P4", "E14")
def test_a_cancel_between_two_nodes_lets_the_first_end_and_starts_no_second(
    calm_daemon: Daemon,
) -> None:
    """The second waits for the one place of its handler, so it is asked for and not started."""
    api, world, tag = calm_daemon.api, calm_daemon.world, fresh_id("t")
    world.hold(f"{tag}-place made never")
    asked = {"tag": f"{tag}-place", "effects": ["never"]}
    holds = api.dispatch("single", asked).ok()["operation_id"]
    world.arrived(f"{tag}-place made never")
    second = plain("single", f"{tag}-2")
    one = send(api, [call("first", tag, note=True), second, give()]).ok()["operation_id"]
    world.arrived(f"{tag} made key")
    waiting = wait_for_second(api, one)
    assert (waiting["state"], waiting["attempts"]) == ("accepted", [])
    assert api.cancel(one).ok()["state"] == "cancelled"
    world.release()
    assert api.final(holds)["state"] == "succeeded"
    assert second_of(api, one)["attempts"] == []
    assert list(world.changes(tag).values()) == [1]
    assert world.changes(f"{tag}-2") == {}


def wait_for_second(api: Api, one: str) -> Document:
    """The second call, as soon as the first has ended."""
    found: list[Document] = []

    def there() -> bool:
        calls = api.operation(one)["calls"]
        found[:] = [api.call(calls[1])] if len(calls) > 1 else []
        return bool(found)

    wait_until(there, 60, "the second call is accepted")
    return found[0]


@pytest.mark.guarantee("R5", "R7")
def test_a_secret_that_is_rotated_between_two_nodes_is_the_new_one_and_a_missing_one_starts_nothing(
    calm_daemon: Daemon,
) -> None:
    api, tag = calm_daemon.api, fresh_id("t")
    secrets = calm_daemon.state / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / "kept").write_text("the-old-one\n")
    calm_daemon.add_program(
        "tells",
        "import os, json, hashlib\n"
        "print(json.dumps(hashlib.sha256(os.environ['KEPT'].encode()).hexdigest()))\n",
    )
    calm_daemon.add_handler(
        "tells",
        f'manifest = 1\ncommand = ["{calm_daemon.programs}/tells"]\ntimeout_ms = 60_000\n'
        'read_only = true\nenv_from = { KEPT = "kept" }\n',
    )
    third: dict[str, Any] = {"id": "third", "call_tool": {"handler": "tells", "input": None}}
    nodes = [{**third, "id": "zero"}, call("first", tag), third, give(all=expr("[zero, third]"))]
    calm_daemon.world.hold(f"{tag} made key")
    one = send(api, nodes).ok()["operation_id"]
    calm_daemon.world.arrived(f"{tag} made key")
    (secrets / "kept").unlink()
    calm_daemon.world.release()
    stands = api.final(one)
    assert stands["state"] == "interrupted"
    (attempt,) = api.call(stands["calls"][2])["attempts"]
    assert (attempt["outcome"], attempt["code"]) == ("not_started", "SandboxUnavailable")
    assert "kept" in attempt["detail"]
    (secrets / "kept").write_text("the-new-one\n")
    done = api.resume(one).ok()
    assert done["state"] == "succeeded"
    expected = [hashlib.sha256(text).hexdigest() for text in (b"the-old-one", b"the-new-one")]
    assert done["result"]["all"] == expected
