"""`bursar demo`: one program, shown while it runs and accounted for when it is over.

The program is a small service: fetchers share a few connections and send pages through a channel to parsers, which
write them to a store behind a lock and pass them on to a supervised indexer that crashes now and then. Beside it run
the tasks that Bursar is for: one that never stops and is stopped by its budget, a whole subtree that is out of time,
and one that swallows its cancellation and is cut off.

The clock is virtual, so a run takes a fraction of a second, and everything is a function of seed, workers and tasks.
The program is therefore run twice: unwatched, which also tells how long it is, and then watched, drawn at a pace that
people can follow. The watcher is the kernel's observer and sleeps, on the real clock, inside its calls: it slows the
drawing and cannot touch the schedule. Both runs must end with the same fingerprint.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from bursar import (
    Budget,
    BudgetExceeded,
    CancelKind,
    Cancelled,
    Cleanup,
    Lock,
    Outcome,
    OutcomeKind,
    ReceiveEnd,
    Runtime,
    Semaphore,
    SendEnd,
    State,
    Statistics,
    channel,
    charge,
    entropy,
    nursery,
    sleep,
    supervisor,
    timeout,
)
from bursar.cli import EXIT_FAILED, EXIT_INTERRUPTED, refuse
from bursar.errors import BursarError
from bursar.law.task import Task
from bursar.snapshot import why

CONNECTIONS: Final = 24  # fetches at once
PARSERS: Final = 6
BRANCHES, LEAVES = 3, 8  # of the slow site
FETCH_OPS: Final = 16  # what one fetch may spend
RUNAWAY_OPS: Final = 20_000  # what the runaway task may spend before it is stopped
ARCHIVE_OPS: Final = 250  # the archiver's first budget, and each recharge
CRASHES: Final = 3  # of the indexer
PATIENCE_S: Final = 1.5  # for the slow site
CLEANUP_S: Final = 2.0  # for whoever is cancelled
FRAMES_PER_S: Final = 15
NEWS_SHOWN: Final = 8  # the latest ones, in the live view
CHROME: Final = 10  # rows of the live view, and around it, that are neither kinds nor news
FIRST_OF: Final = "waits for the first of: "  # how the reason of a select begins
WIDTH_PIPED: Final = 100  # columns where there is no terminal to ask

COLOURS = {
    OutcomeKind.OK: "green",
    OutcomeKind.FAILED: "red",
    OutcomeKind.CANCELLED: "yellow",
    OutcomeKind.DROPPED: "yellow",
    OutcomeKind.PANICKED: "bold red",
}


# ---- the program


@dataclass
class Store:
    """What the service has got done."""

    lock: Lock = field(default_factory=Lock)
    stored: int = 0
    indexed: int = 0
    crash_after: set[int] = field(default_factory=set[int])


async def service(tasks: int) -> Store:
    """The main task."""
    store = Store()
    try:
        async with nursery(name="service", cancel_on_failure=False) as n:
            n.spawn(pipeline, tasks, store, name="pipeline")
            n.spawn(runaway, name="runaway", budget=Budget(ops=RUNAWAY_OPS))
            n.spawn(slow_site, name="slow-site")
            stubborn_one = n.spawn(stubborn, name="stubborn")
            await sleep(1.0)
            stubborn_one.cancel("its shift is over")
    except* BudgetExceeded:
        pass  # the runaway: expected, and contained
    return store


async def pipeline(tasks: int, store: Store) -> None:
    """Fetchers → channel → parsers → store → channel → indexer."""
    pages, fetched = channel(16)
    entries, parsed = channel(4)
    connections = Semaphore(CONNECTIONS)
    store.crash_after = {await entropy() % tasks for _ in range(CRASHES)}
    async with supervisor(
        max_restarts=CRASHES, within=3600, on_exhausted="recharge", recharge=Budget(ops=ARCHIVE_OPS)
    ) as boss:
        boss.start(index, parsed, store, name="indexer")
        boss.start(archive, name="archiver", budget=Budget(ops=ARCHIVE_OPS))
        async with nursery(name="parsers") as parsers:
            for number in range(PARSERS):
                parsers.spawn(parse, fetched, entries, store, name=f"parser {number}")
            async with nursery(name="fetchers", budget=Budget(ops=(FETCH_OPS + 1) * tasks)) as fetchers:
                for number in range(tasks):
                    fetchers.spawn(
                        fetch, number, connections, pages, name=f"fetch {number}", budget=Budget(ops=FETCH_OPS)
                    )
            pages.close()
        entries.close()


async def fetch(number: int, connections: Semaphore, pages: SendEnd[tuple[int, int]]) -> None:
    async with connections:
        await sleep(0.05 + await entropy() % 400 / 1000)
    await pages.send((number, 20 + await entropy() % 200))


async def parse(pages: ReceiveEnd[tuple[int, int]], entries: SendEnd[int], store: Store) -> None:
    async for number, size in pages:
        await charge(ops=size)
        async with store.lock:
            await sleep(0.008)  # the write
            store.stored += 1
        await entries.send(number)


async def index(entries: ReceiveEnd[int], store: Store) -> None:
    async for number in entries:
        await charge(ops=20)
        await sleep(0.006)
        store.indexed += 1
        if number in store.crash_after:
            store.crash_after.discard(number)
            raise ConnectionError(f"the index hung up after page {number}")


async def archive() -> None:
    """Does more than its budget allows and is recharged by its supervisor."""
    for _ in range(10):
        await sleep(0.25)
        await charge(ops=60)


async def runaway() -> None:
    """A loop whose author forgot the end of it."""
    await sleep(0.7)
    while True:
        await charge(ops=50)


async def slow_site() -> str:
    """A tree of requests to a site that does not answer in time."""
    try:
        async with timeout(PATIENCE_S), nursery(name="slow-site") as n:
            for number in range(BRANCHES):
                n.spawn(branch, number, name=f"branch {number}")
    except TimeoutError:
        return "given up"
    return "answered"


async def branch(number: int) -> None:
    async with nursery(name=f"branch {number}") as n:
        for leaf in range(LEAVES):
            n.spawn(sleep_long, name=f"leaf {number}.{leaf}")


async def sleep_long() -> None:
    await sleep(60)


async def stubborn() -> None:
    """Refuses to be cancelled."""
    while True:
        try:
            await sleep(0.5)
        except Cancelled:
            continue


# ---- the watcher


@dataclass
class Kind:
    """All tasks of one kind: those whose names differ only in a number."""

    spawned: int = 0
    ended: Counter[OutcomeKind] = field(default_factory=Counter[OutcomeKind])
    cut: int = 0
    decisions: int = 0
    ops: int = 0
    waits: dict[str, Waited] = field(default_factory=dict[str, "Waited"])  # by reason


@dataclass
class Waited:
    """The waits of one kind of tasks for one reason."""

    count: int = 0
    longest_ns: int = 0


class End(NamedTuple):
    """How a task ended, and whose child it was."""

    name: str
    parent: int
    outcome: Outcome


class Watch:
    """The observer of one run. It reads the law's records and changes none."""

    def __init__(self, runtime: Runtime, seed: int, tasks: int) -> None:
        self.runtime = runtime
        self.seed = seed
        self.kernel = runtime.kernel
        self.tasks = tasks
        self.kinds: dict[str, Kind] = {}
        self.ends: dict[int, End] = {}
        self.news: list[Text] = []
        self.on_decision: Callable[[], None] | None = None
        self._waiting: dict[int, tuple[int, str]] = {}  # task id → since when, and why
        self._polled: Task | None = None
        self.kernel.observer = self

    def __call__(self, event: str, task: Task | None, detail: Any) -> None:
        self._look_back()
        if task is None:
            return
        kind = self.kinds.setdefault(kind_of(task), Kind())
        match event:
            case "spawned":
                kind.spawned += 1
            case "decision":
                kind.decisions += 1
                self._polled = task
                self._resumed(task, kind)
            case "done":
                self._done(task, kind)
            case "budget_exceeded":
                self._tell(task.name, f"is out of {detail} and must stop", "red")
            case "budget_held":
                self._tell(task.name, f"is out of {detail} and waits for a recharge", "cyan")
            case "recharged":
                self._tell(task.name, f"is recharged: {detail}", "cyan")
            case "cancel_requested" if detail.kind in (CancelKind.TIMEOUT, CancelKind.USER):
                self._tell(task.name, f"is asked to stop ({detail})", "yellow")
                if task.nursery is self.kernel.root:  # Ctrl-C: nobody wants to watch the rest
                    self.on_decision = None
            case "cleanup_cut":
                kind.cut += 1
                self._tell(task.name, f"is cut off: {detail}", "magenta")
            case _:
                pass
        if event == "decision" and self.on_decision is not None:
            self.on_decision()

    def _look_back(self) -> None:
        """The task polled last: if its poll is over and it waits, note since when and what for.

        Nothing can have ended the wait yet: every way to end one begins with an event.
        """
        task = self._polled
        if task is None or task.state is State.RUNNING:
            return
        self._polled = None
        held = task.state is State.EXHAUSTED and task.nursery.hold
        if task.state is State.BLOCKED or held:
            self._waiting[task.id] = (task.since_ns, why(task))

    def _resumed(self, task: Task, kind: Kind) -> None:
        since_ns, reason = self._waiting.pop(task.id, (0, ""))
        if not reason:
            return
        wait = kind.waits.setdefault(shorter(reason), Waited())
        wait.count += 1
        wait.longest_ns = max(wait.longest_ns, self.kernel.now_ns - since_ns)

    def _done(self, task: Task, kind: Kind) -> None:
        outcome = task.outcome
        assert outcome is not None, "a task that is done has an outcome"
        kind.ended[outcome.kind] += 1
        kind.ops += task.spent[0]
        owner = task.nursery.owner
        self.ends[task.id] = End(task.name, owner.id if owner is not None else 0, outcome)
        if outcome.kind is OutcomeKind.FAILED and not isinstance(outcome.error, BudgetExceeded):
            self._tell(task.name, f"failed ({outcome.error}) and is restarted", "red")
        done = kind.ended[OutcomeKind.OK]
        quarter = done * 4 // self.tasks > (done - 1) * 4 // self.tasks
        if kind_of(task) == "fetch" and outcome.kind is OutcomeKind.OK and quarter:
            self._tell("fetch", f"{done:,} of {self.tasks:,} pages", "green")

    def _tell(self, who: str, what: str, colour: str) -> None:
        when = f"{self.seconds:7.3f} s  "
        self.news.append(Text.assemble((when, "dim"), (f"{who:<10}", "bold"), (what, colour)))

    @property
    def seconds(self) -> float:
        return self.kernel.now_ns / 1e9


