"""Every state that a power cut may leave, after every system call, is opened again."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable

import pytest

from tests.journal.driver import Driver, Enumerator, recovered
from tests.journal.fakeos import SECTOR, FakeOs, contents_of
from tests.journal.visited import visited

pytestmark = pytest.mark.many

STEPS: dict[str, Callable[[Driver], None]] = {
    "one": lambda d: d.grow(20),
    "batch over sectors": lambda d: d.grow(300, 130, 10),
    "nearly all of a segment": lambda d: d.grow(600, 180, 330),
    "mark": Driver.mark,
    "spare": Driver.spare,
    "reopen": Driver.open,
}


def workload(steps: tuple[str, ...], enumerator: Enumerator) -> None:
    """Run the steps; crash in the last one only, since shorter workloads crash in the others."""
    driver = Driver(FakeOs(), align=enumerator.align, size=enumerator.size)
    for step in steps[:-1]:
        STEPS[step](driver)
    enumerator.watch(driver)
    STEPS[steps[-1]](driver)


def every_workload(length: int, *, limit: int, align: int) -> Enumerator:
    enumerator = Enumerator(7, limit=limit, align=align)
    for count in range(1, length + 1):
        for steps in itertools.product(STEPS, repeat=count):
            workload(steps, enumerator)
    return enumerator


@pytest.mark.guarantee("J1", "J2")
@pytest.mark.parametrize(
    ("align", "length"),
    [
        (512, 3),
        (0, 2),
        (4096, 2),
        pytest.param(0, 3, marks=pytest.mark.long),
        pytest.param(4096, 3, marks=pytest.mark.long),
    ],
)
def test_no_power_cut_loses_an_acknowledged_frame_or_is_refused(align, length):
    found = every_workload(length, limit=256, align=align)
    visited(f"power cut, align {align}, {length} steps", found.states)
    assert found.nested >= found.states // 8
    assert found.verdicts["torn-tail"] > found.states // 16
    assert found.verdicts["clean"] > found.states // 16


@pytest.mark.long
@pytest.mark.guarantee("J1", "J2")
@pytest.mark.timeout(3600)
def test_no_power_cut_loses_an_acknowledged_frame_in_any_workload_of_four_steps():
    found = every_workload(4, limit=256, align=512)
    visited("power cut, align 512, 4 steps", found.states)


@pytest.mark.guarantee("J1", "J2")
@pytest.mark.parametrize("align", [512, 0])
def test_a_batch_whose_lines_end_anywhere_near_a_sectors_end_may_be_torn(align):
    """A line whose newline opened a sector would look intact with that sector unwritten."""
    enumerator = Enumerator(5, limit=64, align=align, again_every=1000)
    newlines: set[int] = set()
    for size in range(340, 460):
        driver = Driver(FakeOs(), align=align)
        enumerator.watch(driver)
        driver.grow(size, 300)
        content = contents_of(driver.os)[driver.writer.point.name]
        newlines |= {(match.end() - 1) % SECTOR for match in re.finditer(rb"\t\.\n", content)}
        assert [f.payload for f in recovered(driver.os.killed(), align=align).served] == (
            driver.appended
        )
    assert {SECTOR - 1, 1, 2} <= newlines
    assert 0 not in newlines
    visited(f"power cut near a sector's end, align {align}", enumerator.states)


def random_workload(seed: int, enumerator: Enumerator) -> None:
    rng = random.Random(seed)
    driver = Driver(FakeOs(), align=enumerator.align, size=enumerator.size)
    enumerator.watch(driver)
    for _ in range(8):
        step = rng.choice(["grow", "grow", "grow", "mark", "spare", "open"])
        sizes = [rng.choice([0, 20, rng.randrange(1500)]) for _ in range(rng.randrange(1, 5))]
        driver.grow(*sizes) if step == "grow" else getattr(driver, step)()


@pytest.mark.guarantee("J1", "J2")
def test_no_power_cut_loses_an_acknowledged_frame_in_random_workloads():
    enumerator = Enumerator(11, limit=120, again_every=24, size=8192)
    for seed in range(12):
        random_workload(seed, enumerator)
    visited("power cut in random workloads", enumerator.states)
    assert enumerator.killed >= 300


@pytest.mark.long
@pytest.mark.guarantee("J1", "J2")
@pytest.mark.timeout(3600)
def test_no_power_cut_loses_an_acknowledged_frame_in_many_random_workloads():
    total = 0
    for align in (512, 0, 4096):
        enumerator = Enumerator(align, limit=64, size=8192)
        for seed in range(300):
            random_workload(seed, enumerator)
        total += enumerator.states
    print(f"{total} states")
    assert total >= 30_000


@pytest.mark.guarantee("J1")
def test_a_first_start_may_be_cut_anywhere():
    enumerator = Enumerator(3, limit=300)
    os_ = FakeOs()
    driver = Driver.__new__(Driver)
    driver.os, driver.align, driver.size, driver.number = os_, 512, 2048, 0
    driver.appended, driver.promised = [], 0
    enumerator.watch(driver)
    driver.open()
    visited("power cut in a first start", enumerator.states)
