"""The outside world as the demo sees it: its three providers, and the only place that counts."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs

from demo.failure import DemoFailed
from demo.processes import Processes, read_line

WAIT_MS = 40_000


@attrs.frozen(eq=False)
class Deed:
    """One of the four things that are done, each with another contract."""

    handler: str  # also the plain worker's name for it, and the door behind it
    contract: str
    provider: str
    subject: str  # the input's field that tells one from another
    listing: str  # where the provider lists those with this subject
    noun: str
    more: Mapping[str, object] = attrs.field(factory=dict[str, object])
    """What else the input needs."""

    def input(self, subject: str, *trouble: str) -> dict[str, object]:
        given = {self.subject: self.named(subject), **self.more}
        return {**given, "trouble": list(trouble)} if trouble else given

    def named(self, subject: str) -> str:
        return f"{subject}@demo.invalid" if self.handler == "mail" else subject

    def counted(self, count: int) -> str:
        return f"{count} {self.noun}{'' if count == 1 else 's'}"


REPORT = Deed("report", "none", "payments", "name", "reads?name=", "read")
CHARGE = Deed(
    "charge", "idempotency_key", "payments", "order", "charges?order=", "charge",
    {"amount_cents": 1999},
)  # fmt: skip
TICKET = Deed("ticket", "reconciliation", "tickets", "title", "tickets?title=", "ticket")
MAIL = Deed("mail", "no_safe_retry", "mail", "to", "mails?to=", "mail", {"subject": "Your order"})
DEEDS = (REPORT, CHARGE, TICKET, MAIL)

BEGIN = "begin"
"""The door where a tool waits that was told to wait before it does anything."""


class World:
    """The running providers."""

    def __init__(self, ports: Mapping[str, Mapping[str, int]]) -> None:
        self._ports = ports

    @property
    def environment(self) -> dict[str, str]:
        """Where the providers are, as tools want to know it."""
        return {
            "DEMO_PAYMENTS": str(self._ports["payments"]["http"]),
            "DEMO_TICKETS": str(self._ports["tickets"]["http"]),
            "DEMO_MAIL_SMTP": str(self._ports["mail"]["smtp"]),
        }

    def done(self, deed: Deed, subject: str) -> list[dict[str, Any]]:
        """What the provider did for this subject, one entry for each time."""
        path = f"/{deed.listing}{quote(deed.named(subject))}"
        found: list[dict[str, Any]] = self._ask(deed.provider, "GET", path)
        return found

    def message(self, message_id: str) -> list[dict[str, Any]]:
        """The mails with this Message-ID: what a person would look for in the mailbox."""
        found: list[dict[str, Any]] = self._ask(
            "mail", "GET", f"/mails?message_id={quote(message_id)}"
        )
        return found

    def shut(self, deed: Deed) -> None:
        """From now on the provider does this deed and keeps its answer back."""
        self._ask(deed.provider, "POST", f"/shut/{deed.handler}")

    def open(self, deed: Deed) -> None:
        self._ask(deed.provider, "POST", f"/open/{deed.handler}")

    def wait_until_done(self, deed: Deed, count: int) -> None:
        """Return when `count` callers have had it done and wait for the answer."""
        self._wait(deed.provider, deed.handler, count)

    def shut_begin(self) -> None:
        self._ask("payments", "POST", f"/shut/{BEGIN}")

    def open_begin(self) -> None:
        self._ask("payments", "POST", f"/open/{BEGIN}")

    def wait_at_begin(self, count: int) -> None:
        """Return when `count` tools stand before their deed."""
        self._wait("payments", BEGIN, count)

    def _wait(self, provider: str, door: str, count: int) -> None:
        path = f"/waiting/{door}?count={count}&timeout_ms={WAIT_MS}"
        waiting = self._ask(provider, "GET", path)["waiting"]
        if waiting < count:
            raise DemoFailed(
                f"{count} tools should have reached {provider} by now, and {waiting} did"
            )

    def _ask(self, provider: str, method: str, path: str) -> Any:
        port = self._ports[provider]["http"]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_MS / 1000 + 10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            text = answer.read()
        except OSError as error:
            raise DemoFailed(f"the provider {provider} does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise DemoFailed(f"{provider} answered {method} {path} with {answer.status}")
        return json.loads(text)


def start_world(
    processes: Processes, root: Path, checkout: Path, env: Mapping[str, str], *, stay: bool
) -> World:
    """Start the providers, their books and logs below `root`; they end when the demo does."""
    started = {}
    for name in ("payments", "tickets", "mail"):
        argv = [sys.executable, "-m", f"demo.providers.{name}", str(root / f"{name}.db")]
        started[name] = processes.start(
            [*argv, "--stay"] if stay else argv,
            log=root / f"{name}.log",
            cwd=checkout,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    return World(
        {
            name: json.loads(
                read_line(process.stdout, f"the provider {name}", root / f"{name}.log")
            )
            for name, process in started.items()
        }
    )
