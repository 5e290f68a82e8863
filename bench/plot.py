"""A bar chart as SVG: a bar to each median, a line on to its 99th percentile."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

import attrs

_LEFT, _RIGHT, _TOP, _BOTTOM, _ROW, _WIDTH = 260, 60, 46, 36, 26, 860
_OURS, _OTHERS, _GOAL, _QUIET = "#2a6fb0", "#8a8a8a", "#c0392b", "#555555"
_LEGEND = "bar: median; thin line: 99th percentile; red: what the median is to stay below"


@attrs.frozen
class Bar:
    """One row: ``median`` and ``p99`` in the chart's unit; ``goal`` draws where it wants to be."""

    label: str
    median: float
    p99: float
    ours: bool = False
    goal: float | None = None


def chart(title: str, bars: Sequence[Bar]) -> str:
    """The picture, with its own white ground, so that a dark page shows it too."""
    height = _TOP + _ROW * len(bars) + _BOTTOM
    svg = ET.Element("svg", xmlns="http://www.w3.org/2000/svg")
    svg.attrib |= {"viewBox": f"0 0 {_WIDTH} {height}", "width": str(_WIDTH)}
    svg.attrib |= {"height": str(height), "font-family": "sans-serif", "font-size": "13"}
    _add(svg, "rect", width=_WIDTH, height=height, fill="#ffffff")
    _add(svg, "text", title, x=14, y=26, font_size=15, font_weight="bold")
    most = max(max(bar.median, bar.p99, bar.goal or 0) for bar in bars)
    for at, bar in enumerate(bars):
        _row(svg, bar, _TOP + _ROW * at, (_WIDTH - _LEFT - _RIGHT) / most)
    _add(svg, "text", _LEGEND, x=14, y=height - 12, fill=_QUIET)
    ET.indent(svg)
    return ET.tostring(svg, encoding="unicode") + "\n"


def _row(svg: ET.Element, bar: Bar, top: int, scale: float) -> None:
    middle, fill = top + _ROW / 2, _OURS if bar.ours else _OTHERS
    end, far = _LEFT + bar.median * scale, _LEFT + bar.p99 * scale
    _add(svg, "text", bar.label, x=_LEFT - 8, y=middle + 4, text_anchor="end")
    _add(svg, "rect", x=_LEFT, y=top + 4, width=end - _LEFT, height=_ROW - 8, fill=fill)
    _add(svg, "line", x1=end, y1=middle, x2=far, y2=middle, stroke=fill, stroke_width=2)
    _add(svg, "text", f"{bar.median:.2f}", x=max(end, far) + 6, y=middle + 4)
    if bar.goal is not None:
        at = _LEFT + bar.goal * scale
        _add(svg, "line", x1=at, y1=top + 1, x2=at, y2=top + _ROW - 1, stroke=_GOAL, stroke_width=2)


def _add(svg: ET.Element, name: str, text: str = "", **attributes: str | float) -> None:
    element = ET.SubElement(svg, name)
    for key, value in attributes.items():
        shown = value if isinstance(value, str) else f"{value:.6g}"
        element.set(key.replace("_", "-"), shown)
    element.text = text or None
