"""The summary at the end of a run: what ran, what waited and why; what was stopped, and how; the counts."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from bursar import BudgetExceeded
from bursar_demo.program import Store
from bursar_demo.watch import Waited, Watch
from bursar_demo.words import CUT_COLOUR, endings


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
    """One row per kind, and one more for each further reason of waiting, longest wait first."""
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
            parts.append(said(report.task, "swallowed its cancellation and was cut off:", report.detail, CUT_COLOUR))
    for id, end in watch.ends.items():
        if end.name == "slow-site":
            what = "ran out of time; all below it was cancelled, and it ended"
            parts.append(subtree(watch, id, Tree(said(end.name, what, str(end.outcome), "green"))))
    return Group(*parts)


def said(who: str, what: str, why: str, colour: str) -> Text:
    return Text.assemble((who, "bold"), f" {what} ", (why, colour))


def subtree(watch: Watch, root: int, tree: Tree) -> Tree:
    """All tasks below a task, with how each ended. Leaves that ended in the same way share a line."""
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
