"""`bursar run FILE`: run the `async def main` of a Python file, or the workflow in a .toml file.

The command imports the Python file and does not run it as `__main__`. So a program may end in
`if __name__ == "__main__": bursar.run(main)`, and Python can start it too. The module is called `__bursar_main__`,
because the file's own name could hide another module.

If the command or the file has a fault, the command says so before the program runs, with exit code 2. If the program
fails, the command prints the traceback, with exit code 1, or 3 if the budget is spent. If a trace cannot be written
completely, the program still runs to its end; if it succeeds, the command then says so, with exit code 2.
"""

from __future__ import annotations

import inspect
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from os.path import isfile  # unlike `Path.is_file`, it returns False for a name that no file can have
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Annotated, Any, Literal, cast

import typer

from bursar import Budget, Runtime
from bursar.backend import kernel_in_use
from bursar.cli import EXIT_BUDGET, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_REFUSED, complain, refuse, same_file
from bursar.cli.workflow_options import PANEL, Again, AsJson, AsPlain
from bursar.errors import BudgetExceeded, BursarError
from bursar.trace.writer import digest_of, open_locked

MODULE_NAME = "__bursar_main__"
PROGRAMS = ("", ".py", ".pyw")  # endings of programs; a script may have none

Main = Callable[..., Coroutine[Any, Any, Any]]


def limit(what: str) -> Any:
    """The option for one component of the budget."""
    return typer.Option(min=0, help=what, rich_help_panel="Budget of the program (default: unlimited)")


def run(
    file: Annotated[
        Path,
        typer.Argument(
            help="A Python file with an `async def main`, or a .toml file with a workflow.", show_default=False
        ),
    ],
    args: Annotated[
        list[str] | None,
        typer.Argument(help="Strings passed to main. Write -- before a string that begins with a dash."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same schedule.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Logical workers.")] = 1,
    clock: Annotated[Literal["real", "virtual"], typer.Option(help="A virtual clock jumps over every wait.")] = "real",
    profile: Annotated[
        Literal["service", "cluster", "sovereign"],
        typer.Option(help="What the run grants by default; see bursar info."),
    ] = "service",
    steal: Annotated[
        Literal["random", "round_robin", "least_loaded"],
        typer.Option(help="How an idle worker chooses the worker to steal from."),
    ] = "random",
    ops: Annotated[int | None, limit("Operations.")] = None,
    memory: Annotated[int | None, limit("Bytes of memory.")] = None,
    spawns: Annotated[int | None, limit("Tasks spawned.")] = None,
    channel_ops: Annotated[int | None, limit("Channel operations.")] = None,
    syscalls: Annotated[int | None, limit("System calls.")] = None,
    fingerprint: Annotated[
        bool, typer.Option("--fingerprint", help="Print the fingerprint of the run to stderr.")
    ] = False,
    statistics: Annotated[
        bool, typer.Option("--statistics", help="Print the statistics of the run to stderr.")
    ] = False,
    record: Annotated[
        Path | None, typer.Option(help="Write a trace of the run to this file.", show_default=False)
    ] = None,
    meter_memory: Annotated[
        bool, typer.Option("--meter-memory", help="Charge each task's memory budget for what its code allocates.")
    ] = False,
    plain: AsPlain = False,
    as_json: AsJson = False,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="Write the journal to this file, not to the state folder.", show_default=False, rich_help_panel=PANEL
        ),
    ] = None,
    no_journal: Annotated[
        bool, typer.Option("--no-journal", help="Write no journal; the run cannot be resumed.", rich_help_panel=PANEL)
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue the newest unfinished run of this workflow, if there is one.",
            rich_help_panel=PANEL,
        ),
    ] = False,
    again: Again = None,
) -> None:
    """Run the `async def main` of FILE, or the workflow in FILE. SIGUSR1 prints the tree of its tasks."""
    arguments = args or []
    try:
        kernel_in_use()
    except BursarError as error:
        refuse(str(error))
    if file.suffix == ".toml":
        budget = (ops, memory, spawns, channel_ops, syscalls)
        program_only = {
            "arguments": bool(arguments),
            "--record": record is not None,
            "--clock": clock != "real",
            "a budget": any(limit is not None for limit in budget),
            "--meter-memory": meter_memory,
            "--fingerprint": fingerprint,
            "--statistics": statistics,
            "--profile": profile != "service",
            "--workers": workers != 1,
            "--steal": steal != "random",
        }
        refuse_options(file, "a workflow", program_only)
        from bursar.cli.workflow import run_workflow_file  # a program starts without the modules of workflows

        run_workflow_file(
            file,
            journal,
            no_journal=no_journal,
            resume=resume,
            again=again or [],
            plain=plain,
            as_json=as_json,
            seed=seed,
        )
    if file.suffix not in PROGRAMS:
        refuse(f"{file}: FILE must be a Python file (.py) with an 'async def main', or a workflow file (.toml)")
    workflow_only = {
        "--plain": plain,
        "--json": as_json,
        "--journal": journal is not None,
        "--no-journal": no_journal,
        "--resume": resume,
        "--again": bool(again),
    }
    refuse_options(file, "a program", workflow_only)
    if record is not None:
        require_writable(record, file)
    main = load_main(file, arguments)
    budget = Budget(ops=ops, memory=memory, spawns=spawns, channel_ops=channel_ops, syscalls=syscalls)
    try:
        runtime = Runtime(
            budget=None if budget == Budget() else budget,
            profile=profile,
            seed=seed,
            workers=workers,
            clock=clock,
            steal=steal,
            record=record,
            meter_memory=meter_memory,
            dump_signal=getattr(signal, "SIGUSR1", None),
        )
    except (BursarError, ValueError) as error:
        refuse(str(error))
    runtime.program = origin(file, arguments)
    try:
        code = execute(runtime, main, file, arguments) or check_recorded(runtime)
    finally:
        if statistics:
            print(runtime.statistics(), file=sys.stderr)
        if fingerprint:
            print(f"fingerprint {runtime.fingerprint}", file=sys.stderr)
    raise SystemExit(code)


