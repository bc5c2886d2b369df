/* The extension module bursar._native: its types, its state, and what it was built with.
 *
 * Types and state belong to the module object, so each interpreter may load its own copy. seam.c gets the objects of Python
 * that C uses.
 */

#include "python/cpython/context.h"
#include "python/drive/driver.h"
#include "python/fast_paths.h"
#include "python/law/admission/gate_record.h"
#include "python/law/admission/queues.h"
#include "python/law/admission/ticket.h"
#include "python/law/cancel.h"
#include "python/law/kernel.h"
#include "python/law/nursery.h"
#include "python/law/pool.h"
#include "python/law/queue_view.h"
#include "python/law/scope.h"
#include "python/law/spawn_terms.h"
#include "python/law/task.h"
#include "python/law/timers.h"
#include "python/law/wait.h"
#include "python/law/waitlist.h"
#include "python/law/worker.h"
#include "python/memory/types.h"
#include "python/module/names_from_python.h"
#include "python/module/seam.h"
#include "python/ops/channel.h"
#include "python/ops/channel_end.h"
#include "python/ops/channel_receive.h"
#include "python/ops/channel_send.h"
#include "python/ops/clock.h"
#include "python/ops/handle.h"
#include "python/ops/nursery_block.h"
#include "python/ops/request.h"
#include "python/ops/sync.h"
#include "python/ops/task_requests.h"
#include "python/threads/job.h"
#include "python/threads/portal_calls.h"
#include "python/trace/ring.h"
#include "python/trace/writer.h"
#include "law/generated/docstrings.h"

#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

/* Clang also defines __GNUC__, so it is tested first. */
#if defined(__clang__)
#  define COMPILER_NAME "clang"
#  define COMPILER_VERSION TEXT(__clang_major__) "." TEXT(__clang_minor__) "." TEXT(__clang_patchlevel__)
#elif defined(__GNUC__)
#  define COMPILER_NAME "gcc"
#  define COMPILER_VERSION TEXT(__GNUC__) "." TEXT(__GNUC_MINOR__) "." TEXT(__GNUC_PATCHLEVEL__)
#elif defined(_MSC_VER)
#  define COMPILER_NAME "msvc"
#  define COMPILER_VERSION TEXT(_MSC_VER)
#else
#  define COMPILER_NAME "unknown"
#  define COMPILER_VERSION "unknown"
#endif

#if !defined(__STDC_VERSION__) || __STDC_VERSION__ < 201112L
#  error "bursar._native needs a C11 compiler"
#elif __STDC_VERSION__ >= 202311L
#  define C_STANDARD "C23"
#elif __STDC_VERSION__ >= 201710L
#  define C_STANDARD "C17"
#else
#  define C_STANDARD "C11"
#endif

static struct PyModuleDef module_def;

/* ---- state */

ModuleState *
state_of(PyTypeObject *type)
{
    PyObject *module = PyType_GetModuleByDef(type, &module_def);
    return module == NULL ? NULL : PyModule_GetState(module);
}

ModuleState *
state_left(PyTypeObject *type)
{
    PyObject *module = ((PyHeapTypeObject *)type)->ht_module; /* PyType_GetModule would set an exception */
    return module == NULL ? NULL : PyModule_GetState(module);
}

PyDoc_STRVAR(build_info_doc,
             "build_info()\n--\n\n"
             "What this extension was built with: compiler, compiler_version, c_standard, python; whether it takes\n"
             "fast_paths, and whether it uses private_layouts of CPython.");

/* Returns a new dict, or NULL with MemoryError set. */
static PyObject *
build_info(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    return Py_BuildValue("{s:s, s:s, s:s, s:s, s:O, s:O}", "compiler", COMPILER_NAME, "compiler_version",
                         COMPILER_VERSION, "c_standard", C_STANDARD, "python", PY_VERSION, "fast_paths",
                         FAST_PATHS ? Py_True : Py_False, "private_layouts",
                         BURSAR_PRIVATE_LAYOUTS ? Py_True : Py_False);
}

PyDoc_STRVAR(checkpoint_doc, "checkpoint()\n--\n\n" DOC_checkpoint);

PyDoc_STRVAR(sleep_doc, "sleep(seconds)\n--\n\n" DOC_sleep);

PyDoc_STRVAR(
    nursery_doc,
    "nursery($module, /, *, budget=None, name='', capabilities=None, on_exhausted='end', cancel_on_failure=True, "
    "admission=None, sealed=None, on_drop='raise')\n--\n\n" DOC_nursery);

/* ---- the module */

#define TYPE(field) offsetof(ModuleState, field)
#define NO_BASE SIZE_MAX

