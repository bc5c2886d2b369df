"""Every method and attribute of Python that C uses by its name exists in the class that C uses it on.

`py_call` uses only names of names_from_python.h, and the compiler checks these. A method or an attribute is a string in
C, which no compiler checks: without this test, C would find out that a method was renamed when it calls the method.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / "src" / "bursar"
C = ROOT / "native" / "python"

# The class that defines what C uses, and the names that C uses of it.
MEMBERS = {
    "drive.coroutine.Coroutines": {
        "_charge_cpu",
        "_close",
        "_cpu_now",
        "_raised",
        "_returned",
        "close_begun_generators",
        "close_collected_generators",
    },
    "drive.coroutine.Driver": {"measured", "poll"},
    "drive.memory.MemoryMeter": {"ended", "enter", "shortage"},
    "law.admission.gate.GateRules": {"_free", "_ready", "admit_waiting", "enter"},
    "law.admission.resources.Resources": {"kept", "least", "limits", "peak", "taken", "thread_demand"},
    "law.admission.ticket.Ticket": {"ended", "excused", "expired", "scope_cancelled", "stopped"},
    "law.budget.Budget": {"as_tuple", "named"},
    "law.cancel.CancelReason": {"detail", "kind"},
    "law.capability.Registry": {"release"},
    "law.kernel.Kernel": {"finish"},
    "law.lanes.WorkerStats": {"dispatched", "injected", "steals", "steals_failed", "stolen_from"},
    "law.ledger.Ledger": {"charge_memory_growth", "pay_cpu_due"},
    "law.pool.NamedPools": {"named"},
    "law.state.Outcome": {"error", "kind"},
    "law.task.Task": {"name"},
    "law.timers.Timers": {"observer"},
    "law.wake.Wait": {"answer", "expired", "interrupted", "interruptible", "refuse", "withdraw"},
    "ops.channel.Reserve": {"grant"},
    "ops.channel.SendEnd": {"_check"},
    "ops.channel._Channel": {"bind", "close_if_unused", "closed_here", "closed_to"},
    "ops.nursery.Nursery": {"_spawn"},
    "ops.nursery.NurseryBlock": {"_interrupted", "_leave", "entered"},
    "runtime.Runtime": {"driver"},
    "request.Operation": {"blockers", "delist", "enlist", "enlisted", "ready", "reason", "take", "why"},
    "request.Request": {"bill", "cost", "perform", "timed"},
    "threads.job.OnThread": {"hand_over"},
    "threads.pool.ThreadPool": {"post", "start"},
    "trace.writer.Recorder": {"flush", "trace_writer"},
}
OF_CPYTHON = {"__match_args__", "__name__", "append", "close", "cr_code", "throw"}

# Which argument of a function of CPython is a name, and of a function of ours that passes its argument on to one.
CALLS = {
    "PyObject_CallMethod": 1,
    "PyObject_DelAttrString": 1,
    "PyObject_GetAttrString": 1,
    "PyObject_GetOptionalAttrString": 1,
    "PyObject_HasAttrString": 1,
    "PyObject_HasAttrStringWithError": 1,
    "PyObject_SetAttrString": 1,
    "PyUnicode_InternFromString": 0,
}
PASS_ON = {
    "channel_refuse": 1,
    "driver_call": 1,
    "gate_in_python": 1,
    "put": 1,
    "read_attribute": 1,
    "set_attribute": 1,
}
NO_MEMBERS = {"k_note", "k_count"}  # their names are those of events and counters


def arguments(text: str, start: int) -> list[str]:
    """The arguments of the call whose opening parenthesis is before `start`."""
    found, depth, begin = [], 0, start
    for token in re.finditer(r'"(?:\\.|[^"\\])*"|[(),]', text[start:]):
        at = start + token.start()
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth < 0 or (depth == 0 and token[0] == ","):
            found.append(text[begin:at])
            begin = at + 1
        if depth < 0:
            break
    return found


def names_in(text: str) -> tuple[set[str], list[str]]:
    """The names that a C text uses, and the calls whose name the text does not show."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    names, hidden = set(), []
    for call in re.finditer(rf"\b({'|'.join(CALLS | PASS_ON)})\(", text):
        given = arguments(text, call.end())
        place = (CALLS | PASS_ON)[call[1]]
        literals = re.findall(r'"(\w+)"', given[place]) if place < len(given) else []
        names.update(literals)
        if not literals and call[1] in CALLS:
            inside = re.findall(r"^(\w+)\([^;{}]*\)\n\{", text[: call.start()], re.MULTILINE)[-1:]
            hidden += [f"{call[0]}…) in {name}" for name in inside if name not in PASS_ON.keys() | NO_MEMBERS]
    return names, hidden


def members(source: str, name: str) -> set[str]:
    """The methods and attributes that a class defines: in its body, or of `self` in a method."""
    (kind,) = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef) and node.name == name]
    found = set()
    for node in ast.walk(kind):
        match node:
            case ast.FunctionDef(name=own) | ast.AsyncFunctionDef(name=own):
                found.add(own)
            case ast.Attribute(value=ast.Name(id="self"), attr=own, ctx=ast.Store()):
                found.add(own)
            case _:
                pass
    for node in kind.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id=own)) | ast.Assign(targets=[ast.Name(id=own)]):
                found.add(own)
            case _:
                pass
    return found


def source_of(owner: str) -> str:
    return PYTHON.joinpath(*owner.split(".")[:-1]).with_suffix(".py").read_text(encoding="utf-8")


def test_c_uses_the_names_of_the_table_and_no_others():
    used, hidden = set(), []
    for path in sorted(C.rglob("*.[ch]")):
        names, unseen = names_in(path.read_text(encoding="utf-8"))
        used |= names
        hidden += [f"{path.name}: {call}" for call in unseen]
    assert hidden == []
    assert used == set().union(OF_CPYTHON, *MEMBERS.values())


@pytest.mark.parametrize("owner", MEMBERS)
def test_the_class_has_what_c_uses(owner: str):
    assert MEMBERS[owner] <= members(source_of(owner), owner.split(".")[-1])


def test_a_renamed_method_is_found():
    source = source_of("ops.channel._Channel")
    assert "close_if_unused" in members(source, "_Channel")
    assert "close_if_unused" not in members(source.replace("def close_if_unused", "def close_unused"), "_Channel")


@pytest.mark.parametrize(
    "call",
    [
        'PyObject_CallMethod((PyObject *)f(a, b), "planted", NULL)',
        'PyObject_GetAttrString(task,\n        whole ? "planted" : "name")',
        'PyUnicode_InternFromString("planted")',
        'driver_call(self, "planted", task, NULL)',
    ],
)
def test_a_name_that_c_uses_is_found(call: str):
    names, hidden = names_in(f"static int\nf(PyObject *self)\n{{\n    return {call};\n}}\n")
    assert "planted" in names
    assert not hidden


def test_a_name_that_the_text_does_not_show_is_found():
    text = "int\nNAME(PyObject *self, const char *name)\n{\n    return PyObject_CallMethod(self, name, NULL);\n}\n"
    assert names_in(text.replace("NAME", "around"))[1] == ["PyObject_CallMethod(…) in around"]
    assert names_in(text.replace("NAME", "driver_call"))[1] == []
