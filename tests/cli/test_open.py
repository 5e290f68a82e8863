"""`effectctl operations note, continue, end` on a real daemon."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from effectd.client import Client, Refused
from supervisor.cli.exits import Exit
from tests.cli.conftest import Ctl, Daemon

_serials = itertools.count()


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with Client(daemon.socket) as made:
        yield made


def opened(client: Client) -> str:
    document = client.open(f"m{next(_serials)}", max_run_ms=600_000)
    operation_id: str = document["operation_id"]
    return operation_id


@pytest.mark.guarantee("A2", "A9")
def test_a_person_reads_the_note_ends_a_continuation_and_opens_the_next(
    ctl: Ctl, client: Client
) -> None:
    one = opened(client)
    assert ctl("operations", "note", one).out == ""
    assert client.invoke(one, "charge", {"amount": 7}, request_id="t1") == {"receipt": 7}
    said = ctl("operations", "note", one)
    assert '- charge\n  | input {"amount":7}\n  | result {"receipt":7}\n' in said.out
    ended = ctl("operations", "end", one, "--reason", "time_limit")
    assert ended.code == Exit.DONE
    assert "0, ended: time_limit" in ended.out
    assert f"effectctl operations continue {one}" in ended.out
    assert f"effectctl operations continue {one}" in ctl("operations", "recovery", one).out
    with pytest.raises(Refused):
        client.invoke(one, "charge", {"amount": 7}, request_id="t2")
    went_on = ctl("operations", "continue", one)
    assert went_on.code == Exit.DONE
    assert "1, open" in went_on.out
    assert "continuation 1 opened (manual)" in went_on.out
    assert client.invoke(one, "charge", {"amount": 7}, request_id="t2") == {"receipt": 7}
    assert "an equal call was replayed" in ctl("operations", "show", one).out
    assert ctl("operations", "end", one, "--reason", "done").code == Exit.DONE
    refused = ctl("operations", "continue", one)
    assert refused.code == Exit.REFUSED
    assert "ContinuationRefused" in refused.err


def test_a_restart_that_ended_a_continuation_stands_in_the_timeline(
    ctl: Ctl, client: Client, daemon: Daemon
) -> None:
    one = opened(client)
    daemon.stop()
    daemon.start()
    shown = ctl("operations", "show", one).out
    assert "continuation 0 opened (message)" in shown
    assert "continuation 0 ended: restart" in shown
    assert f"effectctl operations continue {one}" in shown


def test_an_operation_of_another_kind_has_no_continuations(ctl: Ctl) -> None:
    one = str(ctl("dispatch", "echo", "-o", "json").document["operation_id"])
    for verb in (["continue"], ["end", "--reason", "done"]):
        said = ctl("operations", verb[0], one, *verb[1:])
        assert said.code == Exit.USAGE
        assert "is a dispatch operation" in said.err
    assert ctl("operations", "note", one, "-o", "json").document["note"] == ""


def test_one_request_id_names_one_continuation(ctl: Ctl, client: Client) -> None:
    one, other = opened(client), opened(client)
    assert ctl("operations", "continue", one, other, "--request-id", "c").code == Exit.USAGE
    assert ctl("operations", "continue", other, "--request-id", "c1").code == Exit.DONE
