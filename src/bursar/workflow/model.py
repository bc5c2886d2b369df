"""`Workflow`: the definition of a graph of named steps. Nothing here runs a step.

    w = Workflow("thumbnails", resources={"cpu": 4, "ram": "2GiB"})
    images = w.task("images", "studio:draw", args=[12], needs={"cpu": 1, "ram": "512MiB"})
    w.task("sheet", command=["montage", images, "sheet.png"], timeout=60)
    w.run()

A step is a Python function (the object or `"module:function"`), a command (a list, without a shell) or a line for the
shell. If a step is an argument of another step, the other step depends on it and gets its result. A workflow file
becomes calls of `task`, so both ways have the same checks.

STEP-1  a name occurs once; a step depends only on steps of its workflow, and never on itself, directly or indirectly
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from bursar.errors import BursarError, WorkflowError
from bursar.law.admission.authority import PRIORITY_MAX, Authority, Priority
from bursar.law.admission.resources import Resources
from bursar.law.admission.retry import Retry
from bursar.law.timers import SECONDS_MAX
from bursar.text import brief
from bursar.workflow.graph import cycle
from bursar.workflow.references import NAME, Ref, Template, convert, references
from bursar.workflow.schema import meant
from bursar.workflow.step import GRACE_S, Command, Function, Output, Step, is_async

if TYPE_CHECKING:
    from bursar.workflow.events import Listener
    from bursar.workflow.summary import Report

NAME_MAX: Final = 80  # characters of a name: it is shown in tables and in environment variables


class Workflow:
    """A graph of tasks, and the rules of the gate that admits them. The keywords are those of `Authority`.

    ```python
    from bursar.workflow import Workflow

    w = Workflow("sums")
    one = w.task("one", sum, args=[[1, 2, 3]])
    w.task("two", str, args=[one])
    print(w.run().results)
    ```

    ```text
    {'one': 6, 'two': '6'}
    ```
    """

    def __init__(
        self,
        name: str,
        *,
        order: Any = None,
        max_concurrent: int | None = None,
        max_queue: int | None = None,
        max_wait: float | None = None,
        resources: Mapping[str, Any] | None = None,
        reserve_after: float | None = None,
    ) -> None:
        self.name = name
        self.steps: dict[str, Step] = {}
        self.file: Path | None = None  # the file it was read from
        self._authority: dict[str, Any] = {
            "order": order,
            "max_concurrent": max_concurrent,
            "max_queue": max_queue,
            "max_wait": max_wait,
            "resources": resources,
            "reserve_after": reserve_after,
        }

    def authority(self) -> Authority:
        """A new gate with the rules of this workflow."""
        given = {key: value for key, value in self._authority.items() if value is not None}
        given["resources"] = {"cpu": os.cpu_count() or 1, **given.get("resources", {})}
        try:
            return Authority(**given)
        except (BursarError, TypeError, ValueError) as error:
            raise WorkflowError(f"workflow {self.name!r}: {error}") from error

    def task(
        self,
        name: str,
        run: Callable[..., Any] | str | None = None,
        *,
        args: Sequence[Any] | Mapping[str, Any] = (),
        command: Sequence[Any] | None = None,
        shell: str | None = None,
        after: Iterable[Step | str] = (),
        needs: Mapping[str, int | str] | None = None,
        priority: int = Priority.NORMAL,
        retry: Retry | int | None = None,
        timeout: float | None = None,
        env: Mapping[str, Any] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        output: Output = "stream",
        grace: float = GRACE_S,
    ) -> Step:
        """Add a task and return it as a `Step`. Raises `WorkflowError`, and adds nothing, if the keywords do not fit
        together.

        `run` is a function or `"module:function"`; `command` is a program with its arguments; `shell` is a line for a
        shell. One of the three must be given. `args` are the arguments: a list, or a table of keywords. A `Step` in
        `args`, `command` or `env` stands for its result.
        """
        self._check_name(name)
        work = self._work(name, run, command, shell)
        if isinstance(work, Command):
            self._refuse(name, "a command", args="write the arguments into command or shell" if args else None)
        else:
            given = {"env": env, "cwd": cwd, "output": output != "stream" or None, "grace": grace != GRACE_S or None}
            said = next((key for key, value in given.items() if value is not None), None)
            self._refuse(name, "a Python function", **({said: "only a command takes it"} if said else {}))
        values = self._values(name, args)
        kwargs = cast("dict[str, Any]", values) if isinstance(values, dict) else {}
        words = self._values(name, dict(env or {}))
        uses = frozenset(references([values, words, work.argv if isinstance(work, Command) else ()]))
        named = self._named(name, after)
        step = Step(
            name,
            work,
            args=() if isinstance(values, dict) else tuple(values),
            kwargs=kwargs,
            after=(*named, *sorted(uses - named.keys())),
            uses=uses,
            needs=None if needs is None else dict(needs),
            priority=self._checked_priority(name, priority),
            retry=self._checked_retry(name, retry),
            timeout=self._checked_seconds(name, "timeout", timeout),
            env=words,
            cwd=None if cwd is None else os.fspath(cwd),
            output=output,
            grace=self._checked_seconds(name, "grace", grace) or 0.0,
        )
        self.steps[name] = step
        return step

    # ---- checks of one task

    def _check_name(self, name: str) -> None:
        if not isinstance(name, str) or not re.fullmatch(NAME, name) or len(name) > NAME_MAX:  # pyright: ignore
            raise WorkflowError(
                f"task {brief(name, repr)}: a name consists of letters, digits, _ and -, does not begin with -, and "
                f"has at most {NAME_MAX} characters"
            )
        if name in self.steps:  # STEP-1
            raise WorkflowError(
                f"task {name!r} is defined twice in workflow {self.name!r}; give one of them another name"
            )

    def _work(
        self, name: str, run: Callable[..., Any] | str | None, command: Sequence[Any] | None, shell: str | None
    ) -> Function | Command:
        if (run is not None) + (command is not None) + (shell is not None) != 1:
            raise WorkflowError(
                f"task {name!r} must have exactly one of run (a Python function), command (a list) and shell (a line)"
            )
        if shell is not None:
            return Command((shell,), shell=True)
        if command is not None:
            if isinstance(command, str) or not command:
                raise WorkflowError(f"task {name!r}: command must be a list of strings; for one line of text use shell")
            argv = tuple(self._values(name, list(command)))
            if not all(isinstance(part, str | Ref | Template) for part in argv):
                raise WorkflowError(f"task {name!r}: every part of a command must be a string or a task")
            return Command(argv)
        if isinstance(run, str):
            if not re.fullmatch(r"[\w.]+:[\w.]+", run):
                raise WorkflowError(
                    f"task {name!r}: run must be 'module:function', not {run!r}; for a command use shell"
                )
            return Function(run)
        if not callable(run):
            raise WorkflowError(f"task {name!r}: run must be a function or 'module:function', not {brief(run, repr)}")
        if inspect.iscoroutine(run):
            run.close()
        where = f"{getattr(run, '__module__', '?')}:{getattr(run, '__qualname__', type(run).__name__)}"
        return Function(where, run)

    def _named(self, name: str, after: Any) -> dict[str, None]:
        """The names in `after`."""
        if isinstance(after, str | Step) or not isinstance(after, Iterable):
            raise WorkflowError(f"task {name!r}: after must be a list of tasks or names, not {brief(after, repr)}")
        named: dict[str, None] = {}
        for other in cast("Iterable[Any]", after):
            known = other.name if isinstance(other, Step) else other
            if not isinstance(known, str):
                raise WorkflowError(
                    f"task {name!r}: after has {brief(known, repr)}, which is neither a task nor a name"
                )
            if known in named:
                raise WorkflowError(f"task {name!r}: after has task {known!r} twice; name it once")
            named[known] = None
        return named

    def _refuse(self, name: str, kind: str, **why: str | None) -> None:
        for key, remedy in why.items():
            if remedy is not None:
                raise WorkflowError(f"task {name!r} is {kind} and takes no {key}; {remedy}")

    def _checked_priority(self, name: str, priority: Any) -> int:
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise WorkflowError(f"task {name!r}: its priority must be a Priority or a whole number, not {priority!r}")
        if abs(priority) > PRIORITY_MAX:
            raise WorkflowError(f"task {name!r}: its priority must be between -{PRIORITY_MAX:,} and {PRIORITY_MAX:,}")
        return priority

    def _checked_retry(self, name: str, retry: Any) -> Retry | None:
        if retry is None or isinstance(retry, Retry):
            return retry
        try:
            return Retry(retry)
        except (TypeError, ValueError) as error:
            raise WorkflowError(f"task {name!r}: {error}") from None

    def _checked_seconds(self, name: str, what: str, value: Any) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= SECONDS_MAX:
            raise WorkflowError(
                f"task {name!r}: {what} must be a number of seconds up to {SECONDS_MAX:g}, not {brief(value, repr)}"
            )
        return float(value)

    def _values(self, name: str, values: Any) -> Any:
        """The values, with a `Ref` for each `Step`."""
        try:
            return convert(values, lambda leaf: Ref(leaf.name) if isinstance(leaf, Step) else leaf)
        except ValueError as error:
            raise WorkflowError(f"task {name!r}: {error}") from None

    # ---- checks of the whole

    @property
    def graph(self) -> dict[str, tuple[str, ...]]:
        """The dependencies of each task, by name."""
        return {name: step.after for name, step in self.steps.items()}

    def check(self) -> None:
        """Raise `WorkflowError` for a task that can never run: a missing dependency, a circle, too large a need."""
        if not self.steps:
            raise WorkflowError(f"workflow {self.name!r} has no tasks; add one: [task.NAME] in a file, or w.task(…)")
        for step in self.steps.values():
            for name in step.after:
                if name not in self.steps:
                    hint = meant(name, self.steps) or "; add that task, or remove the dependency"
                    raise WorkflowError(f"task {step.name!r} depends on {name!r}, which is not in the workflow{hint}")
        around = cycle(self.graph)
        if around:
            raise WorkflowError(
                f"tasks wait for each other in a circle: {' → '.join(around)} (each depends on the next); "
                "remove one of these dependencies"
            )
        authority = self.authority()
        resources = Resources(authority.max_concurrent, authority._limits)
        for step in self.steps.values():
            try:
                resources.demand(step.needs or {}, step.name)
            except (BursarError, TypeError, ValueError) as error:
                raise WorkflowError(str(error)) from error

    def needs(self, step: Step, call: Callable[..., Any] | None) -> Mapping[str, int | str]:
        """What a step takes while it runs. The default is one CPU, and nothing for a coroutine function."""
        if step.needs is not None:
            return step.needs
        return {} if call is not None and is_async(call) else {"cpu": 1}

    def load(self) -> dict[str, Callable[..., Any]]:
        """Do what `check` does, and import every function, so that a missing function is found before a task runs."""
        self.check()
        if self.file is not None and str(self.file.parent) not in sys.path:
            sys.path.insert(0, str(self.file.parent))
        found: dict[str, Callable[..., Any]] = {}
        for step in self.steps.values():
            if isinstance(step.work, Function):
                found[step.name] = step.work.load(step.name)
        return found

    def run(
        self,
        *,
        journal: str | os.PathLike[str] | None = None,
        resume: bool = False,
        again: Iterable[str] = (),
        listener: Listener | None = None,
        **runtime: Any,
    ) -> Report:
        """Run all tasks and report how each ended. A failed task raises nothing.

        `journal` is the path of a file that gets every change; `resume=True` continues the run in that file. The tasks
        named in `again`, and all that depend on them, run again. `listener.on_event(event)` is called for every event,
        and `listener.tick(run)` a few times a second. The other keywords are those of `bursar.Runtime`. A workflow with
        commands cannot run on the virtual clock. Raises `WorkflowError`, `JournalError`, and `KeyboardInterrupt` after
        Ctrl-C, when everything has been stopped.
        """
        from bursar.workflow.execute import run_workflow

        return run_workflow(self, journal=journal, resume=resume, again=again, listener=listener, **runtime)

    def __repr__(self) -> str:
        return f"<Workflow {self.name!r}, {len(self.steps)} tasks>"
