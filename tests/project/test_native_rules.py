"""Requirements about the native code as a whole, which no test of a single file can show. They read its text."""

import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"
HEADER = NATIVE / "include" / "janus_rt.h"
FROZEN = [
    "int janus_rt_init(janus_rt_config config)",
    "int janus_rt_init_default(void)",
    "void janus_rt_shutdown(void)",
    "bool janus_rt_is_running(void)",
    "void *janus_rt_get(void)",
    "void *janus_nursery_create(void)",
    "int janus_nursery_spawn(janus_task_fn fn, void *arg)",
    "int janus_nursery_spawn_noarg(janus_task_noarg_fn fn)",
    "int janus_nursery_spawn_i32(janus_task_i32_fn fn, void *arg)",
    "int janus_nursery_spawn_noarg_i32(janus_task_noarg_i32_fn fn)",
    "int64_t janus_nursery_await_all(void)",
    "int32_t janus_nursery_task_count(void)",
    "void *janus_nursery_get_token(void)",
    "bool janus_nursery_is_cancelled(void)",
    "void janus_nursery_cancel(void)",
    "void *janus_cancel_token_create(void)",
    "void *janus_cancel_token_child(void *parent)",
    "bool janus_cancel_token_is_cancelled(void *token)",
    "void janus_cancel_token_cancel(void *token)",
    "void janus_cancel_token_destroy(void *token)",
    "void *janus_channel_create_i64(int32_t capacity)",
    "void janus_channel_destroy_i64(void *channel)",
    "int32_t janus_channel_send_i64(void *channel, int64_t value)",
    "int64_t janus_channel_recv_i64(void *channel, int32_t *error)",
    "int32_t janus_channel_try_send_i64(void *channel, int64_t value)",
    "int32_t janus_channel_try_recv_i64(void *channel, int64_t *value)",
    "void janus_channel_close_i64(void *channel)",
    "int32_t janus_channel_is_closed_i64(void *channel)",
    "int32_t janus_channel_len_i64(void *channel)",
    "void *janus_select_create(void)",
    "void janus_select_destroy(void *select)",
    "int32_t janus_select_add_recv(void *select, void *channel)",
    "int32_t janus_select_add_send(void *select, void *channel, int64_t value)",
    "int32_t janus_select_add_timeout(void *select, int64_t milliseconds)",
    "int32_t janus_select_add_default(void *select)",
    "int32_t janus_select_wait(void *select)",
    "int64_t janus_select_get_recv_value(void *select, int32_t number)",
]


# How a row of the list in docs/internals/cpython.md begins, and what that is in the source.
USED = {
    "`_Py_NewReference`": r"\b_Py_NewReference\b",
    "the two words that the collector has": r"\bGcHead\b|\bhead_of\b",
    "the layout of a context": r"\bContextLayout\b",
    "`_PyThreadState_UncheckedGet`": r"\b_PyThreadState_UncheckedGet\b|\bPyThreadState_GetUnchecked\b",
    "`context` of `PyThreadState`": r"PyThreadState_Get\(\)->",
    "fields of `PyFunctionObject` and `PyCodeObject`": r"\bPyFunctionObject\b|\bPyCodeObject\b",
    "`ht_module`": r"\bht_\w+",
    "fields of `PyBaseExceptionObject`": r"\bPyBaseExceptionObject\b",
    "`PyIter_Send`": r"\bPyIter_Send\b|\bPyCoro_Type\.tp_",
    "`PyContext_Enter`": r"\bPyContext_(?:Enter|Exit)\b",
    "`tp_weaklistoffset`": r"\btp_weaklistoffset\b",
    "`d_member`": r"\bd_member\b",
    "`Py_REFCNT`": r"\bPy_REFCNT\b",
    "`tp_new`, `tp_init`, `tp_finalize` and `tp_del`": r"\btp_(?:init|finalize|del)\b",
    "`PyTuple_Type.tp_new`": r"\bPyTuple_Type\.tp_new\b",
    "`PyMem_SetAllocator`": r"\bPyMem_SetAllocator\b|\bPyObject_SetArenaAllocator\b",
    "`Py_AddPendingCall`": r"\bPy_AddPendingCall\b",
    "`PyEval_GetGlobals`, `PyGILState_Check`": r"\bPyEval_GetGlobals\b|\bPyGILState_Check\b",
}