def kind_of(task: Task) -> str:
    return task.name.partition(" ")[0]


def shorter(reason: str) -> str:
    """A reason without what differs from one task to the next, so that equal ones can be counted."""
    reason = reason.removeprefix(FIRST_OF).partition(";")[0]
    reason = re.sub(r" held by '.*'| for [\d.]+ s$", "", reason)
    reason = re.sub(r"the \d+ tasks of .*", "its children", reason)
    return re.sub(r"nursery .* to recharge it$", "a recharge", reason)


# ---- the live view


class Show:
    """Draws a run while it happens, slowed down so that the whole of it takes `seconds`."""

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
        """How far the run is, between 0 and 1: half by decisions, half by virtual time, so that neither races."""
        watch, whole = self._watch, self._rehearsed
        return min(1.0, (watch.kernel.decisions / whole.decisions + watch.seconds / whole.seconds) / 2)

    def _draw(self, position: float) -> RenderableType:
        watch, kernel = self._watch, self._watch.kernel
        facts = (
            ("virtual time", f"{watch.seconds:.3f} s"),
            ("decisions", f"{kernel.decisions:,}"),
            ("live", f"{len(kernel.tasks):,} of {kernel.spawned:,}"),
            ("chain", watch.runtime.fingerprint),
        )
        head = Table.grid(expand=True)
        head.add_row(*(Text.assemble((f"{name} ", "dim"), (value, "bold")) for name, value in facts))
        bar = ProgressBar(total=1.0, completed=position, complete_style="cyan", finished_style="cyan")
        room = max(0, min(NEWS_SHOWN, self._live.console.height - len(watch.kinds) - CHROME))
        news = Table.grid(Column(no_wrap=True))
        for line in [*watch.news, *[Text()] * (room - len(watch.news))][-room:] if room else []:
            news.add_row(line)
        parts = Group(head, Padding(bar, 0), self._kinds(), Text(), news)
        return Panel(parts, border_style="cyan", padding=(0, 1))

    def _kinds(self) -> Table:
        """A row for each kind: how far it is, where its tasks stand, and what the longest waiting one waits for."""
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
            tasks = alive.get(name, [])
            done = kind.ended.total()
            bar = ProgressBar(
                total=kind.spawned, completed=done, complete_style="green", finished_style=worst_colour(kind)
            )
            by_state = Counter(task.state for task in tasks)
            standing = (str(by_state[state] or "") for state in (State.READY, State.BLOCKED, State.EXHAUSTED))
            waiting = [task for task in tasks if task.state in (State.BLOCKED, State.EXHAUSTED)]
            reason = why(min(waiting, key=lambda task: task.since_ns)) if waiting else ""
            latest = Text(reason.removeprefix(FIRST_OF), "dim") if tasks else endings(kind)
            table.add_row(name, bar, f"{done:,}/{kind.spawned:,}", *standing, latest)
        return table


