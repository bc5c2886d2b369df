"""Shows the run while it happens: in a terminal a live view, slow enough for people, elsewhere plain lines.

The pace comes from a first run without a view, which shows how long the program is.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text

from bursar import State, Statistics
from bursar.backend import Task
from bursar_demo.program import Store, service
from bursar_demo.watch import Kind, Watch, kind_of, reason_of
from bursar_demo.words import endings, line, worst_colour

FRAMES_PER_S: Final = 15
NEWS_SHOWN: Final = 8  # the latest ones, in the live view
CHROME: Final = 10  # rows of the live view, and around it, that are neither kinds nor news


def run_shown(watch: Watch, rehearsed: Statistics, console: Console, seconds: float) -> Store:
    """Run the program, on a terminal with the live view, and print what happened."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            watch.on_decision = Show(watch, live, rehearsed, seconds)
            store = watch.runtime.run(service, watch.tasks)
    else:
        store = watch.runtime.run(service, watch.tasks)
    for news in watch.news:
        console.print(line(news), soft_wrap=True)
    return store


class Show:
    """Draws a run while it happens, and slows it down so that it takes `seconds`."""

    def __init__(self, watch: Watch, live: Live, rehearsed: Statistics, seconds: float) -> None:
        self._watch = watch
        self._live = live
        self._rehearsed = rehearsed
        self._seconds = seconds
        self._frame = -1
        self._start = time.monotonic()

    def __call__(self) -> None:
        """After every decision: draw if the next frame is due, and sleep until it is."""
        position = self._position()
        frame = int(position * self._seconds * FRAMES_PER_S)
        if frame > self._frame:
            self._frame = frame
            self._live.update(self._draw(position), refresh=True)
            time.sleep(max(0.0, self._start + position * self._seconds - time.monotonic()))

    def _position(self) -> float:
        """The progress of the run, between 0 and 1: half by decisions and half by virtual time."""
        watch, whole = self._watch, self._rehearsed
        return min(1.0, (watch.kernel.decisions / whole.decisions + watch.seconds / whole.seconds) / 2)

    def _draw(self, position: float) -> RenderableType:
        """One frame: the head, the progress, the kinds, the news."""
        bar = ProgressBar(total=1.0, completed=position, complete_style="cyan", finished_style="cyan")
        whole_line = Padding(bar, 0)  # a bar alone does not end its line
        parts = Group(self._head(), whole_line, self._kinds(), Text(), self._news())
        width = self._live.console.width - len("^C")  # its echo must not begin a line, or a border stays behind
        return Panel(parts, border_style="cyan", padding=(0, 1), width=width)

    def _head(self) -> Table:
        watch, kernel = self._watch, self._watch.kernel
        facts = (
            ("virtual time", f"{watch.seconds:.3f} s"),
            ("decisions", f"{kernel.decisions:,}"),
            ("live", f"{len(kernel.tasks):,} of {kernel.spawned:,}"),
            ("chain", watch.runtime.fingerprint),
        )
        head = Table.grid(expand=True)
        head.add_row(*(Text.assemble((f"{name} ", "dim"), (value, "bold")) for name, value in facts))
        return head

    def _kinds(self) -> Table:
        """A row for each kind: its progress, the states of its tasks, and the reason of the longest wait."""
        table = Table(box=None, expand=True, padding=(0, 1), pad_edge=False, header_style="dim")
        table.add_column("kind", style="bold", no_wrap=True)
        table.add_column("", width=14)
        for title in ("done", "ready", "waits", "held"):
            table.add_column(title, justify="right", no_wrap=True, min_width=5)
        table.add_column("the one that waits longest …", ratio=1, no_wrap=True)
        alive: dict[str, list[Task]] = {}
        for task in self._watch.kernel.tasks.values():
            alive.setdefault(kind_of(task), []).append(task)
        for name, kind in self._watch.kinds.items():
            table.add_row(name, *cells(kind, alive.get(name, [])))
        return table

    def _news(self) -> Table:
        """The latest news, as many as there is room for. What is missing is blank, so that the view keeps its size."""
        room = max(0, min(NEWS_SHOWN, self._live.console.height - len(self._watch.kinds) - CHROME))
        latest = self._watch.news[-room:] if room else []
        table = Table.grid(Column(no_wrap=True))
        for news in latest:
            table.add_row(line(news))
        for _ in range(room - len(latest)):
            table.add_row(Text())
        return table


def cells(kind: Kind, alive: list[Task]) -> list[RenderableType]:
    """The row of one kind, without its name."""
    done = kind.ended.total()
    bar = ProgressBar(total=kind.spawned, completed=done, complete_style="green", finished_style=worst_colour(kind))
    by_state = Counter(task.state for task in alive)
    standing = (str(by_state[state] or "") for state in (State.READY, State.BLOCKED, State.EXHAUSTED))
    waiting = [task for task in alive if task.state in (State.BLOCKED, State.EXHAUSTED)]
    reason = reason_of(min(waiting, key=lambda task: task.since_ns)) if waiting else ""
    return [bar, f"{done:,}/{kind.spawned:,}", *standing, Text(reason, "dim") if alive else endings(kind)]
