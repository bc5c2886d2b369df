"""The model, continued: admission. The model uses the law's own gates.

The record of a submission holds what the task asked for. Which tasks the gate admits, and when, must follow from these
records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from bursar.errors import BursarError
from bursar.evidence.verify.model_families import WAKES_OF_OTHERS, Families
from bursar.evidence.verify.model_tasks import Records
from bursar.law.admission import graph
from bursar.law.admission.authority import Authority
from bursar.law.admission.gate import Gate
from bursar.law.admission.ticket import Ticket, TicketState
from bursar.law.budget import Budget
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.dispatch import Dispatch
from bursar.law.nursery import Nursery
from bursar.law.state import Outcome, State
from bursar.law.task import Task
from bursar.law.wake import Wait
from bursar.ops import pause
from bursar.trace.catalogue import NONE
from bursar.trace.events import TraceRecord


class _Wakes(Wait):
    """Stands for the tasks that wait until a task is paused, or until a ticket is admitted again. Their wakes are in
    the trace."""

    __slots__ = ("_model",)

    def __init__(self, model: Gates, task: Task) -> None:
        super().__init__(task)
        self._model = model

    def answer(self, kernel: Dispatch, value: Any) -> None:
        self._model.wakes_of_others()

    def refuse(self, kernel: Dispatch, error: BaseException) -> None:
        self._model.wakes_of_others()


class Gates(Families):
    """The complete model."""

    def __init__(self, header: dict[str, Any], records: Records) -> None:
        super().__init__(header, records)
        self.gate = Gate(0, Authority._read(header["admission"]))
        self._lent_to: dict[int, Nursery] = {}  # task → the nursery whose children use what its ticket lent
        if header["admits_all"]:
            self.root.gate = self.gate

    def wakes_of_others(self) -> None:
        while self.records.next is not None and self.records.next.name in WAKES_OF_OTHERS:
            record = self.records.next
            getattr(self, "on_" + record.name)(*record.numbers)

    def on_gate_opened(self, id: int, region: int) -> None:
        nursery = self._owned(id, region)
        try:
            authority = Authority._read(cast("TraceRecord", self.records.next).text)
        except (ValueError, TypeError, KeyError) as wrong:
            raise self.records.wrong(f"this is not an Authority: {wrong}") from None
        if nursery.gate is not None and nursery.gate is not self.gate:
            raise self.records.wrong(f"{nursery.name} has a gate already")
        nursery.gate = Gate(region, authority, self.gate.totals)
        self.note("gate_opened", nursery.owner, nursery.gate)

    # ---- submission

    def _submitted(self, nursery: Nursery, name: str, budget: Budget, again: bool) -> None:
        by = nursery.owner if again or self.current is None else None
        ticket = Ticket(nursery.gate or self.gate, 0, ())
        first = self.current if again else None
        if again:
            ticket.retry_of = first  # before the spawn, whose event shows it
        task = self.spawn(nursery, name=name, budget=budget, ticket=ticket, again=again, spawner=by)
        ticket.task = task
        record = self.records.next
        if record is None or record.name != "task_submitted":
            raise self.records.wrong(f"task {task.id} would have asked for permission here")
        _, gate, priority, _ = record.numbers
        if gate != ticket.gate.number:
            raise self.records.wrong(f"task {task.id} would have asked at gate {ticket.gate.number}")
        try:
            asked: dict[str, Any] = json.loads(record.text)
            ticket.priority = priority
            ticket.demand, ticket.needs = ticket.gate.resources.demand(dict(asked["needs"]), name)
            after = [self._ticket(self._live(id)) for id in asked.get("after", ())]
            delay_ns, failed_cause = int(asked.get("delay_ns", 0)), asked.get("doom")
        except (BursarError, ValueError, TypeError, KeyError) as wrong:
            raise self.records.wrong(f"no task can ask for this: {wrong}") from None
        if first is not None:
            graph.try_again(self._ticket(first), ticket)
        if failed_cause is not None:
            after.append(self._failed_before(ticket.gate, failed_cause))
        ticket.gate.enter(self, ticket, after, delay_ns)

    def _failed_before(self, gate: Gate, by: int) -> Ticket:
        """A ticket in place of a dependency that failed before the submission."""
        if not 0 < by < self._next_id or by in self.tasks:
            raise self.records.wrong(f"task {by} has not failed")
        ticket = Ticket(gate, 0, (), state=TicketState.DONE)
        ticket.cause = CancelReason(CancelKind.DEPENDENCY, "", by)
        return ticket

    def _ticket(self, task: Task) -> Ticket:
        ticket = cast("Ticket | None", task.ticket)
        if ticket is None:
            ticket = Ticket(self.gate, 0, (), state=TicketState.ADMITTED)
            ticket.task = task
            task.ticket = ticket
            self.gate.held[ticket] = None
        return ticket

    # ---- acts

    def on_task_dropped(self, id: int, by: int, *_: int) -> None:
        """An explicit drop; all other drops are consequences."""
        ticket = self._ticket(self._live(id))
        if ticket.state not in (TicketState.WAITING, TicketState.QUEUED):
            raise self.records.wrong(f"task {id} does not wait for permission")
        runs = self.current.id if self.current is not None else None
        ticket.gate.drop(self, ticket, "explicit", "", runs)

    def finish(self, task: Task, outcome: Outcome) -> bool:
        """A task that never started may be dropped during any other act. Tasks that wait for it are woken at once."""
        never_started = task.state is State.PENDING
        over = super().finish(task, outcome)
        if never_started:
            self.wakes_of_others()
        return over

    def on_pause_requested(self, id: int, within_ns: int) -> None:
        task = self._live(id)
        ticket, at_once = self._ticket(task), within_ns == NONE
        if not at_once and (task.state is not State.BLOCKED or ticket.state is not TicketState.ADMITTED):
            raise self.records.wrong(f"task {id} is not on a thread")
        pause.pause(self, ticket, within_ns, not at_once)
        if ticket.pausing is not None:
            ticket.pausing.append(_Wakes(self, task))

    def on_pause_reached(self, id: int) -> None:
        pause.reached(self, self._live(id))

    def on_resume_requested(self, id: int) -> None:
        pause.resume(self, self._ticket(self._live(id)))

    def on_permit_lent(self, id: int) -> None:
        task = self._acting(id)
        gate = self._ticket(task).gate
        nursery = next((n for n in self._leaves(task) if (n.gate or self.gate) is gate and n.children), None)
        if nursery is None or pause.give_way(self, task, nursery) is None:
            raise self.records.wrong(f"task {id} has nothing to lend that its children could use")
        self._lent_to[id] = nursery

    def _leaves(self, task: Task) -> Iterator[Nursery]:
        """The nurseries whose blocks the task is leaving, innermost first."""
        for nursery in reversed((task.owned or {}).values()):
            if nursery.scope is not None and nursery.scope.exiting:
                yield nursery

    def on_permit_asked(self, id: int) -> None:
        task = self._acting(id)
        ticket = self._ticket(task)
        if not ticket.waits_for_children:
            raise self.records.wrong(f"task {id} has lent nothing")
        nursery = self._lent_to.pop(id)
        in_order = task.inner is nursery.scope and not task.cut  # otherwise the block cannot end, and raises
        if in_order and not nursery.state.terminal:
            raise self.records.wrong(f"task {id} asks for what it lent before {nursery.name} is closed")
        pause.ask(self, ticket)
        if ticket.state is TicketState.RETURNING:
            ticket.regain = _Wakes(self, task)
