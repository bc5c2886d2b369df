"""Takes a spawn that needs admission to its gate.

All checks come before all changes, so a refused spawn leaves nothing behind. Arguments that are tasks are dependencies.
When the new task starts, they have all succeeded, and their values replace them.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, cast

from bursar.backend import Gate, Kernel, Nursery, Ticket
from bursar.backend import Task as LawTask
from bursar.errors import BadDependency, BursarError
from bursar.law.admission import graph
from bursar.law.admission.authority import require_priority
from bursar.law.admission.resources import Needs
from bursar.law.admission.retry import Retry
from bursar.law.budget import Budget
from bursar.law.capability import Capability
from bursar.law.nursery import NurseryState
from bursar.ops.pause import ticket_of
from bursar.ops.start import start
from bursar.ops.task import Task
from bursar.text import brief

Function = Callable[..., Coroutine[Any, Any, Any]]


def records_of(kernel: Kernel, name: str, after: Sequence[Any], among: Iterable[Any]) -> list[LawTask]:
    """The dependencies of the new task, each once. Raises if one of them is impossible."""
    if isinstance(after, Task):
        raise TypeError(f"spawn(after=...): task {name!r}: give a list of tasks, after=[task]")
    found: dict[LawTask, None] = {}
    for handle in after:
        if not isinstance(handle, Task):
            raise BadDependency(f"task {name!r} cannot follow {brief(handle, repr)}, which is not a task")
        record = _inside(kernel, name, cast("Task[Any]", handle))
        if record in found:
            raise BadDependency(f"task {name!r} is to follow task {record.name!r} twice; name it once")
        found[record] = None
    for handle in among:
        found[_inside(kernel, name, handle)] = None
    return list(found)


def _inside(kernel: Kernel, name: str, handle: Task[Any]) -> LawTask:
    try:
        return handle._inside(kernel)
    except BursarError as foreign:
        raise BadDependency(f"task {name!r} cannot follow task {handle.name!r} of another runtime") from foreign


def ask(
    kernel: Kernel,
    nursery: Nursery,
    run: Function,
    args: tuple[Any, ...],
    *,
    gate: Gate,
    name: str,
    budget: Budget,
    capabilities: tuple[Capability, ...] | None,
    priority: int,
    after: list[LawTask],
    needs: Needs,
    retry: Retry | None,
    spawner: LawTask | None = None,
) -> LawTask:
    """Spawn `run(*args)` as a task that waits for permission. `spawner`: the task whose authority counts, if no task
    runs."""
    if retry is not None and not isinstance(retry, Retry):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"spawn(retry={brief(retry, repr)}): task {name!r}: must be a Retry(times, backoff, on=...)")
    ticket = Ticket(gate, require_priority(priority), *gate.resources.demand(needs, name))
    if after:
        graph.require_no_cycle(name, nursery, after)
    record = kernel.spawn(nursery, name=name, budget=budget, capabilities=capabilities, ticket=ticket, spawner=spawner)
    ticket.task = record
    start(record, run, args)
    if retry is not None:
        ticket.retry = retry
        ticket.call = functools.partial(_try_again, kernel, nursery, run, args, budget, contextvars.copy_context())
    gate.enter(kernel, ticket, [graph.last_attempt(ticket_of(kernel, other)) for other in after] if after else ())
    return record


def _try_again(
    kernel: Kernel,
    nursery: Nursery,
    run: Function,
    args: tuple[Any, ...],
    budget: Budget,
    context: contextvars.Context,
    ticket: Ticket,
    error: Exception,
) -> None:
    """The task failed. If its `Retry` applies, spawn the next attempt, and excuse this failure."""
    task, retry, gate = ticket.task, ticket.retry, ticket.gate
    if retry is None or not retry._applies(ticket.attempt, error) or task.requested or task.draining:
        return
    if nursery.state not in (NurseryState.OPEN, NurseryState.CLOSING):
        return
    again = Ticket(gate, ticket.priority, ticket.demand, ticket.needs)
    again.retry, again.call = retry, ticket.call
    again.retry_of = task
    try:
        record = kernel.spawn(nursery, name=task.name, budget=budget, ticket=again, again=True, spawner=nursery.owner)
    except BursarError:
        return  # the purse cannot pay for another attempt, so this failure counts
    record.capabilities = task.capabilities
    again.task = record
    context.run(start, record, run, args)
    graph.try_again(ticket, again)
    gate.totals.retried += 1
    gate.enter(kernel, again, (), retry._delay_ns(ticket.attempt))