def refuse_options(file: Path, kind: str, given: dict[str, bool]) -> None:
    """Refuse options that would have no effect on this kind of file."""
    for option, was_given in given.items():
        if was_given:
            refuse(f"{file} is {kind}, which takes no {option.removeprefix('a ')}; remove it")


def require_writable(record: Path, program: Path) -> None:
    """Refuse a trace that cannot be written, before the program's file is imported."""
    if same_file(record, program):
        refuse(f"--record {record}: the trace would overwrite the program; choose another file")
    try:
        if record.is_fifo():
            return  # its reader would take this attempt for the whole trace
        new = not record.exists()
        open_locked(record).close()
        if new:
            record.unlink()
    except OSError as error:
        refuse(f"--record {record}: the trace cannot be written: {error.strerror or error}; choose another file")


def origin(file: Path, arguments: list[str]) -> dict[str, Any]:
    """What a trace says about its program, for `bursar replay`."""
    return {"file": str(file.resolve()), "sha256": digest_of(file), "function": "main", "args": arguments}


def check_recorded(runtime: Runtime) -> int:
    """The exit code of a run that succeeded: 2, with a message, if its trace is not complete."""
    failed = [report.detail for report in runtime.reports if report.kind == "trace_failed"]
    for detail in failed:
        complain(detail)
    return EXIT_REFUSED if failed else 0


def load_main(file: Path, arguments: list[str]) -> Main:
    """Import the file and return its `async def main`. Refuse a file without one, and arguments that do not fit it."""
    module = load_module(file, arguments)
    main = getattr(module, "main", None)
    if main is None:
        refuse(f"{file}:1: the file has no 'async def main'; add one{other_coroutine_functions(module)}")
    if not inspect.iscoroutinefunction(main):
        refuse(f"{file}:{line_of(main)}: 'main' is not an 'async def' function; write 'async def main(...)'")
    try:
        inspect.signature(main).bind(*arguments)
    except TypeError as error:
        given = " ".join(arguments) or "none"
        refuse(
            f"{file}:{line_of(main)}: the arguments do not fit main{inspect.signature(main)}: {error}; given: {given}"
        )
    return main


def load_module(file: Path, arguments: list[str]) -> ModuleType:
    """Import the file with `sys.path` and `sys.argv` as if Python had started it."""
    if not isfile(file):
        refuse(f"{file}: there is no such file")
    path = str(file.resolve())
    module = ModuleType(MODULE_NAME)
    module.__file__ = path
    sys.modules[MODULE_NAME] = module
    sys.path.insert(0, str(file.resolve().parent))
    sys.argv[:] = [str(file), *arguments]
    try:
        exec(compile(file.read_bytes(), path, "exec", dont_inherit=True), vars(module))
    except KeyboardInterrupt:
        raise SystemExit(EXIT_INTERRUPTED) from None
    except Exception as error:
        own = frames_of_file(error.__traceback__, path)
        traceback.print_exception(error.with_traceback(own))
        line = line_of_error(error, own, path)
        refuse(f"{file}:{line}: the file cannot be imported: {type(error).__name__}: {error}")
    return module


def execute(runtime: Runtime, main: Main, file: Path, arguments: list[str]) -> int:
    """Run the program, print its result or its traceback, and return the exit code."""
    try:
        result = runtime.run(main, *arguments)
    except KeyboardInterrupt:
        complain("interrupted")
        return EXIT_INTERRUPTED
    except (Exception, BaseExceptionGroup) as error:
        own = frames_of_file(error.__traceback__, str(file.resolve()))
        traceback.print_exception(error.with_traceback(own or error.__traceback__))
        return EXIT_BUDGET if is_budget_only(error) else EXIT_FAILED
    if result is not None:
        print(result)
    return 0


def is_budget_only(error: BaseException) -> bool:
    """Whether only spent budgets ended the program. Groups of exceptions may be nested."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return all(is_budget_only(inner) for inner in group.exceptions)
    return isinstance(error, BudgetExceeded)


def frames_of_file(trace: TracebackType | None, path: str) -> TracebackType | None:
    """The traceback from the file's first frame on, without the frames of Bursar before it."""
    while trace is not None and trace.tb_frame.f_code.co_filename != path:
        trace = trace.tb_next
    return trace


def line_of_error(error: Exception, own: TracebackType | None, path: str) -> int:
    """The line of the file at which the import stopped. A syntax error has no frame in the file."""
    if own is not None:
        return own.tb_lineno
    if isinstance(error, SyntaxError) and error.filename == path and error.lineno:
        return error.lineno
    return 1


def line_of(thing: object) -> int:
    """The first line of a function, or 1 for any other object."""
    code = getattr(inspect.unwrap(thing) if callable(thing) else thing, "__code__", None)
    return code.co_firstlineno if code else 1


def other_coroutine_functions(module: ModuleType) -> str:
    """The coroutine functions of the file: one of them may be meant to be `main`."""
    found = [
        f"{name} (line {line_of(value)})"
        for name, value in vars(module).items()
        if inspect.iscoroutinefunction(value) and value.__module__ == MODULE_NAME
    ]
    return f"; its coroutine functions are: {', '.join(found)}" if found else ""
