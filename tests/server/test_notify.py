"""What systemd hears, on a socket of its kind; and that nothing depends on its listening."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from supervisor.notify import Notifier


class Manager:
    """The receiving end, as systemd holds it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.socket.bind("\0" + address[1:] if address.startswith("@") else address)

    def heard(self) -> list[str]:
        messages = []
        while True:
            try:
                messages.append(self.socket.recv(65_536).decode())
            except BlockingIOError:
                return messages


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, directory: Path) -> Iterator[Manager]:
    path = request.param == "path"
    manager = Manager(str(directory / "notify") if path else f"@effectd-test/{os.getpid()}")
    with manager.socket:
        yield manager


def test_every_message_is_one_datagram_of_assignments(manager: Manager) -> None:
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": manager.address})
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert notifier.status("reading the journal")
    assert notifier.ready("2 effects need a person")
    assert notifier.reloading()
    assert notifier.stopping("draining")
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    status, ready, reloading, stopping = manager.heard()
    assert status == "STATUS=reading the journal"
    assert ready == "READY=1\nSTATUS=2 effects need a person"
    assert stopping == "STOPPING=1\nSTATUS=draining"
    kind, _, stamp = reloading.partition("\nMONOTONIC_USEC=")
    assert kind == "RELOADING=1"
    assert before <= int(stamp) <= after
    notifier.close()


def test_a_status_cannot_smuggle_an_assignment(manager: Manager) -> None:
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": manager.address})
    notifier.status("x\nMAINPID=1\r\n")
    assert manager.heard() == ["STATUS=x MAINPID=1"]
    notifier.close()


def test_the_variables_are_taken_out_of_the_environment(monkeypatch, manager: Manager) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    notifier = Notifier.from_environment()
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & set(os.environ)
    assert notifier.watchdog_ms == 30_000
    assert notifier.ready()
    assert manager.heard() == ["READY=1\nSTATUS="]
    notifier.close()


@pytest.mark.parametrize("named", ["", "/", "@", "relative", "vsock:2:1234", "/nobody/listens"])
def test_without_a_listener_nothing_is_sent_and_nothing_raised(named: str) -> None:
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": named})
    assert not any(
        (notifier.ready(), notifier.status("x"), notifier.reloading(), notifier.stopping())
    )
    notifier.close()


def test_a_full_queue_drops_messages_and_never_waits(manager: Manager) -> None:
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": manager.address})
    sent = [notifier.status("x") for _ in range(5_000)]
    assert sent[0]
    assert not sent[-1]
    manager.heard()
    assert notifier.status("y")
    notifier.close()


def test_its_descriptor_is_not_inherited(manager: Manager) -> None:
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": manager.address})
    assert notifier._socket is not None
    assert not notifier._socket.get_inheritable()
    notifier.close()


@pytest.mark.parametrize(
    ("interval", "pid", "milliseconds"),
    [
        ("30000000", "own", 30_000),
        ("30000000", "", 30_000),
        ("30000000", "other", None),
        ("30000000", "x", None),
        ("", "", None),
        ("0", "", None),
        ("-5", "", None),
        ("3e7", "", None),
        ("\N{SUPERSCRIPT TWO}", "", None),
        ("500", "", 1),
    ],
)
def test_the_watchdog_is_ours_or_not_at_all(interval: str, pid: str, milliseconds) -> None:
    known = {"own": str(os.getpid()), "other": str(os.getpid() + 1)}
    environ = {"WATCHDOG_USEC": interval, "WATCHDOG_PID": known.get(pid, pid)}
    assert Notifier.from_environment(environ).watchdog_ms == milliseconds
    assert environ == {}


async def test_signs_of_life_come_at_half_the_interval_while_healthy(
    manager: Manager, autojump_clock
) -> None:
    environ = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "30000000"}
    notifier = Notifier.from_environment(environ)
    healthy = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.watchdog, lambda: healthy)
        await trio.sleep(31)
        assert manager.heard() == ["WATCHDOG=1"] * 3  # at 0, 15 and 30 s
        healthy = False
        await trio.sleep(60)
        assert manager.heard() == []
        healthy = True
        await trio.sleep(15)
        assert manager.heard() == ["WATCHDOG=1"]
        nursery.cancel_scope.cancel()
    notifier.close()


async def test_without_a_watchdog_the_task_ends(manager: Manager) -> None:
    notifier = Notifier.from_environment({"NOTIFY_SOCKET": manager.address})
    with trio.fail_after(60):
        await notifier.watchdog(lambda: True)
    assert manager.heard() == []
    notifier.close()