/* Every type: its place in the state, its spec, and its base, which comes before it in this list. */
static const struct {
    size_t slot;
    PyType_Spec *spec;
    size_t base;
} TYPES[] = {
    {TYPE(Kernel), &kernel_spec, NO_BASE},
    {TYPE(Task), &task_spec, NO_BASE},
    {TYPE(Nursery), &nursery_spec, NO_BASE},
    {TYPE(Children), &children_spec, NO_BASE},
    {TYPE(CancelScope), &cancel_scope_spec, NO_BASE},
    {TYPE(Timer), &timer_spec, NO_BASE},
    {TYPE(Timers), &timers_spec, NO_BASE},
    {TYPE(Pool), &pool_spec, NO_BASE},
    {TYPE(SpawnTerms), &spawn_terms_spec, NO_BASE},
    {TYPE(Arguments), &arguments_spec, NO_BASE},
    {TYPE(Worker), &worker_spec, NO_BASE},
    {TYPE(QueueView), &queue_view_spec, NO_BASE},
    {TYPE(Wait), &wait_spec, NO_BASE},
    {TYPE(Entry), &entry_spec, TYPE(Wait)},
    {TYPE(ThreadJob), &thread_job_spec, TYPE(Wait)},
    {TYPE(WaitList), &waitlist_spec, NO_BASE},
    {TYPE(Resume), &resume_spec, NO_BASE},
    {TYPE(Request), &request_spec, NO_BASE},
    {TYPE(Operation), &operation_spec, TYPE(Request)},
    {TYPE(OnThread), &on_thread_spec, TYPE(Request)},
    {TYPE(Driver), &driver_spec, NO_BASE},
    {TYPE(Checkpoint), &checkpoint_spec, TYPE(Request)},
    {TYPE(Sleep), &sleep_spec, TYPE(Operation)},
    {TYPE(Join), &join_spec, TYPE(Operation)},
    {TYPE(Ended), &ended_spec, TYPE(Operation)},
    {TYPE(TaskHandle), &task_handle_spec, NO_BASE},
    {TYPE(NurseryHandle), &nursery_handle_spec, NO_BASE},
    {TYPE(NurseryBlock), &nursery_block_spec, TYPE(Request)},
    {TYPE(Event), &event_spec, NO_BASE},
    {TYPE(EventWait), &event_wait_spec, TYPE(Operation)},
    {TYPE(Channel), &channel_spec, NO_BASE},
    {TYPE(ChannelEnd), &channel_end_spec, NO_BASE},
    {TYPE(SendEnd), &send_end_spec, TYPE(ChannelEnd)},
    {TYPE(ReceiveEnd), &receive_end_spec, TYPE(ChannelEnd)},
    {TYPE(Send), &send_spec, TYPE(Operation)},
    {TYPE(Receive), &receive_spec, TYPE(Operation)},
    {TYPE(Next), &next_spec, TYPE(Receive)},
    {TYPE(TraceWriter), &trace_writer_spec, NO_BASE},
    {TYPE(TraceRing), &trace_ring_spec, TYPE(TraceWriter)},
    {TYPE(Ticket), &ticket_spec, NO_BASE},
    {TYPE(GateTotalsCore), &gate_totals_spec, NO_BASE},
    {TYPE(GateCore), &gate_core_spec, NO_BASE},
    {TYPE(WaitClass), &wait_class_spec, NO_BASE},
    {TYPE(QueuesCore), &queues_spec, NO_BASE},
};

static PyTypeObject **
type_at(ModuleState *st, size_t slot)
{
    return (PyTypeObject **)(void *)((char *)st + slot);
}

static int
set_attribute(PyTypeObject *type, const char *name, PyObject *value)
{
    int failed = value == NULL ? -1 : PyObject_SetAttrString((PyObject *)type, name, value);
    Py_XDECREF(value);
    return failed;
}

