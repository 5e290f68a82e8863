"""The page and the picture say what was measured, and nothing about whose machine it was."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from xml.etree import ElementTree as ET

import attrs
import pytest

from bench import __main__ as bench
from bench import facts, goals, latency, plot, report
from tests.bench import made

SVG = "{http://www.w3.org/2000/svg}"


def test_every_table_has_as_many_cells_in_each_row_as_in_its_head() -> None:
    page = report.page(made.report(), "spawn.svg")
    tables = [block for block in page.split("\n\n") if block.startswith("|")]
    assert len(tables) == 6
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_the_page_shows_every_series_with_its_ratio() -> None:
    page = report.latencies(made.report(pooled=1.25))
    assert "| effectd, pooled | tree proven dead | 1.25 1.25 1.25 | 1.25 | 1.25 | 1.25 |" in page
    assert len(page.splitlines()) == 2 + len(made.latencies().series)


def test_a_busy_machine_is_named_as_one() -> None:
    quiet = made.report()
    assert "something else" not in report.page(quiet, "spawn.svg")
    busy = attrs.evolve(quiet, loads=(0.1, facts.BUSY_LOAD))
    assert "something else" in report.page(busy, "spawn.svg")


def test_the_facts_name_no_host_and_no_path() -> None:
    told = " ".join(f"{name} {value}" for name, value in facts.machine().items())
    assert socket.gethostname() not in told
    assert str(Path.home()) not in told
    assert "/" not in told
    assert re.fullmatch(r"[\d.]+", facts.machine()["kernel"])


@pytest.mark.parametrize(
    ("changed", "met"),
    [
        ({}, [True, True, True, True]),
        ({"pooled": 1.5}, [True, True, True, True]),
        ({"pooled": 1.51}, [False, True, True, True]),
        ({"pooled": 2.01}, [False, False, True, True]),
        ({"cold": 4.01}, [True, True, False, True]),
        ({"bwrap": 3.5}, [True, True, True, False]),
        ({"bwrap": None}, [True, True, True, None]),
    ],
)
def test_goals_are_met_up_to_their_bound(changed: dict[str, float], met: list[bool]) -> None:
    found = goals.judge(made.latencies(**changed), made.rates(500, 600), cores=2)
    assert [goal.met for goal in found] == [*met, True]


def test_the_best_rate_counts_on_two_cores_alone() -> None:
    def last(rates: dict[int, list[goals.Rate]], cores: int) -> bool | None:
        return goals.judge(made.latencies(), rates, cores)[-1].met

    assert last(made.rates(500, 599), 2) is False
    assert last(made.rates(600, 10), 2) is True
    assert last(made.rates(5_000), 8) is None


def test_the_picture_draws_each_bar_to_scale() -> None:
    bars = [plot.Bar("Popen <&>", 1, 2), plot.Bar("ours", 2, 3, ours=True, goal=1.5)]
    svg = ET.fromstring(plot.chart("a title", bars))
    _, first, second = svg.findall(f"{SVG}rect")
    assert float(second.get("width", "")) == pytest.approx(2 * float(first.get("width", "")))
    assert len(svg.findall(f"{SVG}line")) == 3  # two 99th percentiles and a goal
    assert "Popen <&>" in [text.text for text in svg.findall(f"{SVG}text")]


def test_the_picture_of_a_report_stays_inside_its_frame() -> None:
    svg = ET.fromstring(bench.chart(made.report()))
    width, height = float(svg.get("width", "")), float(svg.get("height", ""))
    for line in svg.findall(f"{SVG}line"):
        assert 0 <= float(line.get("x1", "")) <= float(line.get("x2", "")) <= width
        assert 0 <= float(line.get("y2", "")) <= height
    labels = [text.text for text in svg.findall(f"{SVG}text")]
    assert f"{latency.POOLED}: {latency.PROVEN}" in labels
