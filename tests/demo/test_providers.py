"""The providers do what each contract needs of them, and count nothing but what they did."""

from __future__ import annotations

import http.client
import json
import os
import smtplib
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from demo.processes import Processes
from demo.providers.gate import Gate
from demo.stage import CHECKOUT
from demo.world import CHARGE, MAIL, REPORT, TICKET, World, start_world


def ask(port: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, json.dumps(body) if body else None, named)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


@pytest.fixture
def ports(shared_world: World) -> dict[str, str]:
    return dict(shared_world.environment)


def charge(ports: dict[str, str], order: str, amount_cents: int, key: str) -> tuple[int, Any]:
    body = {"order": order, "amount_cents": amount_cents}
    headers = {"Idempotency_Key": key} if key else {}
    return ask(ports["DEMO_PAYMENTS"], "POST", "/charges", body, **headers)


def open_ticket(ports: dict[str, str], title: str) -> tuple[int, Any]:
    body = {"title": title, "reference": f"about-{title}"}
    return ask(ports["DEMO_TICKETS"], "POST", "/tickets", body)


def test_the_same_key_is_the_same_charge(
    shared_world: World, ports: dict[str, str], subject: str
) -> None:
    first = charge(ports, subject, 5, f"{subject}-key")
    assert first == (200, {"charge": f"{subject}-key", "amount_cents": 5})
    assert charge(ports, subject, 5, f"{subject}-key") == first
    assert len(shared_world.done(CHARGE, subject)) == 1


def test_another_key_is_another_charge(
    shared_world: World, ports: dict[str, str], subject: str
) -> None:
    for key in ("a", "b"):
        charge(ports, subject, 5, f"{subject}-{key}")
    assert len(shared_world.done(CHARGE, subject)) == 2


@pytest.mark.parametrize(
    ("order", "amount_cents", "key", "status"),
    [("", 6, "-key", 422), ("-other", 5, "-key", 422), ("", 5, None, 400)],
    ids=["other amount", "other order", "no key"],
)
def test_a_wrong_use_of_a_key_is_refused_and_charges_nothing(
    shared_world: World,
    ports: dict[str, str],
    subject: str,
    order: str,
    amount_cents: int,
    key: str | None,
    status: int,
) -> None:
    charge(ports, subject, 5, f"{subject}-key")
    wrong = charge(ports, subject + order, amount_cents, f"{subject}{key}" if key else "")
    assert wrong[0] == status
    assert len(shared_world.done(CHARGE, subject)) == 1
    assert not shared_world.done(CHARGE, f"{subject}-other")


def test_a_ticket_is_opened_each_time_and_found_by_its_reference(
    shared_world: World, ports: dict[str, str], subject: str
) -> None:
    for _ in range(2):
        assert open_ticket(ports, subject)[0] == 201
    assert len(shared_world.done(TICKET, subject)) == 2
    found = ask(ports["DEMO_TICKETS"], "GET", f"/tickets?reference=about-{subject}")
    assert [ticket["title"] for ticket in found[1]] == [subject, subject]
    assert ask(ports["DEMO_TICKETS"], "GET", "/tickets?reference=nothing") == (200, [])


def test_a_mail_is_counted_by_recipient_and_found_by_message_id(
    shared_world: World, ports: dict[str, str], subject: str
) -> None:
    message_id = f"<{subject}@demo.invalid>"
    for _ in range(2):
        with smtplib.SMTP("127.0.0.1", int(ports["DEMO_MAIL_SMTP"]), "test", timeout=20) as smtp:
            text = f"Message-ID: {message_id}\r\n\r\nhello"
            smtp.sendmail("a@demo.invalid", [f"{subject}@demo.invalid"], text)
    assert len(shared_world.done(MAIL, subject)) == 2
    assert len(shared_world.message(message_id)) == 2
    assert not shared_world.message("<nothing@demo.invalid>")


def test_a_read_is_counted_and_changes_nothing(
    shared_world: World, ports: dict[str, str], subject: str
) -> None:
    read = [
        ask(ports["DEMO_PAYMENTS"], "GET", f"/report?name={subject}&sent_ns=7") for _ in range(3)
    ]
    assert read[0] == read[1] == read[2]
    assert shared_world.done(REPORT, subject) == [{"sent_ns": 7}] * 3


def test_behind_a_shut_door_the_deed_is_done_and_the_answer_is_not_given(
    shared_world: World, ports: dict[str, str], subject: str
) -> None:
    shared_world.shut(TICKET)
    answered = threading.Event()

    def open_one() -> None:
        open_ticket(ports, subject)
        answered.set()

    caller = threading.Thread(target=open_one)
    caller.start()
    try:
        shared_world.wait_until_done(TICKET, 1)
        assert len(shared_world.done(TICKET, subject)) == 1
        assert not answered.is_set()
    finally:
        shared_world.open(TICKET)
    caller.join(20)
    assert answered.is_set()


def test_a_door_counts_who_waits_and_lets_all_of_them_through() -> None:
    gate = Gate()
    gate.walk_through("d")
    assert gate.wait_until("d", 1, 10) == 0
    gate.shut("d")
    callers = [threading.Thread(target=gate.walk_through, args=("d",)) for _ in range(3)]
    for caller in callers:
        caller.start()
    assert gate.wait_until("d", 3, 20_000) == 3
    gate.open_all()
    for caller in callers:
        caller.join(20)
        assert not caller.is_alive()


def test_providers_end_with_their_standard_input() -> None:
    processes = Processes(outlive=False)
    with tempfile.TemporaryDirectory(prefix="effectd-demo-test-") as root:
        start_world(processes, Path(root), CHECKOUT, dict(os.environ), stay=False)
        started = processes._started
        try:
            for process in started:
                assert process.stdin is not None
                process.stdin.close()
            assert [process.wait(60) for process in started] == [0, 0, 0]
        finally:
            processes.end_all()
