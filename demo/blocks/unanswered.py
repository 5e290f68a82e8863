"""C: the answer got lost, and fifty clients send the same request again, all at once."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
from typing import NamedTuple

from demo.failure import DemoFailed
from demo.plain import PlainWorker
from demo.processes import running_from
from demo.recover import finish
from demo.screen import Screen, result
from demo.stage import Stage
from demo.tally import Measured, once
from demo.world import MAIL

AGAIN = 50
PATIENCE_S = 40
HEADLINE = f"the answer got lost: {AGAIN} clients send the same request again, all at once"
WHY = "Who hears nothing asks again. One request id is one operation, whoever asks."
PLAIN, EFFECTD, REQUEST_ID = "c-plain", "c-effectd", "demo-c"


class Answers(NamedTuple):
    """What the fifty were told."""

    operations: int
    processes: int
    results: int


def measure(stage: Stage, screen: Screen) -> Measured:
    worker = PlainWorker(stage, "c")
    worker.send(MAIL, PLAIN, times=1 + AGAIN)
    stage.world.shut(MAIL)
    _send_and_hang_up(stage)
    answers = _send_again(stage)
    worker.start()
    worker.wait_until_empty()
    plain_count = len(stage.world.done(MAIL, PLAIN))
    effectd_count = len(stage.world.done(MAIL, EFFECTD))
    told = (
        f"{answers.operations} operation, {answers.processes} process, "
        f"{answers.results} result for all"
    )
    naive = "no request ids: each sending is a new job"
    lines = (
        result(screen, "plain worker", MAIL.counted(plain_count), naive, good=plain_count == 1),
        result(screen, "effectd", MAIL.counted(effectd_count), told, good=effectd_count == 1),
        screen.quiet("(Request ids in the plain queue would cure this fault, and not A, B and D.)"),
    )
    figures: dict[str, object] = {
        "plain_count": plain_count,
        "effectd_count": effectd_count,
        **answers._asdict(),
    }
    return Measured("unanswered", lines, once(plain_count), once(effectd_count), figures)


def _body() -> dict[str, object]:
    return {"request_id": REQUEST_ID, "handler": MAIL.handler, "input": MAIL.input(EFFECTD)}


def _send_and_hang_up(stage: Stage) -> None:
    """The first client: it sends, and is gone before it can hear an answer."""
    text = json.dumps({**_body(), "wait_ms": 20_000}).encode()
    head = (
        "POST /v1/dispatch HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    )
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(stage.daemon.socket))
        line.sendall(head.encode() + text)
        stage.world.wait_until_done(MAIL, 1)


def _send_again(stage: Stage) -> Answers:
    """The fifty. The mail is out and its answer kept back until all of them have been answered."""
    clients = [Again(stage, number) for number in range(AGAIN)]
    together, accepted = threading.Barrier(AGAIN), threading.Barrier(AGAIN + 1)
    for client in clients:
        # Daemon threads: Ctrl-C does not wait for their answers.
        threading.Thread(target=client.run, args=(together, accepted), daemon=True).start()
    with contextlib.suppress(threading.BrokenBarrierError):
        accepted.wait(PATIENCE_S)
    at_once = len(running_from(stage.handler_tools))
    stage.world.open(MAIL)
    told = [client.answer() for client in clients]
    operations = {operation_id for operation_id, _ in told}
    return Answers(
        operations=len(operations),
        processes=max(at_once, _attempts(stage, operations)),
        results=len({result for _, result in told}),
    )


class Again:
    """One of the fifty, in a thread of its own."""

    def __init__(self, stage: Stage, number: int) -> None:
        self._stage = stage
        self._number = number
        self._told: queue.SimpleQueue[tuple[str, str] | Exception] = queue.SimpleQueue()

    def run(self, together: threading.Barrier, accepted: threading.Barrier) -> None:
        try:
            with self._stage.daemon.client() as client:
                together.wait(PATIENCE_S)
                operation = client.dispatch(
                    MAIL.handler, MAIL.input(EFFECTD), request_id=REQUEST_ID, wait=False
                )
                accepted.wait(PATIENCE_S)
                ended = finish(client, str(operation["operation_id"]))
            self._told.put((str(operation["operation_id"]), json.dumps(ended["result"])))
        except Exception as error:
            accepted.abort()
            self._told.put(error)

    def answer(self) -> tuple[str, str]:
        """The operation's id and its result, as this client was told."""
        told = self._told.get(timeout=3 * PATIENCE_S)
        if isinstance(told, Exception):
            raise DemoFailed(f"client {self._number} got no answer: {told}", self._stage.daemon.log)
        return told


def _attempts(stage: Stage, operations: set[str]) -> int:
    with stage.daemon.client() as client:
        calls = [call for one in operations for call in client.operation(one)["calls"]]
        return sum(len(client.call(call)["attempts"]) for call in calls)
