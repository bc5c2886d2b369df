"""What a failed comparison leaves behind, so that it can be understood without being repeated, and repeated at will.

One folder for each failure, in $BURSAR_ARTIFACTS or else tests/parity/artifacts. A failure in a page or under node
leaves its folder here too, outside the file system of Pyodide:

    failure.json       the contract, the id of the fixture or comparison, the scenario and the seed
    SIDE.jsonl         the events of each side, one a line: native, node, chromium, …
    difference.txt     where the two part, with what came before
    reproduce.sh       the command that makes the failure happen again, from the root of the checkout
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.evidence import file_format
from support.kernel import KERNEL_VARIABLE, NATIVE

VARIABLE = "BURSAR_ARTIFACTS"
DEFAULT = Path(__file__).resolve().parent / "artifacts"
CONTEXT = 3  # events before and after the first difference


@dataclass(frozen=True)
class Failure:
    """One comparison that failed."""

    id: str  # names the folder
    fixture: str
    scenario: str
    seed: int
    logs: dict[str, list[dict[str, Any]]]  # side → its events
    difference: list[str]
    command: str

    @property
    def pasted(self) -> str:
        """The command, on the kernel of this process whatever the shell says."""
        return f"{KERNEL_VARIABLE}={'native' if NATIVE else 'python'} {self.command}"


def write(failure: Failure) -> Path:
    """Write the files of a failure; the folder that they are in."""
    folder = Path(os.environ.get(VARIABLE) or DEFAULT) / _file_name(failure.id)
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "contract": file_format.CONTRACT,
        "fixture": failure.fixture,
        "scenario": failure.scenario,
        "seed": failure.seed,
        "command": failure.pasted,
    }
    (folder / "failure.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    for side, events in failure.logs.items():
        lines = "".join(json.dumps(event) + "\n" for event in events)
        (folder / f"{_file_name(side)}.jsonl").write_text(lines, encoding="utf-8")
    (folder / "difference.txt").write_text("\n".join(failure.difference) + "\n", encoding="utf-8")
    (folder / "reproduce.sh").write_text(f"# from the root of the checkout\n{failure.pasted}\n", encoding="utf-8")
    return folder


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text)


def first_difference(left: list[Any], right: list[Any], names: tuple[str, str]) -> list[str]:
    """The first place where two lists differ, with what stands around it; nothing, if they are equal."""
    place = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    if place == len(left) == len(right):
        return []
    told = [f"{names[0]} has {len(left)} events, {names[1]} has {len(right)}; they part at number {place}"]
    told += [f"  {item}" for item in left[max(0, place - CONTEXT) : place]]
    for sign, side in (("-", left), ("+", right)):
        told += [f"{sign} {item}" for item in side[place : place + CONTEXT]] or [f"{sign} (the end)"]
    return told
