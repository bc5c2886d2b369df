"""`Step`: the definition of one task of a workflow, and what it runs: a `Function` or a `Command`.

STEP-2  `definition` has all that decides a step's result, and nothing that only decides when the step runs (needs,
    priority, retry, timeout): only a change of `definition` makes a result out of date
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from bursar.errors import WorkflowError
from bursar.law.admission.authority import Priority
from bursar.law.admission.retry import Retry
from bursar.text import brief
from bursar.workflow.references import Ref, Template
from bursar.workflow.schema import meant

GRACE_S: Final = 5.0  # between SIGTERM and SIGKILL, by default; half of what container engines give

Output = Literal["stream", "capture", "discard"]


@dataclass(frozen=True, slots=True)
class Function:
    """A Python callable: the object, or `"module:function"`."""

    spec: str
    call: Callable[..., Any] | None = None

    def load(self, step: str) -> Callable[..., Any]:
        """The callable. This may import its module, which runs the code of the module."""
        if self.call is not None:
            return self.call
        module, _, path = self.spec.partition(":")
        try:
            found: Any = importlib.import_module(module)
        except Exception as error:
            raise WorkflowError(
                f"task {step!r}: {self.spec!r}: module {module!r} cannot be imported: {type(error).__name__}: "
                f"{brief(error)}; it must be installed, or in the folder of the workflow file"
            ) from error
        for part in path.split("."):
            try:
                found = getattr(found, part)
            except AttributeError:
                hint = meant(part, dir(found))
                raise WorkflowError(f"task {step!r}: {self.spec!r}: there is no {part!r} in {module!r}{hint}") from None
        if not callable(found):
            raise WorkflowError(
                f"task {step!r}: {self.spec!r} is a {type(found).__name__}, not a function; name a function"
            )
        return found


@dataclass(frozen=True, slots=True)
class Command:
    """A program and its arguments; with `shell`, one line for /bin/sh."""

    argv: tuple[str | Ref | Template, ...]
    shell: bool = False

    def __str__(self) -> str:
        return " ".join(str(part) for part in self.argv)


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """The definition of one task of a workflow. Made by `Workflow.task`.

    Attributes:
        name: The name of the task.
        work: The function or the command that it runs.
        args: The arguments of a function.
        kwargs: Its keyword arguments.
        after: Every dependency: from `after`, and from references.
        uses: The dependencies whose results are used.
        needs: What it needs of the resources.
        priority: How soon it may start.
        retry: When and how often to try again.
        timeout: Seconds, or None.
        env: Environment variables of a command.
        cwd: The working directory of a command.
        output: What becomes of the output of a command.
        grace: Seconds that a command has to end after it was asked to.
    """

    name: str
    work: Function | Command
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    after: tuple[str, ...] = ()
    uses: frozenset[str] = frozenset()
    needs: Mapping[str, int | str] | None = None
    priority: int = Priority.NORMAL
    retry: Retry | None = None
    timeout: float | None = None
    env: Mapping[str, str | Ref | Template] = field(default_factory=dict[str, "str | Ref | Template"])
    cwd: str | None = None
    output: Output = "stream"
    grace: float = GRACE_S

    @property
    def title(self) -> str:
        """What the task runs, in a few words."""
        return self.work.spec if isinstance(self.work, Function) else str(self.work)

    def definition(self) -> str:
        """All that decides the result, as JSON (STEP-2)."""
        work = self.work
        parts: dict[str, Any] = {"run": work.spec} if isinstance(work, Function) else {"argv": work.argv}
        if isinstance(work, Command):
            parts |= {"shell": work.shell, "env": self.env, "cwd": self.cwd, "output": self.output}
        else:
            parts |= {"args": self.args, "kwargs": self.kwargs}
        try:
            return json.dumps(parts | {"after": sorted(self.after)}, sort_keys=True, default=self._written)
        except (TypeError, ValueError) as error:
            raise WorkflowError(
                f"task {self.name!r}: its arguments cannot be written into a journal ({brief(error)}); "
                "pass values that JSON can hold, or run without a journal"
            ) from error

    @staticmethod
    def _written(value: Any) -> Any:
        if isinstance(value, Ref | Template):
            return {"$": str(value)}
        raise TypeError(f"a {type(value).__name__} is not JSON")

    def digest(self) -> str:
        """A hash of the definition. If it has changed, the task runs again."""
        return hashlib.sha256(self.definition().encode()).hexdigest()


def is_async(call: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine."""
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004
