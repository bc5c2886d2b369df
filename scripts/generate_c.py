"""Writes native/law/generated/*.h: the data that Python and C both need, from its one source, the law in Python.

    python scripts/generate_c.py            write the headers that have changed
    python scripts/generate_c.py --check    name the headers that are stale, and fail

The headers hold enumerations, transition tables, costs, limits and the kinds of trace records that C writes. Values,
order and comments are those of the Python source, and the tables below say what each is called in C. The headers are
committed: a build needs a C compiler and no Python package. `tests/project/test_generated_c.py` fails if a header is
stale, or if a C file defines one of its names by hand.

Rejected: reading the values at import. The C compiler could then not fold a transition table or a cost into the code.
Rejected: generating the logic too. Two texts that tests compare find mistakes; one text translated twice hides them.
"""

from __future__ import annotations

import ast
import inspect
import io
import sys
import textwrap
import tokenize
from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from bursar import text as texts
from bursar.drive import memory
from bursar.law import (
    budget,
    cancel,
    chain,
    decide,
    kernel,
    lanes,
    ledger,
    nursery,
    permission,
    pool,
    profile,
    state,
    steal,
    timers,
    wake,
)
from bursar.law import costs as cost_table
from bursar.law.admission import authority, ticket
from bursar.trace import catalogue

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "native" / "law" / "generated"
PACKAGE = ROOT / "src" / "bursar"


class CEnum(NamedTuple):
    """An enumeration: its C type, how its enumerators begin, and what their number is called."""

    source: type[Enum]
    type: str
    prefix: str
    count: str
    words: bool = False  # whether C needs the words of a `StrEnum` too


class CTable(NamedTuple):
    """A table of legal successors, as one bit mask for each row."""

    module: ModuleType
    attribute: str
    name: str
    rows: type[IntEnum]
    columns: type[IntEnum]


class CLimit(NamedTuple):
    """A number: the Python module and attribute, the C name, and how C writes it."""

    module: ModuleType
    attribute: str
    name: str
    form: str = "{}"


ENUMS = [
    CEnum(state.State, "LawState", "LAW_STATE_", "LAW_STATES"),
    CEnum(state.OutcomeKind, "LawOutcome", "LAW_OUTCOME_", "LAW_OUTCOMES"),
    CEnum(wake.WakeState, "LawWake", "LAW_WAKE_", "LAW_WAKES"),
    CEnum(wake.Notice, "LawNotice", "LAW_NOTICE_", "LAW_NOTICES"),
    CEnum(lanes.Lane, "LawLane", "LAW_LANE_", "LAW_LANES"),
    CEnum(steal.StealPolicy, "LawStealPolicy", "LAW_STEAL_", "LAW_STEAL_POLICIES"),
    CEnum(nursery.NurseryState, "LawNurseryState", "LAW_NURSERY_", "LAW_NURSERY_STATES"),
    CEnum(cancel.CancelPhase, "LawCancelPhase", "LAW_PHASE_", "LAW_PHASES"),
    CEnum(cancel.CancelKind, "LawCancelKind", "LAW_CANCEL_", "LAW_CANCEL_KINDS", words=True),
    CEnum(timers.TimerKind, "LawTimerKind", "LAW_TIMER_", "LAW_TIMER_KINDS"),
    CEnum(ledger.Bill, "LawBill", "LAW_BILL_", "LAW_BILLS"),
    CEnum(ticket.TicketState, "LawTicket", "LAW_TICKET_", "LAW_TICKETS"),
]

TABLES = [
    CTable(state, "TRANSITIONS", "LAW_STATE_MOVES", state.State, state.State),
    CTable(state, "ENDINGS", "LAW_STATE_ENDINGS", state.State, state.OutcomeKind),
    CTable(nursery, "TRANSITIONS", "LAW_NURSERY_MOVES", nursery.NurseryState, nursery.NurseryState),
    CTable(ticket, "TRANSITIONS", "LAW_TICKET_MOVES", ticket.TicketState, ticket.TicketState),
]

COSTS = ["FREE", "OP", "SPAWN", "CHANNEL", "SYSCALL"]  # of law/costs.py
NAMED_BUDGETS = ["none", "service", "cluster", "child"]  # class methods of `Budget`

