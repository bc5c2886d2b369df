"""A submission: one task that another thread hands in through a portal, and the future that the thread gets of it.

That is a `concurrent.futures.Future`, which is costly to make and to answer, and most are asked for nothing but their
result, once it is there, or not even that. So the future as such is made when it is first used as one: when somebody
waits, cancels, adds a callback, or reads anything else that is not here. Until then its submission keeps the answer.

Rejected: a future of our own. `concurrent.futures.wait`, `as_completed` and `asyncio.wrap_future` take no other.

SUBMISSION-1  every submission is answered exactly once, by the thread of the runtime or by whoever finds the run over,
    and never inside the law: callbacks of a future are not ours
SUBMISSION-2  a future that is alive is told the answer exactly once, by whoever saw last that both are there
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from bursar.backend import Task
from bursar.errors import CapabilityDenied
from bursar.law.admission.authority import Priority
from bursar.law.budget import Budget
from bursar.law.cancel import CancelKind, CancelReason
from bursar.law.state import Outcome, OutcomeKind
from bursar.ops.gate_spawn import ask
from bursar.ops.start import start
from bursar.ops.task import at_end, unwrap

if TYPE_CHECKING:
    from bursar.threads.portal import Portal

Function = Callable[..., Coroutine[Any, Any, Any]]


class Submission:
    """The runtime's side: from the thread to the task, and from its end to the future."""

    __slots__ = (
        "alive",
        "answered",
        "budget",
        "error",
        "future",
        "portal",
        "resolved",
        "task",
        "title",
        "value",
        "withdrawn",
        "work",
    )

    def __init__(self, portal: Portal, title: str, budget: Budget, fn: Function, args: tuple[Any, ...]) -> None:
        self.portal = portal
        self.title = title
        self.budget = budget
        self.work: tuple[contextvars.Context, Function, tuple[Any, ...]] | None
        self.work = contextvars.copy_context(), fn, args  # until the task has it
        self.task: Task | None = None
        self.future: Answer | None = Answer(self)  # until it is answered
        self.alive = False  # the future as such was made
        self.withdrawn = False  # it was cancelled
        self.answered = False  # with one of these:
        self.value: Any = None
        self.error: BaseException | None = None
        self.resolved = False  # the future knows

    # ---- in the thread of the runtime, unless the run is over

    def take(self) -> None:
        """Start the task, or say why not."""
        portal = self.portal
        portal.pending.discard(self)
        kernel, record = portal.kernel, portal.record
        owner, work = record.owner, self.work
        assert owner is not None, "a portal leads to a nursery of a task"
        assert work is not None, "it is taken once"
        self.work = None
        try:
            portal.require_open()
            if portal.pump.ask(owner, "withdrawn", self._is_withdrawn):
                if self.future is not None:
                    self.future.cancel()  # in a replay nobody may have done so yet
                self.resolve()
                return
            context, fn, args = work
            if record.gate is None:
                task = kernel.spawn(record, name=self.title, budget=self.budget, spawner=owner)
                context.run(start, task, fn, args)
            else:
                task = context.run(self._ask, fn, args, owner)
        except Exception as refused:
            if isinstance(refused, CapabilityDenied):
                kernel.note("capability_denied", owner, refused)
            self.resolve(error=refused)
            return
        self.task = task
        portal.living.add(self)
        if task.outcome is None:
            at_end(task, self._ended)
        else:  # its gate dropped it at once
            self._ended(task.outcome)

    def _ask(self, fn: Function, args: tuple[Any, ...], owner: Task) -> Task:
        """The nursery has a gate."""
        kernel, record = self.portal.kernel, self.portal.record
        return ask(
            kernel,
            record,
            fn,
            args,
            gate=record.gate,
            name=self.title,
            budget=self.budget,
            capabilities=None,
            priority=Priority.NORMAL,
            after=[],
            needs={},
            retry=None,
            spawner=owner,
        )

    def _is_withdrawn(self) -> int:
        return int(self.withdrawn)

    def cancel_task(self) -> None:
        if self.task is not None and not self.portal.pump.over:
            self.portal.kernel.cancel_request(self.task, CancelReason(CancelKind.USER, "its future was cancelled"))

    def _ended(self, outcome: Outcome) -> None:
        """The law is at work: tell the future later (SUBMISSION-1)."""
        portal = self.portal
        portal.living.discard(self)
        portal.ended.append((self, outcome))
        if len(portal.ended) == 1:  # one message is about all that end in a batch
            portal.pump.post(f"ended {portal.record.name}", portal.answer)

    def pass_on(self, outcome: Outcome) -> None:
        """Answer with what the task came to."""
        if outcome.kind is OutcomeKind.OK:
            self.resolve(value=outcome.value)
            return
        try:
            unwrap(self.title, outcome)
        except Exception as error:
            self.resolve(error=error)

    def resolve(self, *, value: Any = None, error: BaseException | None = None) -> None:
        """Answer (SUBMISSION-1)."""
        self.value, self.error = value, error
        self.answered = True
        future, self.future = self.future, None
        if future is not None and self.alive:
            self.resolve_future(future)

    # ---- in any thread

    def resolve_future(self, future: Answer) -> None:
        """Both are there, the answer and the future (SUBMISSION-2)."""
        with self.portal.answering:
            first, self.resolved = not self.resolved, True
        if not first or not future.set_running_or_notify_cancel():
            return  # told already, or cancelled
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.value)


class Answer(Future[Any]):
    """The thread's side."""

    __slots__ = ("_submission",)

    def __init__(self, submission: Submission) -> None:
        self._submission = submission

    def __getattr__(self, name: str) -> Any:
        """What is not here belongs to the future as such, which is wanted now."""
        if name.startswith("__"):
            raise AttributeError(name)
        submission = self._submission
        with submission.portal.answering:
            if not submission.alive:
                super().__init__()
                submission.alive = True  # SUBMISSION-2: from here on, whoever answers tells it
        if submission.answered:
            submission.resolve_future(self)
        return object.__getattribute__(self, name)

    def result(self, timeout: float | None = None) -> Any:
        submission = self._submission
        if submission.answered and not submission.alive:
            if submission.error is not None:
                raise submission.error
            return submission.value
        return super().result(timeout)

    def cancel(self) -> bool:
        cancelled, submission = super().cancel(), self._submission
        with submission.portal.answering:
            first, submission.withdrawn = cancelled and not submission.withdrawn, cancelled
        if first:
            submission.portal.pump.post(f"withdrawn {submission.title}", submission.cancel_task)
        return cancelled
