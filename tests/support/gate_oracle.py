"""An observer that checks every decision of the gates. For each decision it looks at all tickets.

    order        the admitted ticket is the one with the best score of all that wait (`law.admission.invariants.choose`)
    starvation   a ticket that comes first waits at most three intervals and the longest task that runs at that moment
    conservation each task that asked is waiting, queued, admitted, or done
    cancelled    a task that was cancelled before it began does not begin

The bound on starvation is also checked without a clock, however long the tasks take. When a ticket has come first and
has waited three intervals, the oracle notes the admitted tasks. The ticket must be admitted when these have ended, or
earlier. If a ticket is lent or returns in between, the check of this bound begins again.
"""

from __future__ import annotations

from collections import Counter

from bursar import Runtime, State
from support.admission import Gate, Ticket, TicketState, invariants


class First:
    """A task that comes first and does not fit, since when; and once it has waited for long enough: who ran then."""

    def __init__(self, ticket: Ticket, since_ns: int, standing: frozenset[tuple[Ticket, TicketState]]) -> None:
        self.ticket = ticket
        self.since_ns = since_ns
        self.standing = standing
        self.before: set[Ticket] | None = None


class GateOracle:
    """An observer of one run. `begun`: the ids of tasks whose code has been called."""

    def __init__(self, runtime: Runtime) -> None:
        self.kernel = runtime.kernel
        self.begun: set[int] = set()
        self.kinds: Counter[str] = Counter()
        self.asked = 0
        self.live: set[int] = set()  # of those who asked
        self.over: Counter[str] = Counter()
        self.doomed: set[int] = set()  # were asked to stop before they began
        self.log: list[tuple] = []
        self.firsts: dict[Gate, First] = {}
        self.waited_first_ns: list[int] = []  # of each that came first and stayed so until it was let in
        self._other = self.kernel.observer  # who else listens
        self.kernel.observe(self)

    def __call__(self, kind, task, detail) -> None:
        if self._other is not None:
            self._other(kind, task, detail)
        self.kinds[kind] += 1
        match kind:
            case "task_submitted":
                self.asked += 1
                self.log.append(("submitted", task.id))
                self.live.add(task.id)
            case "task_admitted":
                self.admitted(task)
            case "task_dropped":
                self.log.append(("dropped", task.id))
            case "cancel_requested":
                if task.ticket is not None and task.ticket.state in (TicketState.WAITING, TicketState.QUEUED):
                    self.doomed.add(task.id)
            case "scheduler_step_decision":
                assert task.state is State.RUNNING
            case "task_done":
                if task.id in self.live:
                    self.live.remove(task.id)
                    self.log.append(("over", task.id))
                    self.over[detail.kind.name] += 1

    @property
    def let_in(self) -> set[int]:
        return {id for what, id in self.log if what == "admitted"}

    def look_after_every_poll(self, runtime: Runtime) -> None:
        poll = runtime.driver.poll

        def and_look(task) -> None:
            poll(task)
            self.check()

        runtime.driver.poll = and_look

    def admitted(self, task) -> None:
        ticket = task.ticket
        gate = ticket.gate
        self.log.append(("admitted", task.id))
        assert not ticket.unmet
        assert task.id not in self.doomed
        held = [other for other in gate.held if other is not ticket]
        best = invariants.choose(gate, list(gate.returning), [ticket, *gate.queues], held, self.kernel.now_ns)
        assert best is ticket, f"{ticket} was let in, and it was the turn of {best}"
        first, now_ns = self.firsts.get(gate), self.kernel.now_ns
        if first is not None and first.ticket is ticket:
            self.waited_first_ns.append(now_ns - first.since_ns)
        if first is not None and invariants.score(gate, ticket, now_ns) <= invariants.score(gate, first.ticket, now_ns):
            del self.firsts[gate]  # it was let in, or another one came before it

    def check(self) -> None:
        invariants.check(self.kernel)
        begun = self.doomed & self.begun
        assert not begun, f"{begun} were asked to stop, and began"
        assert self.kernel.gate.totals.entered == self.asked == len(self.live) + self.over.total(), "GATE-3: entered"
        gates = invariants.gates_of(self.kernel)
        known = sum(gate.waiting + len(gate.queues) for gate in gates)
        known += sum(ticket.task.id in self.live for gate in gates for ticket in gate.held)
        assert known == len(self.live), "GATE-3: somebody who asked stands nowhere"
        for gate in gates:
            self._starves(gate)

    def _starves(self, gate: Gate) -> None:
        ticket, now_ns = invariants.first(gate, gate.last_pass_ns), gate.last_pass_ns
        standing = frozenset((other, other.state) for other in gate.held if other.state is not TicketState.ADMITTED)
        first = self.firsts.get(gate)
        if ticket is None:
            self.firsts.pop(gate, None)
            return
        if first is None or first.ticket is not ticket or first.standing != standing:
            first = self.firsts[gate] = First(ticket, self.kernel.now_ns, standing)
        if not invariants.may_reserve(gate, ticket, now_ns):
            first.before = None
        elif first.before is None:
            first.before = {other for other in gate.held if other.state is TicketState.ADMITTED}
        else:
            left = first.before & gate.held.keys()
            assert left, f"{ticket} starves: all that ran when it had waited long enough have left"
