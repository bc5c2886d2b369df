/* An allocator that fails once, for test_faults.py, and counts, for test_requests.py: the n-th request for memory that is
 * made while it is on, either of all or of those that the kernel in C makes: those with its code on the stack above the
 * innermost Python frame. (The interpreter itself is not spotless: 3.11 leaks the arguments of a call for whose frame
 * there is no memory, and where it would crash it is spared: see `is_frail`.)
 *
 * It sits in front of the interpreter's own allocators (PyMem and PyObject, not PyMem_Raw, which also serves threads
 * that do not hold the GIL), passes everything on, and counts. It is never taken out: blocks may be freed at any time.
 *
 * What the kernel takes from its lists of free records is no request. So the lists can be emptied here: they are reached by
 * the layout of the module's state, so this file is to be built from the headers that the extension was built from, together
 * with freelist.c. FREE_LISTS names them all, as LIST(free_tasks) LIST(free_handles) and so on: conftest.py reads that in
 * module/module_state.h.
 */

#define _GNU_SOURCE /* dladdr */
#include "python/module/module_state.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unwind.h>

enum { DEPTH_MAX = 40 }; /* frames to look at: no call of the kernel goes deeper before it is back in Python */

static PyMemAllocatorEx below[2]; /* of PYMEM_DOMAIN_MEM and PYMEM_DOMAIN_OBJ */
static bool installed, on, kernel_only;
static unsigned long long count, fail_at, failed;

/* Who asks, as far as it matters: the interpreter itself in a function that would crash without memory; the kernel; or
 * anybody else. */
typedef enum { ASKS_FRAIL, ASKS_KERNEL, ASKS_OTHER } Asks;

static bool
is_frail(const char *name)
{
    return strcmp(name, "PyFunction_NewWithQualName") == 0; /* 3.12 fills in the function that it did not get */
}

/* What an address in the code says about that: its answer, or that a frame further out must be asked. */
enum { SAYS_NOTHING = ASKS_OTHER + 1 };

static int
says(void *address)
{
    Dl_info info;
    if (dladdr(address, &info) == 0) {
        return SAYS_NOTHING;
    }
    if (info.dli_fname != NULL && strstr(info.dli_fname, "/_native.") != NULL) {
        return ASKS_KERNEL;
    }
    if (info.dli_sname != NULL && is_frail(info.dli_sname)) {
        return ASKS_FRAIL;
    }
    if (info.dli_sname != NULL && strcmp(info.dli_sname, "_PyEval_EvalFrameDefault") == 0) {
        return ASKS_OTHER;
    }
    return SAYS_NOTHING;
}

/* The answers so far: `dladdr` searches the whole table of the interpreter's symbols, at each frame of each request. */
static struct {
    void *address;
    int says;
} known[1 << 12];

typedef struct {
    int answer;
    int depth;
} Walk;

