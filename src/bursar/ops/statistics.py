"""Statistics: counts of what a run has done so far.

The law keeps the counts, so a run that never reads its statistics pays nothing more for them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from bursar.backend import GateTotals
from bursar.law.admission.ticket import TicketState
from bursar.law.kernel import Kernel
from bursar.law.lanes import Lane
from bursar.law.state import OutcomeKind


@dataclass(frozen=True, slots=True)
class AdmissionStatistics:
    """Counts of what the gates of a run have done, and of the tasks at the gates now. Times are in seconds."""

    entered: int  # tasks that asked for permission
    admitted: int
    waiting: int  # now: wait for dependencies or a retry, or were paused before they were admitted
    queued: dict[str, int]  # now: wait for permission, by priority
    held: int  # now: admitted
    lent: int  # now: admitted, and paused or waiting for their children
    dropped: dict[str, int]  # by cause
    retried: int
    paused: int
    passed_over: int  # how often the first task did not fit
    wait_mean: float  # of the admitted and the dropped tasks: how long they waited for permission only
    wait_max: float
    starved: int  # tasks that a task of higher priority overtook
    starved_max: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of what a run has done so far. `str()` gives one line.

    Attributes:
        decisions: Decisions of the scheduler.
        by_lane: Decisions by lane.
        spawned: Tasks that were spawned.
        live: Tasks that live now.
        done: Tasks that have ended, by kind of outcome.
        steals: Successful steals.
        steals_failed: Failed steals.
        counters: Reports by kind, and `stale_wake`, `stale_timer`, `wakes_merged`, `turns_over`, `exhausted`,
            `recharged`, `asyncgen_unclosed`, `workers_replaced`.
        seconds: Seconds of the run's clock.
        admission: What its gates have done: `entered`, `admitted`, `retried`, `paused`, `passed_over`, and `dropped`
            by cause; the tasks at the gates now: `waiting`, `queued` by priority, `held`, `lent`; and `wait_mean`,
            `wait_max`, `starved`, `starved_max`.
    """

    decisions: int
    by_lane: dict[str, int]
    spawned: int
    live: int
    done: dict[str, int]
    steals: int
    steals_failed: int
    counters: dict[str, int]
    seconds: float
    admission: AdmissionStatistics

    def __str__(self) -> str:
        lanes = ", ".join(f"{n:,} {lane}" for lane, n in self.by_lane.items() if n)
        done = ", ".join(f"{n:,} {kind}" for kind, n in self.done.items() if n)
        return (
            f"{self.decisions:,} decisions ({lanes or 'none'}); {self.spawned:,} tasks: {self.live:,} live, "
            f"done: {done or 'none'}; {self.steals:,} steals; {self.seconds:g} s"
        )


def count(kernel: Kernel) -> Statistics:
    """Counts of the run so far."""
    stats = [worker.stats for worker in kernel.workers]
    return Statistics(
        decisions=kernel.decisions,
        by_lane={lane.name.lower(): sum(s.dispatched[lane] for s in stats) for lane in Lane if lane is not Lane.IDLE},
        spawned=kernel.spawned,
        live=len(kernel.tasks),
        done={kind.name.lower(): kernel.done[kind] for kind in OutcomeKind},
        steals=sum(s.steals for s in stats),
        steals_failed=sum(s.steals_failed for s in stats),
        counters=dict(sorted(kernel.counters.items())),
        seconds=kernel.now_ns / 1e9,
        admission=_at_gates(kernel),
    )


def _at_gates(kernel: Kernel) -> AdmissionStatistics:
    """The counts of all gates of the run: those in use now, and those that have ended."""
    gates = {id(kernel.gate): kernel.gate} if kernel.gate is not None else {}
    for task in kernel.tasks.values():
        for nursery in (task.owned or {}).values():
            if nursery.gate is not None:
                gates[id(nursery.gate)] = nursery.gate
    totals = kernel.gate.totals if kernel.gate is not None else GateTotals()
    queues: Counter[int] = Counter()
    waiting = held = lent = 0
    waits: list[int] = []
    starved: list[int] = []
    for gate in gates.values():
        queues.update(gate.queues.lengths())
        waiting += gate.waiting
        returned = sum(ticket.state is not TicketState.ADMITTED for ticket in gate.held)
        lent += returned
        held += len(gate.held) - returned
        for ticket in gate.queues:
            waits.append(kernel.now_ns - ticket.ready_ns)
            starved.append(gate.queues.starved_ns(ticket, kernel.now_ns))
    return AdmissionStatistics(
        entered=totals.entered,
        admitted=totals.admitted,
        waiting=waiting,
        queued={str(priority): n for priority, n in sorted(queues.items(), reverse=True)},
        held=held,
        lent=lent,
        dropped=dict(totals.dropped),
        retried=totals.retried,
        paused=totals.paused,
        passed_over=totals.passed_over,
        wait_mean=totals.wait_ns / 1e9 / (totals.admitted + sum(totals.dropped.values()) or 1),
        wait_max=max([totals.wait_max_ns, *waits]) / 1e9,
        starved=totals.starved + sum(ns > 0 for ns in starved),
        starved_max=max([totals.starved_max_ns, *starved]) / 1e9,
    )