INT64, UINT32, UINT64 = "INT64_C({})", "UINT32_C({})", "UINT64_C(0x{:X})"
LIMITS = [
    CLimit(budget, "UNITS_MAX", "LAW_UNITS_MAX", INT64),
    CLimit(pool, "PAID", "LAW_PAID", "({})"),
    CLimit(chain, "GOLDEN", "LAW_GOLDEN", UINT64),
    CLimit(decide, "CANCEL_STREAK_MAX", "LAW_CANCEL_STREAK_MAX", UINT32),
    CLimit(decide, "TIMED_STREAK_MAX", "LAW_TIMED_STREAK_MAX", UINT32),
    CLimit(lanes, "INJECTOR_INTERVAL", "LAW_INJECTOR_INTERVAL"),
    CLimit(steal, "STEAL_ATTEMPTS_MAX", "LAW_STEAL_ATTEMPTS_MAX"),
    CLimit(permission, "ADMIT", "LAW_LINK_ADMIT"),
    CLimit(timers, "TIME_END_NS", "LAW_TIME_END_NS", INT64),
    CLimit(kernel, "YIELD_INTERVAL", "LAW_YIELD_INTERVAL", INT64),
    CLimit(kernel, "CLEANUP_OPS", "LAW_CLEANUP_OPS", UINT32),
    CLimit(memory, "CLEANUP_BYTES", "LAW_CLEANUP_BYTES", INT64),
    CLimit(authority, "PRIORITY_MAX", "LAW_PRIORITY_MAX"),
    CLimit(texts, "TEXT_MAX", "LAW_TEXT_MAX"),
    CLimit(timers, "SECONDS_MAX", "LAW_SECONDS_MAX", "{:.0f}.0"),
]

# What a user asks for by name and C makes: its help is that of the twin in Python.
DOCSTRINGS = [
    ("ops/nursery.py", "nursery"),
    ("ops/nursery.py", "Nursery"),
    ("ops/nursery.py", "Nursery.spawn"),
    ("ops/task.py", "Task"),
    ("ops/task.py", "Task.result"),
    ("ops/task.py", "checkpoint"),
    ("ops/clock.py", "sleep"),
    ("ops/channel.py", "SendCore.send"),
    ("ops/channel.py", "ReceiveCore.receive"),
    ("ops/sync.py", "Event"),
    ("ops/sync.py", "Event.wait"),
    ("ops/sync.py", "Event.set"),
    ("ops/sync.py", "Event.is_set"),
]

# The kinds of the catalogue that C writes by itself; it leaves all others to Python.
RECORDS = (
    "host_turn",
    "clock",
    "scheduler_step_begin",
    "scheduler_step_decision",
    "scheduler_step_end",
    "task_spawned",
    "task_enqueued",
    "task_dequeued",
    "task_woken",
    "stale_wake",
    "task_blocked",
    "task_done",
    "timer_armed",
    "timer_disarmed",
    "timer_fired",
    "nursery_opened",
    "nursery_closing",
    "nursery_cancelling",
    "nursery_closed",
    "cancel_requested",
    "cancel_delivered",
    "cleanup_begun",
    "cleanup_ended",
    "charged",
    "scope_left",
)


# ---- comments of the Python source


@cache
def comments(module: ModuleType) -> Mapping[int, str]:
    """The comment at the end of each line of a module that has one."""
    tokens = tokenize.generate_tokens(io.StringIO(inspect.getsource(module)).readline)
    return {
        t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT and t.line.strip()[0] != "#"
    }


def remark(module: ModuleType, line: int) -> str:
    """The comment of a line as one of C, or nothing."""
    text = comments(module).get(line, "")
    return f" /* {text} */" if text else ""


@cache
def assigned(module: ModuleType) -> Mapping[str, ast.stmt]:
    """The assignments at the top level of a module, by name."""
    found: dict[str, ast.stmt] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
    return found


def module_of(kind: type) -> ModuleType:
    return sys.modules[kind.__module__]


def member_lines(kind: type[Enum]) -> dict[str, int]:
    """The line of each member of an enumeration."""
    tree = ast.parse(inspect.getsource(module_of(kind)))
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind.__name__).body
    return {n.targets[0].id: n.lineno for n in body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)}


def summary(kind: type) -> str:
    """The first sentence or two of a docstring: its first paragraph."""
    return " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())


def comment(text: str) -> list[str]:
    """A comment of as many lines as it needs."""
    lines = textwrap.wrap(text, 114)
    return (
        [f"/* {lines[0]}", *(f" * {line}" for line in lines[1:-1]), f" * {lines[-1]} */"]
        if lines[1:]
        else [f"/* {text} */"]
    )


# ---- the headers


def prefix_of(kind: type[Enum]) -> str:
    return next(e.prefix for e in ENUMS if e.source is kind)