static _Unwind_Reason_Code
step_out(struct _Unwind_Context *frame, void *walking)
{
    Walk *walk = walking;
    void *address = (void *)_Unwind_GetIP(frame);
    size_t place = ((size_t)address >> 1) % (sizeof known / sizeof known[0]);
    if (known[place].address != address) {
        known[place].address = address;
        known[place].says = says(address);
    }
    walk->answer = known[place].says;
    walk->depth += 1;
    return walk->answer != SAYS_NOTHING || walk->depth == DEPTH_MAX ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static Asks
who_asks(void)
{
    Walk walk = {SAYS_NOTHING, 0};
    _Unwind_Backtrace(step_out, &walk);
    return walk.answer == SAYS_NOTHING ? ASKS_OTHER : (Asks)walk.answer;
}

/* Whether this request is the one. */
static bool
fails(void)
{
    if (!on || failed != 0) {
        return false; /* after the one that failed the count says nothing more */
    }
    Asks asks = who_asks();
    if (asks == ASKS_FRAIL || (kernel_only && asks != ASKS_KERNEL)) {
        return false;
    }
    count += 1;
    if (count == fail_at) {
        failed += 1;
        return true;
    }
    return false;
}

static void *
failing_malloc(void *ctx, size_t size)
{
    PyMemAllocatorEx *next = ctx;
    return fails() ? NULL : next->malloc(next->ctx, size);
}

static void *
failing_calloc(void *ctx, size_t n, size_t size)
{
    PyMemAllocatorEx *next = ctx;
    return fails() ? NULL : next->calloc(next->ctx, n, size);
}

static void *
failing_realloc(void *ctx, void *block, size_t size)
{
    PyMemAllocatorEx *next = ctx;
    return fails() ? NULL : next->realloc(next->ctx, block, size);
}

static void
failing_free(void *ctx, void *block)
{
    PyMemAllocatorEx *next = ctx;
    next->free(next->ctx, block);
}

/* arm(n, kernel_only): from the next `resume` on, the n-th request fails; 0: none does. */
static PyObject *
arm(PyObject *Py_UNUSED(module), PyObject *args)
{
    unsigned long long at;
    int only;
    if (!PyArg_ParseTuple(args, "Kp", &at, &only)) {
        return NULL;
    }
    if (!installed) {
        PyMemAllocatorDomain domains[] = {PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};
        for (int i = 0; i < 2; i++) {
            PyMem_GetAllocator(domains[i], &below[i]);
            PyMemAllocatorEx mine = {&below[i], failing_malloc, failing_calloc, failing_realloc, failing_free};
            PyMem_SetAllocator(domains[i], &mine);
        }
        installed = true;
    }
    on = false;
    count = failed = 0;
    fail_at = at;
    kernel_only = only != 0;
    Py_RETURN_NONE;
}

static PyObject *
resume(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    on = true;
    Py_RETURN_NONE;
}

/* pause() -> (requests so far, how many of them failed) */
static PyObject *
pause_(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused))
{
    on = false;
    return Py_BuildValue("KK", count, failed);
}

/* ---- the lists of free records */

static const struct {
    const char *name;
    size_t at;
} LISTS[] = {
#define LIST(field) {#field, offsetof(ModuleState, field)},
    FREE_LISTS
#undef LIST
};

/* The list, or NULL with RuntimeError set: what is there does not look like one. */
static FreeList *
list_of(PyObject *native, size_t i)
{
    FreeList *list = (FreeList *)(void *)((char *)PyModule_GetState(native) + LISTS[i].at);
    if (list->room != (BURSAR_FREE_LISTS ? FREE_MAX : 0) || list->n < 0 || list->n > list->room) {
        PyErr_Format(PyExc_RuntimeError, "%s is not there: the extension was built from other headers", LISTS[i].name);
        return NULL;
    }
    return list;
}

/* empty(bursar._native): what is on the lists is given back, and they are as they were when the module was loaded. */
static PyObject *
empty(PyObject *Py_UNUSED(module), PyObject *native)
{
    for (size_t i = 0; i < Py_ARRAY_LENGTH(LISTS); i++) {
        FreeList *list = list_of(native, i);
        if (list == NULL) {
            return NULL;
        }
        free_shut(list);
        free_open(list, list->uncounted);
    }
    Py_RETURN_NONE;
}

/* lengths(bursar._native) -> {name of a list: how many records are on it} */
static PyObject *
lengths(PyObject *Py_UNUSED(module), PyObject *native)
{
    PyObject *all = PyDict_New();
    for (size_t i = 0; all != NULL && i < Py_ARRAY_LENGTH(LISTS); i++) {
        FreeList *list = list_of(native, i);
        PyObject *n = list == NULL ? NULL : PyLong_FromLong(list->n);
        if (n == NULL || PyDict_SetItemString(all, LISTS[i].name, n) < 0) {
            Py_CLEAR(all);
        }
        Py_XDECREF(n);
    }
    return all;
}

static PyMethodDef methods[] = {
    {"arm", arm, METH_VARARGS, NULL}, {"resume", resume, METH_NOARGS, NULL}, {"pause", pause_, METH_NOARGS, NULL},
    {"empty", empty, METH_O, NULL},   {"lengths", lengths, METH_O, NULL},    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "failing", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC
PyInit_failing(void)
{
    return PyModule_Create(&definition);
}