/* Add methods that another file than the type's has. */
static int
add_methods(PyTypeObject *type, PyMethodDef *methods)
{
    for (; methods->ml_name != NULL; methods++) {
        if (set_attribute(type, methods->ml_name, PyDescr_NewMethod(type, methods)) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The free lists, and which of them have records that the collector does not count: see freelist.c. */
static const struct {
    size_t at;
    bool uncounted;
} LISTS[] = {
    {offsetof(ModuleState, free_tasks), true},     {offsetof(ModuleState, free_handles), true},
    {offsetof(ModuleState, free_nurseries), true}, {offsetof(ModuleState, free_nursery_handles), true},
    {offsetof(ModuleState, free_blocks), true},    {offsetof(ModuleState, free_scopes), true},
    {offsetof(ModuleState, free_timers), false},   {offsetof(ModuleState, free_sends), false},
    {offsetof(ModuleState, free_receives), false}, {offsetof(ModuleState, free_nexts), false},
    {offsetof(ModuleState, free_tickets), true},
};

static FreeList *
list_at(ModuleState *st, size_t i)
{
    return (FreeList *)(void *)((char *)st + LISTS[i].at);
}

/* Fill a new module. Returns 0, or -1 with an exception set. */
static int
module_exec(PyObject *module)
{
    ModuleState *st = PyModule_GetState(module);
    bool found = free_try(module);
    st->gc_aside_works = found && gc_aside_try();
    for (size_t i = 0; i < Py_ARRAY_LENGTH(LISTS); i++) {
        free_open(list_at(st, i), found && LISTS[i].uncounted);
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(TYPES); i++) {
        PyObject *base = TYPES[i].base == NO_BASE ? NULL : (PyObject *)*type_at(st, TYPES[i].base);
        PyObject *type = PyType_FromModuleAndSpec(module, TYPES[i].spec, base);
        *type_at(st, TYPES[i].slot) = (PyTypeObject *)type;
        /* To users a handle has the name of its record (`Task`), so in this module it needs another name. */
        const char *name = TYPES[i].spec == &task_handle_spec      ? "TaskHandle"
                           : TYPES[i].spec == &nursery_handle_spec ? "NurseryHandle"
                                                                   : strrchr(TYPES[i].spec->name, '.') + 1;
        if (type == NULL || PyModule_AddObjectRef(module, name, type) < 0) {
            return -1;
        }
    }
    if (add_methods(st->Kernel, cancel_methods) < 0 || meter_exec(module) < 0 || portal_calls_exec(module) < 0) {
        return -1;
    }
    if (context_try(&st->contexts_comparable) < 0) {
        return -1;
    }
    st->str_throw = PyUnicode_InternFromString("throw");
    st->str_hand_over = PyUnicode_InternFromString("hand_over");
    st->str_post = PyUnicode_InternFromString("post");
    st->str_start = PyUnicode_InternFromString("start");
    st->coroutine_throw = PyObject_GetAttrString((PyObject *)&PyCoro_Type, "throw");
    st->checkpoint = checkpoint_new(st);
    if (st->str_throw == NULL || st->str_hand_over == NULL || st->str_post == NULL || st->str_start == NULL ||
        st->coroutine_throw == NULL || st->checkpoint == NULL ||
        set_attribute(st->Wait, "interruptible", Py_NewRef(Py_True)) < 0 ||
        set_attribute(st->Operation, "reason", PyUnicode_FromString("waits")) < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "KERNEL", Py_True);
}

/* The objects of the state that are not types: single objects and arrays, as one list of places. */
static const struct {
    size_t at;
    size_t n;
} HELD[] = {
#define MEMBERS(field) {offsetof(ModuleState, field), sizeof(((ModuleState *)0)->field) / sizeof(PyObject *)}
#define X(kind, members, n) MEMBERS(members),
    SEAM_ENUMS(X)
#undef X
        MEMBERS(py),
    MEMBERS(str_throw),
    MEMBERS(str_hand_over),
    MEMBERS(str_start),
    MEMBERS(str_post),
    MEMBERS(coroutine_throw),
    MEMBERS(checkpoint),
};

static PyObject **
held_at(ModuleState *st, size_t i)
{
    return (PyObject **)(void *)((char *)st + HELD[i].at);
}

static int
module_traverse(PyObject *module, visitproc visit, void *arg)
{
    ModuleState *st = PyModule_GetState(module);
    for (size_t i = 0; i < Py_ARRAY_LENGTH(TYPES); i++) {
        Py_VISIT(*type_at(st, TYPES[i].slot));
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(HELD); i++) {
        for (size_t j = 0; j < HELD[i].n; j++) {
            Py_VISIT(held_at(st, i)[j]);
        }
    }
    return 0;
}

static int
module_clear(PyObject *module)
{
    ModuleState *st = PyModule_GetState(module);
    for (size_t i = 0; i < Py_ARRAY_LENGTH(LISTS); i++) {
        free_shut(list_at(st, i)); /* first, while the types of the records exist */
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(HELD); i++) {
        for (size_t j = 0; j < HELD[i].n; j++) {
            Py_CLEAR(held_at(st, i)[j]);
        }
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(TYPES); i++) {
        Py_CLEAR(*type_at(st, TYPES[i].slot));
    }
    st->adopted = false;
    return 0;
}

static void
module_free(void *module)
{
    module_clear(module);
}

static PyMethodDef module_methods[] = {
    {"build_info", build_info, METH_NOARGS, build_info_doc},
    {"adopt", adopt, METH_O, adopt_doc},
    {"expose", expose, METH_O, expose_doc},
    {"unexposed", unexposed, METH_NOARGS, unexposed_doc},
    {"checkpoint", (PyCFunction)(void (*)(void))checkpoint_ask, METH_FASTCALL, checkpoint_doc},
    {"nursery", (PyCFunction)(void (*)(void))nursery_open, METH_FASTCALL | METH_KEYWORDS, nursery_doc},
    {"sleep", (PyCFunction)(void (*)(void))sleep_for, METH_FASTCALL | METH_KEYWORDS, sleep_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, (void *)module_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_USED}, /* records, free lists and posts rely on the GIL */
#endif
    {0, NULL},
};

PyDoc_STRVAR(module_doc, "The native part of Bursar. KERNEL says that it holds a kernel; build_info() what built it.");

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,         .m_name = "bursar._native",  .m_doc = module_doc,
    .m_size = sizeof(ModuleState), .m_methods = module_methods, .m_slots = module_slots,
    .m_traverse = module_traverse, .m_clear = module_clear,     .m_free = module_free,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&module_def);
}
