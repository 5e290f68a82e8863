"""C: the answer got lost, and fifty clients send the same request again, all at once."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from demo.plain import PlainWorker
from demo.processes import running_from
from demo.recover import finish
from demo.screen import Screen, row
from demo.stage import Stage
from demo.tally import Measured, once
from demo.world import MAIL

AGAIN = 50
HEADLINE = f"the answer got lost: {AGAIN} clients send the same request again, all at once"
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
        f"{answers.results} result for all {AGAIN}"
    )
    lines = (
        _line(
            screen, plain_count, "plain worker", "no request id: each sending is a job of its own"
        ),
        _line(screen, effectd_count, "effectd", told),
        " " * 15
        + screen.quiet("(a unique request id in its queue would cure this, and A, B and D not)"),
    )
    figures: dict[str, object] = {
        "plain_count": plain_count,
        "effectd_count": effectd_count,
        **answers._asdict(),
    }
    return Measured("unanswered", lines, once(plain_count), once(effectd_count), figures)


def _line(screen: Screen, count: int, who: str, how: str) -> str:
    return row((screen.judged(MAIL.counted(count), good=count == 1), 11), (who, 12), (how, 0))


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
    together, accepted = threading.Barrier(AGAIN), threading.Barrier(AGAIN + 1)

    def again(_: int) -> tuple[str, Any]:
        with stage.daemon.client() as client:
            together.wait(20)
            operation = client.dispatch(
                MAIL.handler, MAIL.input(EFFECTD), request_id=REQUEST_ID, wait=False
            )
            accepted.wait(20)
            ended = finish(client, operation["operation_id"])
            return operation["operation_id"], json.dumps(ended["result"])

    with ThreadPoolExecutor(AGAIN) as pool:
        asked = [pool.submit(again, number) for number in range(AGAIN)]
        accepted.wait(20)
        at_once = len(running_from(stage.handler_tools))
        stage.world.open(MAIL)
        told = [one.result() for one in asked]
    operations = {operation_id for operation_id, _ in told}
    return Answers(
        operations=len(operations),
        processes=max(at_once, _attempts(stage, operations)),
        results=len({result for _, result in told}),
    )


def _attempts(stage: Stage, operations: set[str]) -> int:
    with stage.daemon.client() as client:
        calls = [call for one in operations for call in client.operation(one)["calls"]]
        return sum(len(client.call(call)["attempts"]) for call in calls)