def setting(watch: Watch) -> str:
    workers = len(watch.kernel.workers)
    return f"seed {watch.seed}, {workers} worker{'s' if workers > 1 else ''}, {watch.tasks:,} pages to fetch"


def worst_colour(kind: Kind) -> str:
    return "magenta" if kind.cut else COLOURS[max(kind.ended, default=OutcomeKind.OK)]


def endings(kind: Kind) -> Text:
    """How the tasks of a kind ended, in words. One that was cut off ended cancelled; it is not named twice."""
    whole = kind.ended - Counter({OutcomeKind.CANCELLED: kind.cut})
    parts = [Text(f"{n:,} {outcome.name.lower()}", COLOURS[outcome]) for outcome, n in sorted(whole.items())]
    if kind.cut:
        parts.append(Text(f"{kind.cut:,} cut off", "magenta"))
    return Text(", ").join(parts)


# ---- the closing account


def account(watch: Watch, store: Store) -> RenderableType:
    """What ran, what waited and why; what was stopped; the counts."""
    parts = {
        "What ran, what waited, and why": ran(watch),
        "What was stopped": stopped(watch),
        "Counts": counts(watch, store),
    }
    lines: list[RenderableType] = []
    for title, part in parts.items():
        lines += [Text(f"\n{title}", "bold cyan"), Padding(part, (0, 0, 0, 1), expand=False)]
    return Group(*lines)