def enums() -> Iterable[str]:
    for enum in ENUMS:
        module, lines = module_of(enum.source), member_lines(enum.source)
        yield from ["", *comment(f"{summary(enum.source)} `{enum.source.__name__}` of {shown(module)}.")]
        yield "typedef enum {"
        for number, (name, member) in enumerate(enum.source.__members__.items()):
            assert not isinstance(member, int) or member == number, f"{enum.source.__name__} does not count from 0"
            yield f"    {enum.prefix}{name} = {number},{remark(module, lines[name])}"
        yield f"}} {enum.type};"
        yield f"enum {{ {enum.count} = {len(enum.source)} }};"
        if enum.words:
            words = ", ".join(f'"{member.value}"' for member in enum.source)
            yield f"#define {enum.prefix}NAMES {{{words}}}"


def transitions() -> Iterable[str]:
    for table in TABLES:
        rows: Mapping[IntEnum, frozenset[IntEnum]] = getattr(table.module, table.attribute)
        lines = row_lines(table)
        assert list(rows) == list(table.rows), f"{table.attribute} must have one row for each state, in their order"
        size = next(e.count for e in ENUMS if e.source is table.rows)
        yield from ["", f"/* `{table.attribute}` of {shown(table.module)}. */"]
        yield f"static const uint8_t {table.name}[{size}] = {{"
        for row, successors in rows.items():
            bits = " | ".join(f"1u << {prefix_of(table.columns)}{to.name}" for to in sorted(successors)) or "0"
            if lines[row] in comments(table.module):
                yield f"    /* {comments(table.module)[lines[row]]} */"
            line = f"[{prefix_of(table.rows)}{row.name}] = {bits},"
            yield textwrap.fill(line, 116, initial_indent=" " * 4, subsequent_indent=" " * 8)
        yield "};"


def row_lines(table: CTable) -> dict[IntEnum, int]:
    """The line of each row of a table."""
    node = assigned(table.module)[table.attribute]
    assert isinstance(node, ast.Assign | ast.AnnAssign), "a table is assigned"
    assert isinstance(node.value, ast.Dict), "a table is a dict"
    return dict(zip(table.rows, (value.end_lineno or 0 for value in node.value.values), strict=True))


def costs() -> Iterable[str]:
    yield from ["", "/* What a budget counts, in the order of `COMPONENTS`. */", "typedef enum {"]
    yield from (f"    LAW_{name.upper()} = {number}," for number, name in enumerate(budget.COMPONENTS))
    words = ", ".join(f'"{name}"' for name in budget.COMPONENTS)
    yield from ["} LawComponent;", f"enum {{ LAW_COMPONENTS = {len(budget.COMPONENTS)} }};"]
    yield f"#define LAW_COMPONENT_NAMES {{{words}}}"
    for name in COSTS:
        row: cost_table.Cost = getattr(cost_table, name)
        amounts = ", ".join(f"LAW_{name}_COSTS_{budget.COMPONENTS[c].upper()}" for c, _ in row) or "0"
        components = ", ".join(f"LAW_{budget.COMPONENTS[c].upper()}" for c, _ in row) or "0"
        text = comments(cost_table).get(assigned(cost_table)[name].lineno, "")
        yield from ["", f"/* `{name}`{text and ': ' + text}. */"]
        if row:
            pairs = ", ".join(f"LAW_{name}_COSTS_{budget.COMPONENTS[c].upper()} = {amount}" for c, amount in row)
            yield f"enum {{ {pairs}, LAW_{name}_PAIRS = {len(row)} }};"
        yield f"#define LAW_ROW_{name} {{{{{amounts}}}, {{{components}}}, {len(row)}}}"
    for name in NAMED_BUDGETS:
        amounts = ", ".join(f"INT64_C({amount})" for amount in getattr(budget.Budget, name)().as_tuple())
        yield from ["", f"/* `Budget.{name}()`. */"]
        yield f"#define LAW_BUDGET_{name.upper()} {{{amounts}}}"


def limits() -> Iterable[str]:
    for limit in LIMITS:
        value, line = getattr(limit.module, limit.attribute), assigned(limit.module)[limit.attribute].lineno
        text = comments(limit.module).get(line, "")
        yield from ["", *comment(f"`{limit.attribute}` of {shown(limit.module)}{text and ': ' + text}.")]
        yield f"#define {limit.name} {limit.form.format(value)}"
    yield from ["", "/* `Priority` of a task that states none. */"]
    yield f"#define LAW_PRIORITY_NORMAL {int(authority.Priority.NORMAL)}"
    yield from ["", '/* The `yield_interval` of the profile "cluster". */']
    yield f"#define LAW_YIELD_INTERVAL_CLUSTER {INT64.format(profile.PROFILES['cluster'].yield_interval)}"


def record_name(kind: str) -> str:
    """What C calls a kind of record: "task_spawned" is SPAWNED."""
    return kind.removeprefix("scheduler_").removeprefix("task_").upper()