def bare(path: Path) -> str:
    """The text of a C file without its comments."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def sources(*folders: str) -> list[Path]:
    return [
        path for folder in folders for path in sorted((NATIVE / folder).rglob("*")) if path.suffix in (".c", ".h", ".S")
    ]


def test_thread_local_storage_is_in_one_file():
    users = [path.name for path in sources("law", "fiber", "engine", "abi", "include") if "_Thread_local" in bare(path)]
    assert users == ["visit.c"]
    assert not [path for path in sources("law", "fiber", "engine", "abi") if re.search(r"\b__thread\b", bare(path))]


def test_the_engine_knows_nothing_of_its_adapter():
    for path in sources("law", "fiber", "engine"):
        assert not re.search(r'"(abi|include)/|\bjanus_', bare(path)), path.name


# The folders of native/ that a folder may include. The folders below native/python include each other.
NEEDS = {
    "law": set(),
    "fiber": set(),
    "include": set(),
    "engine": {"fiber", "law"},
    "abi": {"engine", "include", "law"},
    "python": {"law"},
}


def wrong_includes(folder: str, text: str) -> list[str]:
    """The folders that a file of `folder` includes and must not."""
    included = re.findall(r'^ *# *include *[<"](?:\.\.?/)*(\w+)/', text, re.MULTILINE)
    return [name for name in included if name in NEEDS.keys() - NEEDS[folder] - {folder}]


def test_the_folders_depend_on_each_other_in_one_direction():
    folders = {path.name for path in NATIVE.iterdir() if path.is_dir() and sources(path.name)}
    assert folders == NEEDS.keys()
    found = [(path.name, wrong_includes(folder, bare(path))) for folder in NEEDS for path in sources(folder)]
    assert [(name, wrong) for name, wrong in found if wrong] == []


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        ("law", '#include "python/law/task.h"'),
        ("fiber", '#include "engine/task.h"'),
        ("engine", '#  include "../abi/visit.h"'),
        ("python", "#include <engine/task.h>"),
        ("abi", '#include "python/module/seam.h"'),
    ],
)
def test_an_include_in_the_other_direction_is_found(folder, line):
    assert wrong_includes(folder, f'#include "hints.h"\n#include <sys/mman.h>\n{line}\n#include "{folder}/own.h"\n')
    assert not wrong_includes(folder, '#include "hints.h"\n#include <sys/mman.h>\n')


def test_the_adapter_has_no_nursery_of_its_own():
    text = bare(NATIVE / "abi" / "janus_nursery.c")
    assert "struct" not in text
    assert not re.search(
        r"^static (?!inline)[^(]*;", text, re.MULTILINE
    )  # no variable either: no error state, no bookkeeping


def test_the_frozen_functions_are_those():
    frozen, _, _ = HEADER.read_text(encoding="utf-8").partition("======== added by Bursar ========")
    declared = re.findall(r"^JANUS_API ([^;]+);", re.sub(r"/\*.*?\*/", "", frozen, flags=re.DOTALL), re.MULTILINE)
    assert declared == FROZEN


def test_the_table_of_results_is_that():
    results = dict(re.findall(r"^#define JANUS_(\w+) \(?(-?\d+)\)?", HEADER.read_text(encoding="utf-8"), re.MULTILINE))
    table = {"OK": "0", "CANCELLED": "-1", "PANICKED": "-2", "BUDGET_EXCEEDED": "-3", "PENDING": "-4"}
    assert {name: results[name] for name in table} == table
    assert all(int(value) <= -5 for name, value in results.items() if name not in table and name.isupper())


def test_the_public_header_offers_no_scheduler():
    assert "scheduler" not in bare(HEADER)


# ---- one way to write a thing

# Attributes that change the meaning of code, and so are no hints: they stand where they apply.
NOT_HINTS = ("visibility", "constructor", "tls_model", "no_sanitize")


def raw_hints(text: str) -> list[str]:
    """The hints to the compiler that do not come from native/hints.h."""
    attributes = re.findall(r"__attribute(?:__)? *\(\((.*?)\)\)", re.sub(r'"[^"\n]*"', "", text), re.DOTALL)
    words = [word for attribute in attributes for word in re.findall(r"\b[a-z_]\w*", attribute)]
    raw = [word for word in words if word.strip("_") not in NOT_HINTS]
    return raw + re.findall(r"\b(?:__builtin_(?:expect|prefetch)\w*|__inline__|__inline|__forceinline)\b", text)


def test_hints_to_the_compiler_come_from_one_header():
    for path in sources("python", "law", "fiber", "engine", "abi"):
        assert not raw_hints(bare(path)), path.name


@pytest.mark.parametrize(
    "planted",
    [
        "if (__builtin_expect(task == NULL, 0)) {",
        "static __attribute__((noinline)) void\nf(void)",
        "__builtin_prefetch(task);",
        "static inline __attribute__((always_inline)) int",
        '__attribute__((no_sanitize("address"), always_inline)) int',
        "static __attribute((__noinline__)) int",
        "if (__builtin_expect_with_probability(task == NULL, 0, 0.9)) {",
    ],
)
def test_a_raw_hint_is_found(planted):
    assert raw_hints(planted)


# The fields of records that a table of the law guards. The functions of native/law change them, after asking the table.
# Exceptions: setters for Python, whose `move` has asked the table, constructors, and the state of a random stream.
GUARDED = ("state", "wake", "phase")
SETTERS = {"set_state", "set_phase", "ticket_init"}
POINTERS = {"cancel_move"}  # chooses the field of a task or of a cancel scope, for `law_phase_advance`
FIELD = rf"(?:->|\.)(?:{'|'.join(GUARDED)})\b"
WRITE = re.compile(rf"(?<!stream){FIELD} *(?:(?:<<|>>|[-+*/%|&^])?=(?!=)|\+\+|--)")
# The address of a field is an argument of a function of the law, or of the setter that checks the number.
POINTER = re.compile(rf"(?P<to>\b\w+\()?(?<!&)&(?:\([^;{{}}]*?\)|\w+)(?:(?:->|\.)\w+)*?{FIELD}")


def function_at(text: str, place: int) -> str:
    """The function whose body has this place of a C text; "" outside of functions, as in a macro."""
    before = text[: text.rfind("\n", 0, place) + 1]
    start = [*re.finditer(r"^[^\s#}][^;{}]*?\b(\w+)\([^;{}]*\)\s*\{", before, re.MULTILINE)][-1:]
    return start[0][1] if start and "\n}" not in before[start[0].end() :] else ""


def direct_writes(text: str) -> list[str]:
    """The functions of a C text that change a guarded field without asking a table."""
    return [name for match in WRITE.finditer(text) if (name := function_at(text, match.start())) not in SETTERS]


def pointers(text: str) -> list[str]:
    """The functions of a C text that take the address of a guarded field, and do not hand it to the law at once."""
    taken = [match for match in POINTER.finditer(text) if not re.match(r"law_\w+\(|put_number\(", match["to"] or "")]
    return [name for match in taken if (name := function_at(text, match.start())) not in POINTERS]


def test_states_change_only_through_the_functions_that_ask_the_tables():
    for path in sources("python", "law", "engine", "abi"):
        assert not direct_writes(bare(path)), path.name
    for path in sources("python", "law"):  # the engine has atomic words, which are no records of the law
        assert not pointers(bare(path)), path.name


@pytest.mark.parametrize("field", GUARDED)
@pytest.mark.parametrize("head", ["static void\nk_shortcut(Kernel *k,\n    Task *task)\n{", "int k_shortcut(Task *) {"])
def test_a_direct_write_is_found(field, head):
    setter = "static int\nset_state(Task *self)\n{\n    self->state = 1;\n}\n"
    write = f"{setter}\n{head}\n    task->{field} = LAW_STATE_DONE;\n}}\n"
    assert direct_writes(write) == ["k_shortcut"]
    assert not direct_writes(write.replace(" = LAW", " == LAW"))
    assert direct_writes(f"#define SHORTCUT(task) \\\n    (task)->{field} = LAW_STATE_DONE\n")
    assert pointers(write.replace(f"task->{field} =", f"uint8_t *at = &task->{field}; *at =")) == ["k_shortcut"]
    assert not pointers(write.replace(f"task->{field} = LAW", f"law_state_move(&task->{field}, LAW"))


# ---- what is used of CPython


def rows_of_the_list() -> list[list[str]]:
    """The cells of the table about C: what, where, why."""
    text = (NATIVE.parent / "docs" / "internals" / "cpython.md").read_text(encoding="utf-8")
    table = text.partition("\n## From C\n")[2]
    return [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize("start", USED)
def test_the_list_of_what_is_used_of_cpython_names_every_file(start):
    (row,) = [row for row in rows_of_the_list() if row[0].startswith(start)]
    using = {f"native/{path.relative_to(NATIVE)}" for path in sources("python") if re.search(USED[start], bare(path))}
    assert set(re.findall(r"`(native/python/[\w/]+\.[ch])`", row[1].partition(", for ")[0])) == using


def test_the_list_of_what_is_used_of_cpython_has_every_private_name():
    listed = "".join(row[0] for row in rows_of_the_list())
    private = {name for path in sources("python") for name in re.findall(r"\b_Py_?[A-Z]\w+", bare(path))}
    assert private
    assert not {name for name in private if f"`{name}`" not in listed}
