"""Runs a workflow: one nursery, one gate, one task for each step, and a journal of everything that happens.

Each step is a coroutine task, spawned at the gate with its needs, its priority and the tasks it depends on. The gate
decides when the step may start, cancels the steps that depend on a failed one, and retries. An admitted step writes
`started` into the journal, does its work, and writes how the work ended. So each task writes its own transitions, in
the one thread of the run, before any other task can see them.

    plain function      on a thread; stops at its `Checkpoint`, if it has one; otherwise the run waits for its end
    coroutine function  in the run itself; cancelled at its next await
    command             in a process group; SIGTERM, then SIGKILL after its grace

WORKFLOW-1  the journal has a transition of a step before the listener gets it, and before a dependent step may start
WORKFLOW-2  when the nursery has ended, every step is `ok`, `failed`, `cancelled` or `dropped`; if a step cannot be
    spawned, no step runs, and the run raises `WorkflowError`

Rejected: retries and dependencies of our own, beside those of the gate. There would be two explanations why a task
waits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import warnings
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from bursar.errors import BursarError, Cancelled, JournalError, WorkflowError
from bursar.io.signals import wait_signal
from bursar.law.state import OutcomeKind
from bursar.law.timers import SECONDS_MAX
from bursar.ops.clock import now as clock
from bursar.ops.clock import sleep
from bursar.ops.nursery import Nursery, nursery
from bursar.ops.scope import timeout
from bursar.ops.task import Task, current_task
from bursar.runtime import Cleanup, Runtime
from bursar.text import brief, counted, storable
from bursar.workflow.events import Listener, StepRun
from bursar.workflow.graph import in_order
from bursar.workflow.journal import REASONS_S, Journal, Waited, open_journal
from bursar.workflow.model import Workflow
from bursar.workflow.orphan_processes import VARIABLE, end_leftovers, keys_for_commands
from bursar.workflow.plan import Plan
from bursar.workflow.recorder import Recorder
from bursar.workflow.references import keep
from bursar.workflow.step import Command
from bursar.workflow.summary import Report, TaskReport
from bursar.workflow.work import call_function, described, failure_of, run_command, traceback_text

TICK_S: Final = 0.1  # between two ticks of a listener
LOOK_SHARE: Final = 0.1  # of the time may go into ticks, with any number of steps
EXPLAIN_STEPS: Final = 100_000  # the reason of one waiting task looks at all steps: a limit for both numbers together
CLEANUP_S: Final = 10.0  # for a cancelled step, in addition to the grace of its command
STOPPING: Final = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
CLEANUP_OPS: Final = 1_000_000  # enough to read all output of a command while it ends


class Execution:
    """One session of one workflow."""

    def __init__(
        self,
        workflow: Workflow,
        *,
        journal: Journal | None = None,
        again: Iterable[str] = (),
        listener: Listener | None = None,
        **runtime: Any,
    ) -> None:
        self.workflow = workflow
        self.recorder = Recorder(journal, listener)
        self.stopped = ""
        self._calls = workflow.load()
        self._refused: WorkflowError | None = None  # why no step ran
        self.steps = {name: StepRun(step) for name, step in workflow.steps.items()}
        self.results: dict[str, Any] = {}
        self._key = ""
        self._noted: dict[str, str] = {}  # the newest reason of each step in the journal
        self._again = list(again)
        self._asked = 0
        self._over: float | None = None
        grace = max((step.grace for step in workflow.steps.values()), default=0.0)
        runtime.setdefault("cleanup", Cleanup(CLEANUP_OPS, min(grace + CLEANUP_S, SECONDS_MAX)))
        self.runtime = Runtime(**runtime)
        if self.runtime.pump.host.virtual:
            self._refuse_commands()

    def _refuse_commands(self) -> None:
        """The virtual clock does not advance while a process runs, so its timeout and its grace would never end."""
        for step in self.workflow.steps.values():
            if isinstance(step.work, Command):
                raise WorkflowError(
                    f"workflow {self.workflow.name!r} cannot run on a virtual clock: task {step.name!r} is a command, "
                    "which takes real time; run without clock='virtual', or replace the command by a function"
                )

    # ---- the run

    def run(self) -> Report:
        """Run all steps. After Ctrl-C the steps are cancelled, and then `KeyboardInterrupt` is raised; `report` has the
        steps that ended."""
        self.recorder.begin()
        if self.journal is not None:
            self._take_up(self.journal.begin(self.workflow, self._again))
        waiting = sum(run.state == "pending" for run in self.steps.values())
        self.recorder.publish("run", detail=f"{waiting} of {len(self.steps)} tasks to run")
        try:
            self.runtime.run(self._main)
        except KeyboardInterrupt:
            self.stopped = "SIGINT"
            raise
        finally:
            self._end()
        if self.recorder.broken is not None:
            raise self.recorder.broken
        if self._refused is not None:
            raise self._refused
        return self.report()

    def _take_up(self, plan: Plan) -> None:
        """Continue where the journal ends."""
        assert self.journal is not None, "there is a plan"
        self._key = self.journal.key
        for name, value in plan.results.items():
            run = self.steps[name]
            run.state, run.earlier, run.value, run.seconds = "ok", True, value, plan.seconds[name]
            self.results[name] = value
        for task, attempt in plan.lost:
            self.recorder.publish("lost", task, attempt, "was running when the run was killed")
        for task, why in plan.again.items():
            self.recorder.publish("again", task, detail=why)
        if plan.lost:
            ended = end_leftovers(self._key)
            if ended:
                said = f"killed the processes that the killed run had left running: {ended}"
                self.recorder.publish("leftovers", detail=said)

    async def _main(self) -> None:
        async with nursery(name="watch") as watch:
            with contextlib.suppress(ExceptionGroup):  # each failure is in the journal and in the report
                async with nursery(
                    on_drop="record",  # the journal and the report show each drop
                    name=self.workflow.name,
                    admission=self.workflow.authority(),
                    cancel_on_failure=False,
                ) as steps:
                    for number in drained():
                        watch.spawn(self._drain_on, number, steps, name=number.name)
                    if self.recorder.listener is not None or self.journal is not None:
                        watch.spawn(self._poll_listeners, name="look")
                    self._spawn_all(steps)
            watch.cancel("the workflow is over")

    def _spawn_all(self, into: Nursery) -> None:
        self.recorder.on_broken = lambda: into.cancel("the journal cannot be written")
        for run in self._to_spawn():
            step, name = run.step, run.step.name
            after = [task for other in step.after if (task := self.steps[other].task) is not None]
            try:
                run.task = into.spawn(
                    self._perform,
                    run,
                    name=name,
                    priority=step.priority,
                    after=after,
                    needs=self.workflow.needs(step, self._calls.get(name)),
                    retry=step.retry,
                )
            except BursarError as error:  # no step has begun
                where = f"task {name!r} of workflow {self.workflow.name!r}"
                self._refused = WorkflowError(f"{where} cannot be spawned, so no task was run: {error}")
                self._refused.__cause__ = error
                into.cancel("the workflow was refused")
                return

    def _to_spawn(self) -> list[StepRun]:
        """The steps in the order in which to spawn them: each after its dependencies, and among those that can start at
        once the most urgent first. While resources are free, the gate admits each step at its spawn, before it knows
        the later ones."""

        def place(run: StepRun) -> tuple[bool, int]:
            waits = any(self.steps[other].state != "ok" for other in run.step.after)
            return waits, 0 if waits else -run.step.priority

        runs = [self.steps[name] for name in in_order(self.workflow.graph)]
        return sorted((run for run in runs if run.state != "ok"), key=place)

    async def _drain_on(self, number: signal.Signals, steps: Nursery) -> None:
        await wait_signal(number)
        self.stopped = number.name
        steps.cancel(number.name)

    def _end(self) -> None:
        """WORKFLOW-2. Then write how the session ended."""
        self._over = self.now()
        self._record_unstarted()
        with contextlib.suppress(JournalError):
            if self.journal is not None and self.recorder.broken is None:
                self.journal.end(self.stopped or ("ok" if self.report().ok else "failed"))

    # ---- one step

    async def _perform(self, run: StepRun) -> Any:
        name = run.step.name
        task = await current_task()
        run.history = _history(task, await clock())
        run.attempt = self.recorder.write(lambda journal: journal.started(name, run.history)) or run.attempt + 1
        run.task, run.state, run.began, run.error, run.traceback = task, "running", self.now(), "", ""
        before = [self.steps[other] for other in run.step.after]
        ready = max((other.began + other.seconds for other in before if not other.earlier), default=0.0)
        run.waited = run.began - ready
        self.recorder.publish("started", name, run.attempt)
        limit = timeout(run.step.timeout)
        try:
            async with limit:
                kept = keep(await self._work(run))
        except Cancelled as cancelled:
            self._ended(run, "cancelled", str(cancelled.reason))
            raise
        except BaseException as error:
            if self.runtime.driver.aborting:  # a second Ctrl-C waits for no record
                raise
            late = isinstance(error, TimeoutError) and limit.expired
            failure = TimeoutError(f"was not done within {run.step.timeout:g} s") if late else failure_of(error)
            run.traceback = "" if late else traceback_text(error)
            self._failed(run, task.attempt, failure, str(failure) if late else described(failure))
            if failure is error:
                raise
            raise failure from error  # the cancelled dependents quote this error
        run.seconds = self.now() - run.began
        self.recorder.write(lambda journal: journal.succeeded(name, kept))  # WORKFLOW-1
        run.state, run.value, self.results[name] = "ok", kept.value, kept.value
        self.recorder.publish("ok", name, run.attempt, seconds=run.seconds, value=kept.value)
        if self.journal is not None and kept.json is None:
            self.recorder.publish("unkept", name, detail=f"its result is not in the journal: {kept.why_not}")
        return kept.value

    async def _work(self, run: StepRun) -> Any:
        step = run.step
        if not isinstance(step.work, Command):
            return await call_function(step, self._calls[step.name], self.results)
        folder = None if self.workflow.file is None else self.workflow.file.parent
        ours = {VARIABLE: keys_for_commands(self._key), "BURSAR_TASK": step.name, "BURSAR_ATTEMPT": str(run.attempt)}
        publish = partial(self.recorder.publish, "output", step.name)
        return await run_command(
            step, step.work, self.results, folder, ours, lambda stream, text: publish(detail=text, value=stream)
        )

    def _failed(self, run: StepRun, attempt: int, error: Exception, said: str) -> None:
        self._ended(run, "failed", said)
        retry = run.step.retry
        if retry is not None and retry._applies(attempt, error):
            left = counted(retry.times - attempt + 1, "more time")
            self.recorder.publish("retry", run.step.name, run.attempt, f"{left} at most")

    def _ended(self, run: StepRun, state: str, error: str) -> None:
        """Record that a step failed, or was cancelled or dropped, possibly before it began."""
        name, error = run.step.name, storable(error)
        if run.state == "running":
            run.seconds = self.now() - run.began
        if self.recorder.broken is None:
            with contextlib.suppress(JournalError):  # this error stops the run already
                self.recorder.write(lambda journal: journal.ended_badly(name, state, error, run.traceback))
        run.state, run.error = state, error
        self.recorder.publish(state, name, run.attempt, error, run.seconds, traceback=run.traceback)

    # ---- beside the steps

    async def _poll_listeners(self) -> None:
        noted = -REASONS_S
        while True:
            began = self.now()
            self._record_unstarted()
            if self.journal is not None and began - noted >= REASONS_S:
                noted = began
                self._note_reasons()
            self.recorder.tick(self)
            pace = TICK_S if self.recorder.listener is not None else REASONS_S
            await sleep(max(pace, (self.now() - began) / LOOK_SHARE))

    def _record_unstarted(self) -> None:
        """Record the steps that ended before they began: dropped, or cancelled."""
        for run in self.steps.values():
            outcome = run.task.outcome if run.task is not None and run.state == "pending" else None
            if outcome is not None:
                if outcome.error is not None and self.recorder.broken is None:
                    raise outcome.error  # a bug of this module: a step that failed by itself is not pending
                state = "dropped" if outcome.kind is OutcomeKind.DROPPED else "cancelled"
                self._ended(run, state, str(outcome.reason or outcome.error))

    def _note_reasons(self) -> None:
        """JOURNAL-5. If very many steps wait, ask only some of them for their reasons, and others the next time."""
        waiting = [run for run in self.steps.values() if run.state == "pending" and run.task is not None]
        some = max(1, EXPLAIN_STEPS // len(self.steps))
        if len(waiting) > some:
            start = self._asked % len(waiting)
            self._asked += some
            waiting = (waiting + waiting)[start : start + some]
        reasons = {run.step.name: run.reason for run in waiting}
        changed = [(name, reason) for name, reason in reasons.items() if self._noted.get(name) != reason]
        if changed:
            self._noted.update(changed)
            self.recorder.write(lambda journal: journal.waiting(changed))

    # ---- what others see

    @property
    def journal(self) -> Journal | None:
        return self.recorder.journal

    def now(self) -> float:
        """Seconds since the session began."""
        return self.recorder.now()

    def report(self) -> Report:
        """The report of the run up to now."""
        tasks = {
            name: TaskReport(
                name,
                "pending" if run.state == "running" else run.state,
                run.attempt,
                run.seconds,
                run.waited,
                run.error,
                run.value,
                run.earlier,
                run.traceback,
            )
            for name, run in self.steps.items()
        }
        path = None if self.journal is None else self.journal.path
        seconds = self.now() if self._over is None else self._over
        error = self.recorder.listener_error
        return Report(self.workflow.name, tasks, self.workflow.graph, seconds, self.stopped, path, error)


def drained() -> list[signal.Signals]:
    """The signals that cancel a run in good order, besides Ctrl-C, which the runtime handles. Not those that have a
    handler or are ignored: a run under nohup must survive its terminal."""
    if threading.current_thread() is not threading.main_thread():
        return []  # only the main thread gets signals
    return [number for number in STOPPING if signal.getsignal(number) is signal.SIG_DFL]


def _history(task: Task[Any], until: float) -> list[Waited]:
    """What the task waited for, and how long."""
    past = list(task.history)
    ends = [*(one.since for one in past[1:]), until]
    return [Waited(one.reason, max(0.0, end - one.since)) for one, end in zip(past, ends, strict=False)]


def run_workflow(
    workflow: Workflow,
    *,
    journal: str | os.PathLike[str] | None,
    resume: bool,
    again: Iterable[str],
    listener: Listener | None,
    **runtime: Any,
) -> Report:
    """`Workflow.run`."""
    again = list(again)
    if journal is None and (resume or again):
        raise WorkflowError("resume and again need a journal to continue: run(journal='FILE', resume=True)")
    execution = Execution(workflow, again=again, listener=listener, **runtime)
    with contextlib.ExitStack() as stack:
        if journal is not None:  # a refused workflow leaves no file
            execution.recorder.journal = stack.enter_context(open_journal(Path(journal), workflow, resume))
        report = execution.run()
    if report.listener_error is not None:
        said = f"the listener of workflow {workflow.name!r} failed, and got no more events; see Report.listener_error"
        warnings.warn(f"{said}: {brief(report.listener_error, repr)}", RuntimeWarning, stacklevel=3)
    return report
