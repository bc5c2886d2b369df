"""Running a workflow: one nursery, one gate, one task of Bursar's for each step, and a journal that hears of
everything.

Every step is a coroutine task, spawned at the gate with its needs, its priority and the handles it depends on; the
gate decides when it may start, cancels what depends on a failure, and retries. Once let in, it writes `started`, does
its work (awaits a coroutine function, hands a plain function to a thread, runs a command), and writes how that ended.
So the journal is written by whoever knows, in the one thread of the run, before anybody else hears of it.

    plain function      on a thread; cancelled by its `Checkpoint`, if it has one, else it is waited for
    coroutine function  in the run itself; cancelled at its next await
    command             in a process group; SIGTERM, then SIGKILL after its grace

WORKFLOW-1  a step is told to the journal before the listener, and before anything that depends on it may start
WORKFLOW-2  when the nursery is over, every step is `ok`, `failed`, `cancelled` or `dropped`; unless one could not be
    spawned: then none is run, and that is raised
WORKFLOW-3  a journal that cannot be written stops the run: nothing runs that is not on record

Rejected: retries and dependencies of our own on top of the gate's. There would be two accounts of why a task waits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

from bursar.errors import BursarError, Cancelled, JournalError, WorkflowError
from bursar.io import process
from bursar.io.signals import wait_signal
from bursar.law.state import OutcomeKind
from bursar.ops.clock import now as clock
from bursar.ops.clock import sleep
from bursar.ops.nursery import Nursery, nursery
from bursar.ops.scope import timeout
from bursar.ops.task import Task, current_task
from bursar.runtime import Cleanup, Runtime
from bursar.text import brief, counted
from bursar.threads.job import on_thread
from bursar.workflow.events import Event, Listener, StepRun
from bursar.workflow.graph import in_order
from bursar.workflow.journal import REASONS_S, Journal, Waited, open_journal
from bursar.workflow.model import Command, Step, Workflow, is_async
from bursar.workflow.orphan_processes import VARIABLE, end_leftovers
from bursar.workflow.plan import Plan
from bursar.workflow.references import as_text, fill, keep
from bursar.workflow.summary import Report, TaskReport

TICK_S: Final = 0.1  # between two looks at who waits, while somebody watches
LOOK_SHARE: Final = 0.1  # of the time that looking may take, however many steps there are
EXPLAIN_STEPS: Final = 100_000  # asking one waiting task for its reason looks at all: this bounds the two together
CLEANUP_S: Final = 10.0  # for a cancelled step, beyond the grace of its command
STOPPING: Final = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
CLEANUP_OPS: Final = 1_000_000  # a command that says much while it ends is read to the end


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
        self.journal = journal
        self.stopped = ""
        self.listener_error: Exception | None = None  # what made the listener go away
        self._calls = workflow.load()
        self._listener = listener
        self._broken: JournalError | None = None
        self._refused: WorkflowError | None = None  # why not even the first step was run
        self.steps = {name: StepRun(step) for name, step in workflow.steps.items()}
        self.results: dict[str, Any] = {}
        self._key = ""
        self._noted: dict[str, str] = {}  # the reasons that are in the journal
        self._again = list(again)
        self._asked = 0
        self._began = time.monotonic()
        self._over: float | None = None
        grace = max((step.grace for step in workflow.steps.values()), default=0.0)
        runtime.setdefault("cleanup", Cleanup(CLEANUP_OPS, grace + CLEANUP_S))
        self.runtime = Runtime(**runtime)
        if self.runtime.pump.host.virtual:
            self._refuse_commands()

    def _refuse_commands(self) -> None:
        """On a virtual clock time stands still while a process runs: its timeout, and its grace, would never come."""
        for step in self.workflow.steps.values():
            if isinstance(step.work, Command):
                raise WorkflowError(
                    f"workflow {self.workflow.name!r} cannot run on a virtual clock: task {step.name!r} is a command, "
                    "whose time is the machine's; run it without clock='virtual', or with a function in its place"
                )

    # ---- the run

    def run(self) -> Report:
        """All of it. Ctrl-C drains it and is raised afterwards; `report` says how far it came."""
        self._began = time.monotonic()
        if self.journal is not None:
            self._take_up(self.journal.begin(self.workflow, self._again))
        waiting = sum(run.state == "pending" for run in self.steps.values())
        self._publish("run", detail=f"{waiting} of {len(self.steps)} tasks to run")
        try:
            self.runtime.run(self._main)
        except KeyboardInterrupt:
            self.stopped = "SIGINT"
            raise
        finally:
            self._end()
        if self._broken is not None:
            raise self._broken
        if self._refused is not None:
            raise self._refused
        return self.report()

    def _take_up(self, plan: Plan) -> None:
        """Go on where the journal ends."""
        assert self.journal is not None, "there is a plan"
        self._key = self.journal.key
        for name, value in plan.results.items():
            run = self.steps[name]
            run.state, run.earlier, run.value, run.seconds = "ok", True, value, plan.seconds[name]
            self.results[name] = value
        for task, attempt in plan.lost:
            self._publish("lost", task, attempt, "was running when the run was killed")
        for task, why in plan.again.items():
            self._publish("again", task, detail=why)
        if plan.lost:
            ended = end_leftovers(self._key)
            if ended:
                self._publish("leftovers", detail=f"ended {ended} processes that the killed run had left behind")

    async def _main(self) -> None:
        async with nursery(name="watch") as watch:
            with contextlib.suppress(ExceptionGroup):  # each failure is on record already
                async with nursery(
                    name=self.workflow.name, admission=self.workflow.authority(), cancel_on_failure=False
                ) as steps:
                    for number in drained():
                        watch.spawn(self._drain_on, number, steps, name=number.name)
                    if self._listener is not None or self.journal is not None:
                        watch.spawn(self._poll_listeners, name="look")
                    self._spawn_all(steps)
            watch.cancel("the workflow is over")

    def _spawn_all(self, into: Nursery) -> None:
        self._nursery = into
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
            except BursarError as error:  # none of them has begun
                on_event = f"task {name!r} of workflow {self.workflow.name!r} was refused, so nothing of it was run"
                self._refused = WorkflowError(f"{on_event}: {error}")
                self._refused.__cause__ = error
                into.cancel("the workflow was refused")
                return

    def _to_spawn(self) -> list[StepRun]:
        """Each after those that it follows, and of those that could start at once the most urgent first: while there is
        room a gate lets in whoever asks, and does not know who else is about to."""

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
        """WORKFLOW-2, and the last words of the session."""
        self._over = self.now()
        self._record_unstarted()
        with contextlib.suppress(JournalError):
            if self.journal is not None and self._broken is None:
                self.journal.end(self.stopped or ("ok" if self.report().ok else "failed"))

    # ---- one step

    async def _perform(self, run: StepRun) -> Any:
        name = run.step.name
        task = await current_task()
        run.history = _history(task, await clock())
        run.attempt = self._write(lambda journal: journal.started(name, run.history)) or run.attempt + 1
        run.task, run.state, run.began, run.error = task, "running", self.now(), ""
        before = [self.steps[other] for other in run.step.after]
        ready = max((other.began + other.seconds for other in before if not other.earlier), default=0.0)
        run.waited = run.began - ready
        self._publish("started", name, run.attempt)
        limit = timeout(run.step.timeout)
        try:
            async with limit:
                value = await self._work(run.step)
        except Cancelled as cancelled:
            self._ended(run, "cancelled", str(cancelled.reason))
            raise
        except Exception as error:
            late = isinstance(error, TimeoutError) and limit.expired
            said = f"was not done within {run.step.timeout:g} s" if late else _said(error)
            self._failed(run, task.attempt, error, said)
            if late:
                raise TimeoutError(said) from error  # those who follow say because of what they are cancelled
            raise
        except SystemExit as error:  # a step that calls sys.exit fails like any other
            failure = WorkflowError(f"called sys.exit({brief(error.code, repr)})")
            self._failed(run, task.attempt, failure, str(failure))
            raise failure from error
        kept = keep(value)
        run.seconds = self.now() - run.began
        self._write(lambda journal: journal.succeeded(name, kept))  # WORKFLOW-1
        run.state, run.value, self.results[name] = "ok", kept.value, kept.value
        self._publish("ok", name, run.attempt, seconds=run.seconds, value=kept.value)
        if self.journal is not None and kept.json is None:
            self._publish("unkept", name, detail=f"its result is not in the journal: {kept.why_not}")
        return kept.value

    async def _work(self, step: Step) -> Any:
        if isinstance(step.work, Command):
            return await self._command(step, step.work)
        call = self._calls[step.name]
        args, kwargs = fill(step.args, self.results), fill(step.kwargs, self.results)
        if is_async(call):
            return await call(*args, **kwargs)
        return await on_thread(partial(call, **kwargs) if kwargs else call, args)

    async def _command(self, step: Step, command: Command) -> str | None:
        argv = [as_text(part) for part in fill(command.argv, self.results)]
        env = {key: as_text(value) for key, value in fill(dict(step.env), self.results).items()}
        ours = {VARIABLE: self._key, "BURSAR_TASK": step.name, "BURSAR_ATTEMPT": str(self.steps[step.name].attempt)}

        def line(stream: str, text: str) -> None:
            self._publish("output", step.name, detail=text, value=stream)

        return await process.execute(
            argv,
            shell=command.shell,
            env={**os.environ, **env, **ours},
            cwd=self._folder(step),
            capture=step.output == "capture",
            grace=step.grace,
            on_line=None if step.output == "discard" else line,
        )

    def _folder(self, step: Step) -> str | None:
        base = None if self.workflow.file is None else self.workflow.file.parent
        if step.cwd is None:
            return None if base is None else str(base)
        return step.cwd if base is None else str(base / step.cwd)

    def _failed(self, run: StepRun, attempt: int, error: Exception, said: str) -> None:
        self._ended(run, "failed", said)
        retry = run.step.retry
        if retry is not None and retry._applies(attempt, error):
            left = counted(retry.times - attempt + 1, "more time")
            self._publish("retry", run.step.name, run.attempt, f"{left} at most")

    def _ended(self, run: StepRun, state: str, error: str) -> None:
        """A step ended badly, whether or not it ever began."""
        name = run.step.name
        if run.state == "running":
            run.seconds = self.now() - run.began
        if self._broken is None:
            with contextlib.suppress(JournalError):  # the run stops anyway, and for that reason
                self._write(lambda journal: getattr(journal, state)(name, error))
        run.state, run.error = state, error
        self._publish(state, name, run.attempt, error, run.seconds)

    # ---- the others

    async def _poll_listeners(self) -> None:
        noted = -REASONS_S
        while True:
            began = self.now()
            self._record_unstarted()
            if self.journal is not None and began - noted >= REASONS_S:
                noted = began
                self._note_reasons()
            self._call_listener(lambda listener: listener.tick(self))
            pace = TICK_S if self._listener is not None else REASONS_S
            await sleep(max(pace, (self.now() - began) / LOOK_SHARE))

    def _record_unstarted(self) -> None:
        """Steps that ended without having begun: dropped, or cancelled because of another."""
        for run in self.steps.values():
            outcome = run.task.outcome if run.task is not None and run.state == "pending" else None
            if outcome is not None:
                if outcome.error is not None and self._broken is None:
                    raise outcome.error  # of our own: what a step fails with is on record, and it is not pending
                state = "dropped" if outcome.kind is OutcomeKind.DROPPED else "cancelled"
                self._ended(run, state, str(outcome.reason or outcome.error))

    def _note_reasons(self) -> None:
        """JOURNAL-5. Of very many who wait only some are asked; the next time the next ones."""
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
            self._write(lambda journal: journal.waiting(changed))

    # ---- books

    def _write(self, transition: Callable[[Journal], Any]) -> Any:
        """WORKFLOW-3."""
        if self.journal is None:
            return None
        if self._broken is not None:
            raise self._broken
        try:
            return transition(self.journal)
        except JournalError as error:
            self._broken = error
            self._nursery.cancel("the journal cannot be written")
            raise

    def _publish(
        self, kind: str, task: str = "", attempt: int = 0, detail: str = "", seconds: float = 0.0, value: Any = None
    ) -> None:
        event = Event(self.now(), kind, task, attempt, detail, seconds, value)
        self._call_listener(lambda listener: listener.on_event(event))

    def _call_listener(self, call: Callable[[Listener], None]) -> None:
        """Who watches does not get into the way of the work: what fails there, such as a closed pipe, is the end of the
        watching and of nothing else."""
        if self._listener is not None:
            try:
                call(self._listener)
            except Exception as error:
                self._listener = None
                self.listener_error = error

    def now(self) -> float:
        """Seconds since the session began."""
        return time.monotonic() - self._began

    def report(self) -> Report:
        """How far it has come."""
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
            )
            for name, run in self.steps.items()
        }
        path = None if self.journal is None else self.journal.path
        seconds = self.now() if self._over is None else self._over
        return Report(self.workflow.name, tasks, self.workflow.graph, seconds, self.stopped, path)


def drained() -> list[signal.Signals]:
    """The signals that end a run in good order, besides Ctrl-C, which the runtime hears itself. Not those that somebody
    has decided about: a run under nohup goes on without its terminal."""
    if threading.current_thread() is not threading.main_thread():
        return []  # only that one hears of signals
    return [number for number in STOPPING if signal.getsignal(number) is signal.SIG_DFL]


def _history(task: Task[Any], until: float) -> list[Waited]:
    """What it has waited for, and how long each."""
    past = list(task.history)
    ends = [*(one.since for one in past[1:]), until]
    return [Waited(one.reason, max(0.0, end - one.since)) for one, end in zip(past, ends, strict=False)]


def _said(error: Exception) -> str:
    text = brief(error)
    return text if isinstance(error, WorkflowError) else f"{type(error).__name__}: {text}"


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
        raise WorkflowError("resume and again need a journal to go on with: run(journal='FILE', resume=True)")
    execution = Execution(workflow, again=again, listener=listener, **runtime)
    if journal is None:
        return execution.run()
    with open_journal(Path(journal), workflow, resume) as book:  # what is refused before this leaves none behind
        execution.journal = book
        return execution.run()
