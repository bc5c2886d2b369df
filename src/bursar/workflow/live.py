"""The live view in a terminal: running tasks with their progress, waiting tasks with their reasons, and the gate.

The view is at most as high as the terminal. Running tasks come first, then failed ones, then waiting ones; a number
stands for the rest. The output of commands scrolls above the view.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live as RichLive
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from bursar.workflow.view import Silent, words

if TYPE_CHECKING:
    from bursar.workflow.events import Event, StepRun
    from bursar.workflow.execute import Execution
    from bursar.workflow.summary import Report

FRAMES_PER_S: Final = 10
CHROME: Final = 6  # rows of the view that show no task
BAR_WIDTH: Final = 20
COLOURS: Final = {"ok": "green", "failed": "red", "cancelled": "yellow", "dropped": "magenta", "running": "cyan"}
NEWS: Final = frozenset({"failed", "dropped", "retry", "again", "lost", "leftovers", "unkept", "output"})


class Live(Silent):
    """The live view of one run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = RichLive(console=console, auto_refresh=False, transient=True)
        self._live.start()
        self._frame = 0.0
        self._spinner = Spinner("dots")

    def on_event(self, event: Event) -> None:
        if event.kind in NEWS:
            colour = COLOURS.get(event.kind, "dim" if event.kind == "output" else "yellow")
            self._console.print(Text(words(event), colour), soft_wrap=True)

    def tick(self, run: Execution) -> None:
        now = time.monotonic()
        if now - self._frame >= 1 / FRAMES_PER_S / 2:
            self._frame = now
            self._live.update(self.draw(run), refresh=True)

    def close(self) -> None:
        self._live.stop()

    def finish(self, report: Report) -> None:
        self.close()
        self._console.print(Text(str(report), "green" if report.ok else "yellow"), soft_wrap=True)

    # ---- one frame

    def draw(self, run: Execution) -> RenderableType:
        room = max(1, self._console.height - CHROME)
        rank = {"running": 0, "failed": 1, "dropped": 1, "pending": 2}
        shown = sorted((step for step in run.steps.values() if step.state in rank), key=lambda step: rank[step.state])
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=1)
        table.add_column(no_wrap=True, style="bold")
        table.add_column(no_wrap=True, width=BAR_WIDTH)
        table.add_column(no_wrap=True, justify="right", width=9)
        table.add_column(no_wrap=True, ratio=1, overflow="ellipsis")
        for step in shown[:room]:
            table.add_row(*self._row(step, run))
        rest = len(shown) - room
        below = [Text(f"  and {rest} more", "dim")] if rest > 0 else []
        return Group(*self._head(run), table, *below)

    def _head(self, run: Execution) -> list[RenderableType]:
        states: dict[str, int] = {}
        for step in run.steps.values():
            states[step.state] = states.get(step.state, 0) + 1
        done = sum(count for state, count in states.items() if state not in ("pending", "running"))
        said = [(f" {count} {state}", COLOURS.get(state, "")) for state, count in states.items()]
        bar = ProgressBar(total=max(1, len(run.steps)), completed=done, complete_style="cyan", finished_style="green")
        return [Text.assemble((run.workflow.name, "bold"), *said), Text(queues(run), "dim"), bar, Text()]

    def _row(self, step: StepRun, run: Execution) -> list[RenderableType]:
        name = Text(step.step.name, COLOURS.get(step.state, ""))
        if step.state == "running":
            far = step.progress
            bar = ProgressBar(total=1.0, completed=far, width=BAR_WIDTH) if far else Text("")
            attempt = f"attempt {step.attempt}  " if step.attempt > 1 else ""
            return [
                self._spinner,
                name,
                bar,
                Text(f"{run.now() - step.began:.1f} s"),
                Text(attempt + step.step.title, "dim"),
            ]
        return [Text(""), name, Text(step.state), Text(""), Text(step.error or step.reason, "dim")]


def queues(run: Execution) -> str:
    """The state of the gate, in one line."""
    found = run.runtime.statistics().admission
    lengths = ", ".join(f"{count} of priority {level}" for level, count in found.queued.items())
    return f"queued: {lengths or 'none'}; waiting for dependencies: {found.waiting}; running: {found.held}"