def trace_records() -> Iterable[str]:
    kinds = [catalogue.KINDS[name] for name in RECORDS]
    yield from ["", "/* The kinds of records that C writes. */", "typedef enum {"]
    yield from (f"    NOTE_{record_name(kind.name)}," for kind in kinds)
    yield from ["    NOTES,", "} Note;"]
    yield from ["", "/* Their names in the catalogue, and how many numbers each has. */"]
    yield "#define TRACE_RECORDS \\"
    rows = [f'[NOTE_{record_name(kind.name)}] = {{"{kind.name}", {len(kind.fields)}}}' for kind in kinds]
    yield "    {" + ", \\\n     ".join(rows) + "}"
    widest = max(kinds, key=lambda kind: len(kind.fields))
    yield from ["", f"/* The numbers of the longest record, {widest.name}. */"]
    yield f"#define TRACE_FIELDS_MAX {len(widest.fields)}"
    yield from ["", "/* The place of each number in its record. */"]
    for kind in kinds:
        places = [f"FIELD_{record_name(kind.name)}_{f.name.upper()} = {i}" for i, f in enumerate(kind.fields)]
        if places:
            yield textwrap.fill(f"enum {{ {', '.join(places)} }};", 116, subsequent_indent=" " * 7)
    queues = ", ".join(f"QUEUE_{name.upper()} = {number}" for number, name in enumerate(catalogue.QUEUES))
    yield from ["", "/* `QUEUES`: the queue that a task was put into. */", f"enum {{ {queues} }};"]
    yield from ["", "/* `INJECTOR`: the worker of a queue that belongs to none. `NONE`: an absent number. */"]
    yield f"#define TRACE_INJECTOR 0x{catalogue.INJECTOR:X}u"
    yield f"#define TRACE_NONE ((uint64_t)INT64_C({catalogue.NONE}))"


def shown(module: ModuleType) -> str:
    """A module as a path below src/bursar."""
    return Path(inspect.getfile(module)).resolve().relative_to(PACKAGE).as_posix()


def docstrings() -> Iterable[str]:
    """Reads the text of the sources, because at run time the twin in C replaces the one in Python."""
    for path, name in DOCSTRINGS:
        node: ast.Module | ast.ClassDef | ast.FunctionDef = ast.parse((PACKAGE / path).read_text(encoding="utf-8"))
        for part in name.split("."):
            defined = [n for n in node.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == part]
            node = defined[-1]  # after its overloads
        lines = (ast.get_docstring(node) or "").split("\n")
        quoted = ['"' + line.replace("\\", r"\\").replace('"', r"\"") + r'\n"' for line in lines]
        quoted[-1] = quoted[-1].removesuffix(r'\n"') + '"'
        yield from ["", f"/* `{name}` of {path}. */"]
        yield f"#define DOC_{name.replace('.', '_')} \\"
        yield " \\\n".join(f"    {line}" for line in quoted)


HEADERS: dict[str, tuple[str, list[str], Any]] = {
    "enums.h": ("The enumerations of the law. Records store each of them in a uint8_t.", [], enums),
    "transitions.h": ("The tables of legal moves and endings: a bit for each successor.", ["enums.h"], transitions),
    "costs.h": ("The components of a budget, the rows of the cost table, and the named budgets.", [], costs),
    "limits.h": ("The limits that both kernels keep.", [], limits),
    "trace_records.h": (
        "The records of a trace that C writes, as trace/catalogue.py lays them out.",
        [],
        trace_records,
    ),
    "docstrings.h": ("The docstrings of what a user asks for by name and C makes.", [], docstrings),
}


def header(name: str) -> str:
    """The text of one header."""
    title, includes, body = HEADERS[name]
    lines = [f"/* {title}", " *", " * Written by scripts/generate_c.py from the law in Python: do not edit.", " */"]
    lines += ["#pragma once", "", "#include <stdint.h>"]
    lines += ["", *(f'#include "law/generated/{other}"' for other in includes)] if includes else []
    return "\n".join([*lines, *body()]) + "\n"


def stale(folder: Path) -> list[str]:
    """The headers of `folder` that are not what the law says, and files that are no headers of ours."""
    found = {path.name for path in folder.glob("*.h")}
    wrong = {name for name in found & HEADERS.keys() if (folder / name).read_text(encoding="utf-8") != header(name)}
    return sorted(wrong | (found ^ HEADERS.keys()))


def main(arguments: list[str]) -> str | None:
    wrong = stale(FOLDER)
    if arguments == ["--check"]:
        return f"stale in {FOLDER.relative_to(ROOT)}: {', '.join(wrong)}; run scripts/generate_c.py" if wrong else None
    for name in wrong:
        if name in HEADERS:
            (FOLDER / name).write_text(header(name), encoding="utf-8")
        else:
            (FOLDER / name).unlink()
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
