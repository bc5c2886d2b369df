"""`python -m bursar_benchmarks.browser [--quick] [--json FILE]`: measure the browser host and print a table, then JSON.

Node and Chromium are started as in the tests (tests/browser/harness.py). Exit status 0 says that the run is complete,
not that the figures are good.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from browser.harness import Browser, Chromium, Kit, Node  # noqa: E402

SOURCE = (Path(__file__).parent / "inside.py").read_text(encoding="utf-8")
SCALE_QUICK = 20  # how much less a quick look does
MEASUREMENTS = {"node": ("hops", "steps"), "chromium": ("hops", "steps", "frames")}


def measure(backend: Node | Chromium, scale: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for name in MEASUREMENTS[backend.name]:
        print(f"... {name} ({backend.name})", file=sys.stderr, flush=True)
        found |= backend.run_python(f"{SOURCE}\nawait {name}({scale})")
    return found


def table(found: dict[str, dict[str, float]]) -> str:
    names = list(dict.fromkeys(name for figures in found.values() for name in figures))
    width = max(map(len, names))
    lines = [" " * width + "".join(f"{backend:>12}" for backend in found)]
    for name in names:
        cells = [f"{figures[name]:>12,.1f}" if name in figures else f"{'–':>12}" for figures in found.values()]
        lines.append(f"{name:<{width}}" + "".join(cells))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m bursar_benchmarks.browser", description="The browser host, measured.")
    parser.add_argument("--quick", action="store_true", help="small sizes: a look only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    options = parser.parse_args(argv)
    scale = SCALE_QUICK if options.quick else 1
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        kit = Kit(Path(folder))
        with Node(kit) as node:
            found["node"] = measure(node, scale)
        with Browser() as browser, Chromium(kit, browser) as chromium:
            found["chromium"] = measure(chromium, scale)
    facts = {"cpus": str(os.cpu_count()), "platform": platform.platform(), "quick": options.quick}
    text = json.dumps({"machine": facts, "figures": found}, indent=2, ensure_ascii=False)
    print(f"\n{table(found)}\n\n{text}")
    if options.json is not None:
        options.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
