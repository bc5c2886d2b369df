"""The work of one step: a call of its function or a run of its command, with results in place of references; and its
failure in words.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from bursar.errors import WorkflowError
from bursar.io import process
from bursar.text import brief, storable, type_name
from bursar.threads.job import on_thread
from bursar.tracebacks import hide_own_frames, is_own, traceback_of
from bursar.workflow.references import as_text, fill
from bursar.workflow.step import Command, Step, is_async

TRACEBACK_MAX: Final = 16_000  # characters that are kept: the first and the last frames say most


async def call_function(step: Step, call: Callable[..., Any], results: Mapping[str, Any]) -> Any:
    """Call the function of a step: a coroutine function in the run itself, any other function on a thread."""
    args, kwargs = fill(step.args, results), fill(step.kwargs, results)
    if is_async(call):
        return await call(*args, **kwargs)
    return await on_thread(partial(call, **kwargs) if kwargs else call, args)


async def run_command(
    step: Step,
    command: Command,
    results: Mapping[str, Any],
    folder: Path | None,
    ours: Mapping[str, str],
    on_line: process.OnLine,
) -> str | None:
    """Run the command of a step. `folder` is the folder of the workflow file; `ours` are variables of the run, which
    the environment of the command has too."""
    argv = [as_text(part) for part in fill(command.argv, results)]
    env = {key: as_text(value) for key, value in fill(dict(step.env), results).items()}
    return await process.execute(
        argv,
        shell=command.shell,
        env={**os.environ, **env, **ours},
        cwd=_working_folder(step, folder),
        capture=step.output == "capture",
        grace=step.grace,
        on_line=None if step.output == "discard" else on_line,
    )


def _working_folder(step: Step, folder: Path | None) -> str | None:
    if step.cwd is None:
        return None if folder is None else str(folder)
    return step.cwd if folder is None else str(folder / step.cwd)


def failure_of(error: BaseException) -> Exception:
    """The failure of a step that ended with any error. An error that is no `Exception` would end the whole run."""
    if isinstance(error, Exception):
        return error
    if isinstance(error, SystemExit):
        return WorkflowError(f"called sys.exit({brief(error.code, repr)})")
    return WorkflowError(f"raised {type_name(error)}: {brief(error)}".removesuffix(": "))


def described(error: Exception) -> str:
    """The error of a step for the journal and the report."""
    text = brief(error)
    return text if isinstance(error, WorkflowError) else f"{type_name(error)}: {text}"


def traceback_text(error: BaseException) -> str:
    """The traceback of a step's error, from the first frame of the step's function on. Empty if the function has no
    frame in it: a command, a function in C, an error that Bursar raises."""
    hide_own_frames(error)
    first = traceback_of(error)
    if first is None or is_own(first.tb_frame):
        return ""
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # from methods of the program's class
        text = "".join(traceback.format_tb(first))
    text = storable(text.rstrip("\n"))
    half = TRACEBACK_MAX // 2
    return text if len(text) <= TRACEBACK_MAX else f"{text[:half]}\n…\n{text[-half:]}"