def ran(watch: Watch) -> Table:
    """One row a kind, and one more for each further thing that its tasks waited for, longest wait first."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=0, header_style="bold")
    table.add_column("kind", style="bold", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    table.add_column("tasks", justify="right", no_wrap=True)
    table.add_column("decisions", justify="right", no_wrap=True)
    table.add_column("ops", justify="right", no_wrap=True)
    table.add_column("waits", justify="right", no_wrap=True)
    table.add_column("longest", justify="right", no_wrap=True)
    table.add_column("because it …")
    for name, kind in watch.kinds.items():
        cells = (name, endings(kind), f"{kind.spawned:,}", f"{kind.decisions:,}", f"{kind.ops:,}")
        waits = sorted(kind.waits.items(), key=lambda item: -item[1].longest_ns)
        for reason, wait in waits or [("", Waited())]:
            seconds = f"{wait.longest_ns / 1e9:.3f} s" if wait.count else ""
            table.add_row(*cells, f"{wait.count:,}", seconds, reason)
            cells = ("",) * len(cells)
    return table


def stopped(watch: Watch) -> Group:
    """The three ways in which a task was stopped, each with its reason."""
    parts: list[RenderableType] = []
    for end in watch.ends.values():
        if isinstance(end.outcome.error, BudgetExceeded):
            parts.append(said(end.name, "was stopped by its budget:", str(end.outcome.error), "red"))
    for report in watch.runtime.reports:
        if report.kind == "cleanup_cut":
            parts.append(said(report.task, "swallowed its cancellation and was cut off:", report.detail, "magenta"))
    for id, end in watch.ends.items():
        if end.name == "slow-site":
            what = "ran out of time; all below it was cancelled, and it ended"
            parts.append(subtree(watch, id, Tree(said(end.name, what, str(end.outcome), "green"))))
    return Group(*parts)


def said(who: str, what: str, why: str, colour: str) -> Text:
    return Text.assemble((who, "bold"), f" {what} ", (why, colour))


def subtree(watch: Watch, root: int, tree: Tree) -> Tree:
    """All tasks below one, with how each ended; leaves that ended alike share a line."""
    reason = str(watch.ends[root].outcome)
    alike: dict[str, list[str]] = {}
    for id, child in sorted(watch.ends.items()):
        if child.parent != root:
            continue
        outcome = str(child.outcome)
        if any(other.parent == id for other in watch.ends.values()):
            subtree(watch, id, tree.add(said(child.name, "", outcome, "yellow")))
        else:
            alike.setdefault(outcome, []).append(child.name)
    for outcome, names in alike.items():
        who = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        tree.add(said(who, "", "for the same reason" if outcome == reason else outcome, "yellow"))
    return tree


def counts(watch: Watch, store: Store) -> Table:
    statistics = watch.runtime.statistics()
    table = Table.grid(padding=(0, 2))
    for name, total, parts in (
        ("decisions", statistics.decisions, statistics.by_lane),
        ("tasks", statistics.spawned, statistics.done),
        ("events", sum(statistics.counters.values()), statistics.counters),
    ):
        spelled = ", ".join(f"{n:,} {part.replace('_', ' ')}" for part, n in parts.items() if n)
        table.add_row(Text(name, "bold"), f"{total:,}", Text(spelled, "dim"))
    table.add_row(Text("pages", "bold"), f"{store.stored:,}", Text(f"stored, and {store.indexed:,} indexed", "dim"))
    table.add_row(Text("seconds", "bold"), f"{statistics.seconds:g}", Text("of virtual time", "dim"))
    table.columns[1].justify = "right"
    return table


# ---- the command


def demo(
    seed: Annotated[int, typer.Option(help="The same seed gives the same schedule.")] = 0,
    workers: Annotated[int, typer.Option(min=1, max=64, help="Logical workers.")] = 4,
    tasks: Annotated[int, typer.Option(min=1, max=10_000, help="Pages that the service fetches, a task each.")] = 240,
    seconds: Annotated[float, typer.Option(min=0.0, max=600.0, help="How long the show takes.")] = 6.0,
    plain: Annotated[bool, typer.Option("--plain", help="Lines of text instead of the live view.")] = False,
) -> None:
    """Watch a small service run: budgets, cancellation, supervision, and who waited for what."""
    try:
        rehearsal = make_runtime(seed, workers)
    except BursarError as error:
        refuse(str(error))
    console = make_console(plain)
    try:
        rehearsal.run(service, tasks)
        watch = Watch(make_runtime(seed, workers), seed, tasks)
        store = show(watch, rehearsal.statistics(), console, seconds)
    except KeyboardInterrupt:
        print("bursar: interrupted", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None
    console.print(account(watch, store))
    same = watch.runtime.fingerprint == rehearsal.fingerprint
    console.print(verdict(watch.runtime.fingerprint, same))
    if not same:
        raise SystemExit(EXIT_FAILED)


def make_console(plain: bool) -> Console:
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")  # a narrow encoding must not end the show
    console = Console(highlight=False)
    if plain or not console.is_terminal:
        width = WIDTH_PIPED if not console.is_terminal and "COLUMNS" not in os.environ else None
        return Console(highlight=False, force_terminal=False, no_color=True, width=width)
    return console


def make_runtime(seed: int, workers: int) -> Runtime:
    return Runtime(profile="cluster", seed=seed, workers=workers, clock="virtual", cleanup=Cleanup(seconds=CLEANUP_S))


def show(watch: Watch, rehearsed: Statistics, console: Console, seconds: float) -> Store:
    """Run the program, on a terminal with the live view, and print what happened."""
    console.print(Text.assemble(("bursar demo", "bold cyan"), f": {setting(watch)}\n"))
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            watch.on_decision = Show(watch, live, rehearsed, seconds)
            store = watch.runtime.run(service, watch.tasks)
    else:
        store = watch.runtime.run(service, watch.tasks)
    for line in watch.news:
        console.print(line, soft_wrap=True)
    return store


def verdict(fingerprint: str, same: bool) -> Text:
    again = "the same as in a first run that nobody watched" if same else "NOT that of the first run: a bug in Bursar"
    return Text.assemble("\nfingerprint ", (fingerprint, "bold cyan"), "  ", (again, "green" if same else "bold red"))
