"""B: kill -9 before the handler was given leave, so that nothing can have happened."""

from __future__ import annotations

import attrs

from demo.plain import PlainWorker
from demo.processes import living
from demo.recover import recover
from demo.screen import Screen, result
from demo.stage import Stage
from demo.tally import Measured, Tally, once
from demo.world import MAIL

HEADLINE = "kill -9 before the tool does anything"
WHY = "effectd gives leave when the announcement is on disk: no leave, nothing done."
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
    orphaned = f"{orphans} orphan went on, and so did the retry" if orphans else "the retry"
    known = recovered.verdict or "nothing announced"
    resumed = recovered.steps.count("resume")
    told = f"{recovered.said}, {known}; resumed {'once' if resumed == 1 else resumed}"
    lines = (
        result(screen, "plain worker", MAIL.counted(plain_count), orphaned, good=plain_count == 1),
        result(screen, "effectd", MAIL.counted(effectd_count), told, good=effectd_count == 1),
    )
    effectd = once(effectd_count) + Tally(unknown=int(recovered.unknown))
    figures: dict[str, object] = {
        "plain_count": plain_count,
        "plain_orphans": orphans,
        "effectd_count": effectd_count,
        **attrs.asdict(recovered),
    }
    return Measured("unstarted", lines, once(plain_count), effectd, figures)
