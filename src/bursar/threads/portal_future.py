"""A submission: one task that another thread spawns through a portal, and the future that the thread gets.

The future is a `concurrent.futures.Future`, which is expensive to make and to answer. Most programs only read its
result after the task has ended, or do not even do that. So the real future is made when it is first needed: when a
thread waits, cancels, adds a callback, or reads an attribute that `Answer` does not have. Until then the submission
keeps the answer.

Rejected: a future class of our own. `concurrent.futures.wait`, `as_completed` and `asyncio.wrap_future` do not take it.

SUBMISSION-1  every submission is answered exactly once, by the runtime's thread or by a thread that finds the run over,
    and never in the middle of a change of the law, because the callbacks of a future are user code
SUBMISSION-2  a real future gets the answer exactly once, from the thread that answers or from the thread that makes
    the future; both may try, and the first one succeeds
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
from bursar.ops.task import at_end, read_outcome, unwrap
from bursar.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from bursar.threads.portal import Portal

Function = Callable[..., Coroutine[Any, Any, Any]]


class Submission:
    """The runtime's side: spawns the task, and passes its outcome to the future."""

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
        self.work = contextvars.copy_context(), fn, args  # None once the task has it
        self.task: Task | None = None
        self.future: Answer | None = Answer(self)  # None once it is answered
        self.alive = False  # the real future was made
        self.withdrawn = False  # the future was cancelled
        self.answered = False  # with a value or an error
        self.value: Any = None
        self.error: BaseException | None = None
        self.resolved = False  # the real future has the answer

    # ---- in the thread of the runtime, unless the run is over

    def take(self) -> None:
        """Start the task, or answer with the refusal."""
        portal = self.portal
        portal._pending.discard(self)
        kernel, record = portal._kernel, portal._record
        owner, work = record.owner, self.work
        assert owner is not None, "a portal leads to a nursery of a task"
        assert work is not None, "it is taken once"
        self.work = None
        try:
            portal._require_open()
            if portal._pump.ask(owner, "withdrawn", self._is_withdrawn):
                if self.future is not None:
                    self.future.cancel()  # in a replay, the thread may not have done this yet
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
        portal._living.add(self)
        outcome = read_outcome(task)
        if outcome is None:
            at_end(task, self._ended)
        else:  # its gate dropped it at once
            self._ended(outcome)

    def _ask(self, fn: Function, args: tuple[Any, ...], owner: Task) -> Task:
        """Spawn the task through the gate of the nursery."""
        kernel, record = self.portal._kernel, self.portal._record
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
        if self.task is not None and not self.portal._pump.over:
            self.portal._kernel.cancel_request(self.task, CancelReason(CancelKind.USER, "its future was cancelled"))

    def _ended(self, outcome: Outcome) -> None:
        """The law is in the middle of a change: answer the future later (SUBMISSION-1)."""
        portal = self.portal
        portal._living.discard(self)
        portal._ended.append((self, outcome))
        if len(portal._ended) == 1:  # one post covers all tasks that end in a batch
            portal._pump.post(f"ended {portal._record.name}", portal._answer)

    def pass_on(self, outcome: Outcome) -> None:
        """Answer with the outcome of the task."""
        if outcome.kind is OutcomeKind.OK:
            self.resolve(value=outcome.value)
            return
        try:
            unwrap(self.title, outcome)
        except Exception as error:
            hide_own_frames(error)
            self.resolve(error=error)

    def resolve(self, *, value: Any = None, error: BaseException | None = None) -> None:
        """Answer the submission (SUBMISSION-1)."""
        self.value, self.error = value, error
        self.answered = True
        future, self.future = self.future, None
        if future is not None and self.alive:
            self.resolve_future(future)

    # ---- in any thread

    def resolve_future(self, future: Answer) -> None:
        """There are both an answer and a real future: pass the answer on (SUBMISSION-2)."""
        with self.portal._answering:
            first, self.resolved = not self.resolved, True
        if not first or not future.set_running_or_notify_cancel():
            return  # it has the answer already, or was cancelled
        if self.error is not None:
            future.set_exception(self.error)
        else:
            future.set_result(self.value)


class Answer(Future[Any]):
    """The thread's side: becomes a real future when it is first needed."""

    __slots__ = ("_submission",)

    def __init__(self, submission: Submission) -> None:
        self._submission = submission

    def __getattr__(self, name: str) -> Any:
        """The attribute belongs to the real future: make the real future now."""
        if name.startswith("__"):
            raise AttributeError(name)
        submission = self._submission
        with submission.portal._answering:
            if not submission.alive:
                super().__init__()
                submission.alive = True  # SUBMISSION-2: from here on, the answering thread passes the answer on
        if submission.answered:
            submission.resolve_future(self)
        return object.__getattribute__(self, name)

    def result(self, timeout: float | None = None) -> Any:
        submission = self._submission
        try:
            if not submission.answered or submission.alive:
                return super().result(timeout)
            if submission.error is not None:
                raise submission.error
        except BaseException as error:
            hide_own_frames(error)
            raise
        return submission.value

    def cancel(self) -> bool:
        cancelled, submission = super().cancel(), self._submission
        with submission.portal._answering:
            first, submission.withdrawn = cancelled and not submission.withdrawn, cancelled
        if first:
            submission.portal._pump.post(f"withdrawn {submission.title}", submission.cancel_task)
        return cancelled
