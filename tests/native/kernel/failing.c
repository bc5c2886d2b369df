/* An allocator that counts requests for memory (test_requests.py) and lets the n-th one fail (test_faults.py).
 *
 * It counts all requests, or only those of the C kernel: those with code of the kernel on the stack above the innermost
 * Python frame. The interpreter has faults of its own: without memory for the frame of a call, 3.11 leaks the
 * arguments. A request in a function that would crash never fails: see `is_frail`.
 *
 * It is put in front of the interpreter's allocators (PyMem and PyObject) and calls them. PyMem_Raw is left out,
 * because threads without the GIL use it too. The allocator is never removed, because blocks may be freed at any time.
 *
 * Taking a record from a free list of the kernel is no request. So this file can also empty the lists. It finds them by
 * the layout of the module's state. So it must be built from the same headers as the extension, and with freelist.c.
 * FREE_LISTS names all lists, as LIST(free_tasks) LIST(free_handles) …; conftest.py reads the names in
 * module/module_state.h.
 */

#define _GNU_SOURCE /* dladdr */
#include "python/module/module_state.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unwind.h>

enum { DEPTH_MAX = 40 }; /* how many frames to look at: the kernel never has more of its own above a Python frame */

static PyMemAllocatorEx below[2]; /* the allocators of PYMEM_DOMAIN_MEM and PYMEM_DOMAIN_OBJ */
static bool installed, on, kernel_only;
static unsigned long long count, fail_at, failed;

/* The code that makes a request: a function of the interpreter that would crash without memory, the kernel, or
 * other. */
typedef enum { FROM_FRAIL, FROM_KERNEL, FROM_OTHER } Origin;

static bool
is_frail(const char *name)
{
    return strcmp(name, "PyFunction_NewWithQualName") == 0; /* 3.12 does not check for NULL */
}

/* The Origin that follows from one address on the stack; UNDECIDED: the next outer frame decides. */
enum { UNDECIDED = FROM_OTHER + 1 };

static int
origin_of(void *address)
{
    Dl_info info;
    if (dladdr(address, &info) == 0) {
        return UNDECIDED;
    }
    if (info.dli_fname != NULL && strstr(info.dli_fname, "/_native.") != NULL) {
        return FROM_KERNEL;
    }
    if (info.dli_sname != NULL && is_frail(info.dli_sname)) {
        return FROM_FRAIL;
    }
    if (info.dli_sname != NULL && strcmp(info.dli_sname, "_PyEval_EvalFrameDefault") == 0) {
        return FROM_OTHER;
    }
    return UNDECIDED;
}

/* A cache, because `dladdr` searches the whole symbol table of the interpreter. */
static struct {
    void *address;
    int origin;
} known[1 << 12];

typedef struct {
    int origin;
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
        known[place].origin = origin_of(address);
    }
    walk->origin = known[place].origin;
    walk->depth += 1;
    return walk->origin != UNDECIDED || walk->depth == DEPTH_MAX ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static Origin
request_origin(void)
{
    Walk walk = {UNDECIDED, 0};
    _Unwind_Backtrace(step_out, &walk);
    return walk.origin == UNDECIDED ? FROM_OTHER : (Origin)walk.origin;
}

/* Count this request. Returns whether it must fail. */
static bool
fails(void)
{
    if (!on || failed != 0) {
        return false; /* requests after the failed one are not counted */
    }
    Origin origin = request_origin();
    if (origin == FROM_FRAIL || (kernel_only && origin != FROM_KERNEL)) {
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

/* arm(n, kernel_only): the n-th request after the next `resume` will fail; 0: none will. */
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

/* ---- the free lists */

static const struct {
    const char *name;
    size_t at;
} LISTS[] = {
#define LIST(field) {#field, offsetof(ModuleState, field)},
    FREE_LISTS
#undef LIST
};

/* A free list, or NULL with RuntimeError set: the memory at its place does not look like a free list. */
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

/* empty(bursar._native): free all records in the free lists. */
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

/* lengths(bursar._native) -> {name of a free list: how many records are in it} */
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
