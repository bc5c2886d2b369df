"""Reads a workflow file: TOML in, a `Workflow` out. docs/reference/workflow-file.md has every key.

The whole file is checked before a task runs. An unknown key is an error, with a suggestion. Every message begins with
the file and the task. Paths in a file are relative to the folder of the file.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from bursar.errors import BursarError, WorkflowError
from bursar.law.admission.authority import PRIORITY_MAX, Aging, Priority, Strict
from bursar.law.admission.resources import Hard, Soft
from bursar.law.admission.retry import FACTOR_MAX, TIMES_MAX, Retry
from bursar.workflow import schema
from bursar.workflow.model import Workflow
from bursar.workflow.references import NAME, NESTING_MAX, convert, parse
from bursar.workflow.step import Command

FILE_MAX: Final = 16 << 20  # bytes: enough for a hundred thousand tasks


def read(path: Path) -> Workflow:
    """Read a workflow file and check it. The modules of its functions are not imported."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_MAX + 1)
        if len(raw) > FILE_MAX:
            raise WorkflowError(
                f"the file is larger than {FILE_MAX:,} bytes; split the workflow, or build it in Python"
            )
        return parse_text(raw.decode(), path)
    except OSError as error:
        raise WorkflowError(f"{path}: the workflow cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise WorkflowError(f"{path}: the file is not UTF-8 text: {error}; save it as UTF-8") from error
    except WorkflowError as error:
        raise WorkflowError(f"{path}: {error}") from error.__cause__


def parse_text(text: str, path: Path) -> Workflow:
    """The workflow that `text` describes, as if `text` were the content of the file `path`."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise WorkflowError(f"this is not TOML: {error}") from error
    except RecursionError:
        where = f"line {_deepest_line(text)}"
        raise WorkflowError(f"{where}: values are nested too deeply; {NESTING_MAX} levels are possible") from None
    except ValueError as error:  # Python converts no integer that is so long
        long = re.search(r"[0-9_]{1000,}", text)
        line = text.count("\n", 0, long.start() if long else 0) + 1
        raise WorkflowError(f"line {line}: a number has too many digits: {error}") from error
    found = schema.table(raw, "the file", TOP)
    authority = found.get("authority", {})
    workflow = Workflow(found.get("name", path.stem), **authority)
    workflow.file = path.resolve()
    defaults = schema.table(found.get("defaults", {}), "[defaults]", {key: TASK[key] for key in DEFAULTS})
    for name, body in schema.mapping(found.get("task", {}), "[task]").items():
        where = f"[task.{name}]"
        keys = schema.table(body, where, TASK)
        _add(workflow, name, _with_defaults(defaults, keys))
    _refuse_references_in_shell(workflow)
    workflow.check()
    return workflow


def _deepest_line(text: str) -> int:
    """The line in which most brackets are open. Brackets in strings count too: they can only mislead a person."""
    depth = deepest = 0
    found = 1
    for number, line in enumerate(text.split("\n"), 1):
        for character in line:
            depth += (character in "[{") - (character in "]}")
            if depth > deepest:
                deepest, found = depth, number
    return found


def _with_defaults(defaults: dict[str, Any], keys: dict[str, Any]) -> dict[str, Any]:
    """The keys of a task, with the defaults for the keys that it does not have."""
    kept = defaults if "run" not in keys else {key: defaults[key] for key in defaults if key not in COMMAND_ONLY}
    env = {"env": {**kept["env"], **keys["env"]}} if "env" in kept and "env" in keys else {}
    return {**kept, **keys, **env}


def _add(workflow: Workflow, name: str, keys: dict[str, Any]) -> None:
    try:
        workflow.task(name, **keys)
    except (TypeError, ValueError) as error:
        raise WorkflowError(f"[task.{name}]: {error}") from error


def _refuse_references_in_shell(workflow: Workflow) -> None:
    """`${a}` in a line for the shell is a variable. If `a` is a task, and nothing sets a variable of that name, the
    author expects its result."""
    for step in workflow.steps.values():
        if not isinstance(step.work, Command) or not step.work.shell:
            continue
        line = str(step.work)
        for name, rest in re.findall(rf"(?<!\$)\$\{{({NAME})([.}}])", line):
            set_here = name in step.env or re.search(rf"(?<![\w$]){name}=|\b(?:for|read)\b[^;&|]*\b{name}\b", line)
            if name in workflow.steps and (rest == "." or not set_here):
                variable = re.sub(r"\W", "_", name).upper()
                raise WorkflowError(
                    f"[task.{step.name}], shell: ${{{name}}} is a variable of the shell, not the result of task "
                    f'{name!r}; for the result add env = {{ {variable} = "${{{name}}}" }} and write "${variable}"; '
                    f"for a variable of the shell write ${name}"
                )


# ---- the checks


def _reference(value: Any, where: str) -> Any:
    """The value with `Ref` and `Template` for each string that contains `${…}`, at any depth."""

    try:
        return convert(value, lambda leaf: parse(leaf) if isinstance(leaf, str) else leaf)
    except ValueError as error:
        raise WorkflowError(f"{where}: {error}") from None


def _args(value: Any, where: str) -> Any:
    if not isinstance(value, list | dict):
        raise schema.wrong(where, "a list, or a table of keywords", value)
    return _reference(value, where)


def _text_reference(value: Any, where: str) -> Any:
    return _reference(value if value == "" else schema.text(value, where), where)


def _env(value: Any, where: str) -> Any:
    if not isinstance(value, str):
        raise schema.wrong(where, "a string (environment variables are text)", value)
    return _reference(value, where)


def _priority(value: Any, where: str) -> int:
    if isinstance(value, str):
        return Priority[schema.one_of("high", "normal", "low")(value, where).upper()]
    return schema.whole(-PRIORITY_MAX, PRIORITY_MAX)(value, where)


def _retry(value: Any, where: str) -> Retry:
    if isinstance(value, dict):
        keys = {"times": schema.whole(1, TIMES_MAX), "backoff": schema.seconds, "factor": schema.number(1, FACTOR_MAX)}
        value = schema.table(value, where, keys)
        if "times" not in value:
            raise WorkflowError(f"{where}: the key times is missing; it says how often to try again")
        return Retry(**value)
    return Retry(schema.whole(0, TIMES_MAX)(value, where))


def _amount(value: Any, where: str) -> int | str:
    if isinstance(value, str):
        return schema.text(value, where)
    return schema.whole(0)(value, where)


def _resource(value: Any, where: str) -> Any:
    """A limit: a number or a size, or a table with one of them, `{ hard = … }` or `{ soft = … }`."""
    if not isinstance(value, dict):
        return _amount(value, where)
    found = schema.table(value, where, {"hard": _amount, "soft": _amount})
    if len(found) != 1:
        raise WorkflowError(f"{where}: must have one key, hard or soft")
    kind, amount = found.popitem()
    try:
        return Hard(amount) if kind == "hard" else Soft(amount)
    except (BursarError, TypeError, ValueError) as error:
        raise WorkflowError(f"{where}: {error}") from error


def _order(value: Any, where: str) -> Any:
    """A word, or a table with the two numbers of aging."""
    if isinstance(value, dict):
        found = schema.table(value, where, {"interval": schema.seconds, "boost": schema.whole(1)})
        try:
            return Aging(**found)
        except (BursarError, TypeError, ValueError) as error:
            raise WorkflowError(f"{where}: {error}") from error
    return Strict() if schema.one_of("strict", "aging")(value, where) == "strict" else Aging()


def _authority(value: Any, where: str) -> dict[str, Any]:
    return schema.table(value, "[authority]", AUTHORITY)


def _as_is(value: Any, where: str) -> Any:
    """A value that `parse_text` checks later."""
    return value


TOP: Final[dict[str, schema.Check]] = {
    "name": schema.text,
    "authority": _authority,
    "defaults": _as_is,
    "task": _as_is,
}

AUTHORITY: Final[dict[str, schema.Check]] = {
    "order": _order,
    "max_concurrent": schema.whole(1),
    "max_queue": schema.whole(0),
    "max_wait": schema.seconds,
    "reserve_after": schema.seconds,
    "resources": schema.table_of(_resource),
}

TASK: Final[dict[str, schema.Check]] = {
    "run": schema.text,
    "command": schema.list_of(_text_reference, "strings"),
    "shell": schema.text,
    "args": _args,
    "after": schema.list_of(schema.text, "task names"),
    "needs": schema.table_of(_amount),
    "priority": _priority,
    "retry": _retry,
    "timeout": schema.seconds,
    "env": schema.table_of(_env),
    "cwd": schema.text,
    "output": schema.one_of("stream", "capture", "discard"),
    "grace": schema.seconds,
}

COMMAND_ONLY: Final = frozenset({"env", "cwd", "output", "grace"})
DEFAULTS: Final = frozenset({"needs", "priority", "retry", "timeout"}) | COMMAND_ONLY
