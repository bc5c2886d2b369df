"""The rows as an SVG file, with one group of bars per case and one bar per peer.

Units differ, so each group has its own scale: the most expensive peer fills the width. Compare lengths within one group
only. Shorter is cheaper. A peer that was not measured has no bar. No library is used, because a bar chart is only
rectangles and text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from bursar_benchmarks.harness import BASELINE, Row
from bursar_benchmarks.report import number, ratio

WIDTH, MARGIN, NAME, BARS = 860, 16, 70, 580
LINE, TITLE, GAP = 16, 22, 14
COLOURS = {BASELINE: "#1f6feb", "floor": "#b0b7c0"}
OTHERS = "#8a94a3"
CAPTION = (
    "CPU time per operation, or bytes: shorter is cheaper. Each group has its own scale. × is the cost over Bursar's."
)


def svg(rows: Sequence[Row], facts: Mapping[str, str]) -> str:
    """The whole picture."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row.best is not None:
            groups.setdefault((row.case, row.size), []).append(row)
    body: list[str] = []
    machine = f"{facts['cpu']}, {facts['cores']} cores, {facts['python']}, Bursar {facts['bursar']}"
    y = MARGIN
    for words in (machine, CAPTION):
        y += LINE
        body.append(text(MARGIN, y, words, "note"))
    for (case, size), group in groups.items():
        y += GAP + TITLE
        body.append(text(MARGIN, y, f"{case}, {group[0].unit}, {size:,}", "title"))
        longest = max(row.best or 0.0 for row in group)
        for row in group:
            y += LINE
            body += bar(row, y, longest)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + MARGIN}" '
        f'viewBox="0 0 {WIDTH} {y + MARGIN}">\n'
        "<style>text{font:12px sans-serif;fill:#24292f}.title{font-weight:bold}.note{fill:#6e7781}</style>\n"
        f'<rect class="paper" width="{WIDTH}" height="{y + MARGIN}" fill="#ffffff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


def bar(row: Row, y: int, longest: float) -> list[str]:
    """Name, bar and figure of one peer. A cost of 0 still has a visible bar."""
    cost = max(row.best or 0.0, 0.0)
    width = max(1.0, BARS * cost / longest) if longest > 0 else 1.0
    left = MARGIN + NAME
    figure = number(cost) + ("" if row.ratio is None or row.peer == BASELINE else f"  {ratio(row.ratio)}")
    return [
        text(MARGIN, y, row.peer, "peer"),
        f'<rect class="bar" x="{left}" y="{y - LINE + 5}" width="{width:.1f}" height="{LINE - 4}" '
        f'fill="{COLOURS.get(row.peer, OTHERS)}"/>',
        text(left + width + 6, y, figure, "figure"),
    ]


def text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{escape(words)}</text>'


def write_svg(path: Path, rows: Sequence[Row], facts: Mapping[str, str]) -> None:
    """Draw it into a file."""
    path.write_text(svg(rows, facts), encoding="utf-8")
