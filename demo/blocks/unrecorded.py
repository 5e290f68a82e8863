"""A: kill -9 after the provider did it, and before anyone wrote that down."""

from __future__ import annotations

import time

import attrs

from demo.plain import PlainWorker
from demo.processes import living, running_from
from demo.recover import Recovered, recover
from demo.screen import Screen, row
from demo.stage import Stage
from demo.tally import Measured, Tally, once
from demo.world import DEEDS, REPORT, Deed
from effectd.client import Client

HEADLINE = "kill -9 after the provider did it, before anyone wrote it down"
WHY = "Was it done? The answer is lost. What is safe now depends on the contract."
PLAIN, EFFECTD = "a-plain", "a-effectd"
WIDTHS = (15, 12, 12, 18, 12)
WORDS = {
    "repeat": "repeat, harmless",
    "retry": "retry, same key",
    "ReconciliationRequired": "ask provider first",
    "EffectOutcomeUnknown": "a person looks",
}


@attrs.frozen
class Row:
    """One contract's fate on both sides."""

    deed: Deed
    plain_count: int
    effectd_count: int
    recovered: Recovered


def measure(stage: Stage, screen: Screen) -> Measured:
    workers = {deed: PlainWorker(stage, f"a-{deed.handler}") for deed in DEEDS}
    for deed in DEEDS:
        stage.world.shut(deed)
    with stage.daemon.client() as client:
        operations = _begin(stage, workers, client)
    left_plain, left_effectd = _kill_everything(stage, workers)
    for deed in DEEDS:
        stage.world.open(deed)
    stage.daemon.begin()
    for worker in workers.values():
        worker.start()
    for worker in workers.values():
        worker.wait_until_empty()
    stage.daemon.wait_until_ready()
    with stage.daemon.client() as client:
        recovered = {deed: recover(client, stage.world, operations[deed]) for deed in DEEDS}
    rows = [
        Row(
            deed,
            len(stage.world.done(deed, PLAIN)),
            len(stage.world.done(deed, EFFECTD)),
            recovered[deed],
        )
        for deed in DEEDS
    ]
    return _measured(screen, rows, left_plain, left_effectd)


def _begin(stage: Stage, workers: dict[Deed, PlainWorker], client: Client) -> dict[Deed, str]:
    """Start all eight, and return when every provider has done its part and says nothing yet."""
    operations = {}
    for deed, worker in workers.items():
        worker.send(deed, PLAIN, "helper")
        worker.start()
        accepted = client.dispatch(deed.handler, deed.input(EFFECTD, "helper"), wait=False)
        operations[deed] = str(accepted["operation_id"])
    for deed in DEEDS:
        stage.world.wait_until_done(deed, 2)
    return operations


def _kill_everything(stage: Stage, workers: dict[Deed, PlainWorker]) -> tuple[int, int]:
    """SIGKILL the daemon and the workers; how many of their processes run a second later."""
    below_effectd = stage.daemon.kill()
    below_plain = [process for worker in workers.values() for process in worker.kill()]
    time.sleep(1)  # the measurement itself, not a hope: who is there a second later
    left_plain = {*living(below_plain), *running_from(stage.plain_tools)}
    left_effectd = {*living(below_effectd), *running_from(stage.handler_tools)}
    return len(left_plain), len(left_effectd)


def _measured(screen: Screen, rows: list[Row], left_plain: int, left_effectd: int) -> Measured:
    counted = [one for one in rows if one.deed is not REPORT]
    unknown = sum(one.recovered.unknown for one in counted)
    plain = sum((once(one.plain_count) for one in counted), Tally(survivors=left_plain))
    effectd = sum(
        (once(one.effectd_count) for one in counted),
        Tally(survivors=left_effectd, unknown=unknown),
    )
    heads = ("contract", "plain worker", "effectd says", "it allows", "in the end")
    left = (
        f"still running 1 s after the kill:  plain {left_plain}",
        f"effectd {left_effectd}",
    )
    lines = [
        screen.quiet(row(*zip(heads, WIDTHS, strict=True))),
        *(_line(screen, one) for one in rows),
        screen.judged(left[0], good=not left_plain)
        + "   "
        + screen.judged(left[1], good=not left_effectd),
    ]
    figures: dict[str, object] = {
        "contracts": {one.deed.contract: attrs.asdict(one, filter=_no_deed) for one in rows},
        "left_running": {"plain": left_plain, "effectd": left_effectd},
    }
    return Measured("unrecorded", tuple(lines), plain, effectd, figures)


def _no_deed(attribute: attrs.Attribute[object], _: object) -> bool:
    return attribute.name != "deed"


def _line(screen: Screen, one: Row) -> str:
    deed, recovered = one.deed, one.recovered
    end = deed.counted(one.effectd_count)
    if recovered.state != "succeeded":
        end = f"{end}, {recovered.state}"
    return row(
        (deed.contract, WIDTHS[0]),
        (_judged(screen, deed, one.plain_count, deed.counted(one.plain_count)), WIDTHS[1]),
        (recovered.said, WIDTHS[2]),
        (WORDS.get(recovered.verdict, recovered.verdict), WIDTHS[3]),
        (_judged(screen, deed, one.effectd_count, end), WIDTHS[4]),
    )


def _judged(screen: Screen, deed: Deed, count: int, text: str) -> str:
    if deed is REPORT:
        return screen.plain(text)
    return screen.judged(text, good=count == 1)
