"""B: kill -9 before the handler was given leave, so that nothing can have happened."""

from __future__ import annotations

import attrs

from demo.plain import PlainWorker
from demo.processes import living
from demo.recover import recover
from demo.screen import Screen, row
from demo.stage import Stage
from demo.tally import Measured, once
from demo.world import MAIL

HEADLINE = "kill -9 while the tool is still getting ready: nothing was done yet"
PLAIN, EFFECTD = "b-plain", "b-effectd"


def measure(stage: Stage, screen: Screen) -> Measured:
    worker = PlainWorker(stage, "b")
    stage.world.shut_begin()
    with stage.daemon.client() as client:
        worker.send(MAIL, PLAIN, "wait")
        worker.start()
        accepted = client.dispatch(MAIL.handler, MAIL.input(EFFECTD, "wait"), wait=False)
        operation_id = str(accepted["operation_id"])
        stage.world.wait_at_begin(2)
    stage.daemon.kill()
    below_plain = worker.kill()
    stage.daemon.begin()
    worker.start()
    stage.daemon.wait_until_ready()
    orphans = len(living(below_plain))
    stage.world.open_begin()
    with stage.daemon.client() as client:
        recovered = recover(client, stage.world, operation_id)
    worker.wait_until_empty()
    plain_count = len(stage.world.done(MAIL, PLAIN))
    effectd_count = len(stage.world.done(MAIL, EFFECTD))
    why = f"{orphans} orphaned tool went on, and the retry went on too" if orphans else "the retry"
    known = "announced nothing, so nothing was done" if not recovered.verdict else recovered.verdict
    then = (
        f"{len(recovered.steps)} resume" if set(recovered.steps) == {"resume"} else recovered.steps
    )
    lines = (
        _line(screen, plain_count, "plain worker", why),
        _line(screen, effectd_count, "effectd", f"{recovered.said}, {known}; {then}"),
    )
    figures: dict[str, object] = {
        "plain_count": plain_count,
        "plain_orphans": orphans,
        "effectd_count": effectd_count,
        **attrs.asdict(recovered),
    }
    return Measured("unstarted", lines, once(plain_count), once(effectd_count), figures)


def _line(screen: Screen, count: int, who: str, how: str) -> str:
    return row((screen.judged(MAIL.counted(count), good=count == 1), 11), (who, 12), (how, 0))
