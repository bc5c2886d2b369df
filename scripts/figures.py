"""Publish figures: write the data, the plot and the table of the documents from the JSON of a run of the benchmarks.

    bursar bench --json figures.json
    python scripts/figures.py figures.json

keeps what the documents need of `figures.json` in docs/benchmarks.json, with the date. It draws
docs/images/benchmarks.svg, and replaces the table between the two marks in docs/benchmarks.md. Without a file it
draws again from docs/benchmarks.json. A test compares the three, so that no figure in a document is typed by hand.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import re
from html import escape
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "benchmarks.json"
PAGE = ROOT / "docs" / "benchmarks.md"
PLOT = ROOT / "docs" / "images" / "benchmarks.svg"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

BASELINE = "bursar"
PEERS = ("asyncio", "gather", "uvloop", "rloop", "trio", "anyio", "gevent")
KEPT = ("case", "peer", "unit", "size", "status", "best", "median", "ratio")

# Of the plot: colours that can be told apart, and also by people who see few colours.
PLOTTED = {"asyncio": "#0072b2", "uvloop": "#e69f00", "rloop": "#009e73", "trio": "#cc79a7"}
OWN = "#24292f"
WIDTH, LABELS, RIGHT, LINE, TOP = 860, 290, 30, 24, 76
TICKS = (1, 2, 5, 10, 20, 50, 100)


def keep(raw: dict[str, Any], date: str) -> dict[str, Any]:
    """What the documents need of a run: no single samples, and no bare loop, which is no peer."""
    if not raw["complete"]:
        raise SystemExit("the run was interrupted: its figures are not published")
    rows = [{key: row[key] for key in KEPT} for row in raw["rows"] if row["peer"] in (BASELINE, *PEERS)]
    return {"schema": raw["schema"], "date": date, "machine": raw["machine"], "rows": rows}


def written(data: dict[str, Any]) -> str:
    """The data as JSON, a row per line."""
    rows = ",\n  ".join(json.dumps(row) for row in data["rows"])
    head = {key: value for key, value in data.items() if key != "rows"}
    return f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n  {rows}\n ]\n}}\n'


def cases(data: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """The rows by case, then by peer."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in data["rows"]:
        found.setdefault(row["case"], {})[row["peer"]] = row
    return found


def number(value: float) -> str:
    """Three significant digits, never in exponent form."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


# ---- the table


def table(data: dict[str, Any]) -> str:
    """One line per case: what it costs Bursar, and how many times as much it costs each peer."""
    facts = data["machine"]
    versions = ", ".join(f"{name} {facts[name]}" for name in ("uvloop", "rloop", "trio", "anyio", "gevent"))
    lines = [
        f"Measured on {data['date']} on {facts['cores']} cores of an {facts['cpu']} with {facts['memory']} of memory,",
        f"{facts['python']}, Bursar {facts['bursar']}; {versions}.",
        "",
        f"| workload | operations | unit | Bursar | {' | '.join(PEERS)} |",
        f"|---|---|---|---|{'---|' * len(PEERS)}",
    ]
    for case, rows in cases(data).items():
        own = rows[BASELINE]
        cells = [case, f"{own['size']:,}", unit(own), number(own["best"])]
        cells += [cell(rows.get(peer)) for peer in PEERS]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(row: dict[str, Any] | None) -> str:
    if row is None or row["best"] is None:
        return "failed" if row is not None and row["status"] == "failed" else "–"
    return f"{number(row['best'])} (×{number(row['ratio'])})"


def unit(row: dict[str, Any]) -> str:
    return row["unit"].replace("us/", "µs/")


# ---- the plot


def plot(data: dict[str, Any]) -> str:
    """A dot for each peer on a logarithmic scale of how many times Bursar's cost it costs."""
    shown = {case: rows for case, rows in cases(data).items() if any(peer in rows for peer in PLOTTED)}
    bottom = TOP + LINE * len(shown)
    height = bottom + 34
    body = [text(16, 24, "Cost of one operation, as a multiple of Bursar's", "title")]
    x = LABELS
    for peer, colour in {"Bursar": OWN, **PLOTTED}.items():
        body += [f'<circle cx="{x}" cy="46" r="5" fill="{colour}"/>', text(x + 10, 50, peer, "note")]
        x += 90
    for tick in TICKS:
        body.append(f'<line x1="{place(tick):.1f}" x2="{place(tick):.1f}" y1="{TOP - 12}" y2="{bottom}" class="grid"/>')
        body.append(text(place(tick), bottom + 18, f"×{tick}", "note", "middle"))
    for index, (case, rows) in enumerate(shown.items()):
        y = TOP + LINE * index + 6
        own = rows[BASELINE]
        body.append(text(LABELS - 12, y + 4, f"{case}: {number(own['best'])} {unit(own).partition('/')[0]}", "", "end"))
        for peer, colour in PLOTTED.items():
            row = rows.get(peer)
            if row is not None and row["best"] is not None:
                body.append(
                    f'<circle cx="{place(row["ratio"]):.1f}" cy="{y}" r="5" fill="{colour}" fill-opacity="0.85">'
                    f"<title>{escape(peer)}: ×{number(row['ratio'])}</title></circle>"
                )
    body.append(f'<line x1="{place(1):.1f}" x2="{place(1):.1f}" y1="{TOP - 12}" y2="{bottom}" class="own"/>')
    style = (
        "text{font:12px sans-serif;fill:#24292f}.title{font-size:14px;font-weight:bold}.note{fill:#57606a}"
        ".grid{stroke:#d8dee4}.own{stroke:" + OWN + ";stroke-width:3}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">\n'
        f'<style>{style}</style>\n<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def place(ratio: float) -> float:
    """The place of a ratio on the logarithmic scale."""
    share = math.log(min(max(ratio, TICKS[0]), TICKS[-1])) / math.log(TICKS[-1])
    return LABELS + share * (WIDTH - LABELS - RIGHT)


def text(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


# ---- all of it


def with_table(page: str, figures: str) -> str:
    """The page with another table between its marks."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{figures}\n{END}", page, flags=re.DOTALL)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("figures", type=Path, nargs="?", help="what `bursar bench --json` wrote")
    figures = arguments.parse_args().figures
    if figures is not None:
        data = keep(json.loads(figures.read_text(encoding="utf-8")), datetime.date.today().isoformat())
        DATA.write_text(written(data), encoding="utf-8")
    data = json.loads(DATA.read_text(encoding="utf-8"))
    PLOT.write_text(plot(data), encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), table(data)), encoding="utf-8")


if __name__ == "__main__":
    main()
