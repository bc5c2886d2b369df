/* `nursery.spawn`, the fast path: a function, with arguments in which no tasks are hidden. The slow twin is
 * `Nursery._spawn` in src/bursar/ops/nursery.py, which handles every spawn.
 */

#pragma once

#include "python/fast_paths.h"
#include "python/law/spawn_fast.h"
#include "python/ops/handle.h"

/* Whether the argument is a container, in which a plain function may find tasks. */
static inline bool
may_contain(PyObject *arg)
{
    return PyList_CheckExact(arg) || PyTuple_CheckExact(arg) || PyDict_CheckExact(arg) || PyAnySet_CheckExact(arg);
}

/* Whether it is a function of Bursar, which must not run on a thread: `is_own` in ops/classify.py. */
static inline bool
is_own(ModuleState *st, PyFunctionObject *fn)
{
    bool named = st->own_modules != NULL && fn->func_module != NULL && PyUnicode_CheckExact(fn->func_module);
    return named && PySet_Contains(st->own_modules, fn->func_module) == 1;
}

/* Whether C can do this spawn, here or in gate_spawn.c. *coroutine: the function is an `async def`; *tasks: some
 * arguments are tasks, which are dependencies. */
static inline bool
is_plain_handle_spawn(Handle *self, PyObject *const *args, Py_ssize_t n, bool *coroutine, bool *tasks)
{
    Kernel *k = self->kernel;
    if (!FAST_PATHS || k == NULL || n < 1 || !PyFunction_Check(args[0]) || k->current == NULL ||
        k->thread != PyThread_get_thread_ident()) {
        return false;
    }
    PyFunctionObject *fn = (PyFunctionObject *)args[0];
    *coroutine = (((PyCodeObject *)fn->func_code)->co_flags & CO_COROUTINE) != 0;
    if (!*coroutine && ((fn->func_dict != NULL && PyDict_GET_SIZE(fn->func_dict) > 0) || is_own(k->st, fn))) {
        return false; /* its attributes may say that it wraps an `async def`; ours may return a request */
    }
    if (PyUnicode_GET_LENGTH(fn->func_qualname) == 0 || PyUnicode_GET_LENGTH(fn->func_qualname) > LAW_TEXT_MAX) {
        return false;
    }
    *tasks = false;
    for (Py_ssize_t i = 1; i < n; i++) {
        *tasks = *tasks || PyObject_TypeCheck(args[i], k->st->TaskHandle);
        if (!*coroutine && may_contain(args[i])) {
            return false;
        }
    }
    return true;
}

/* Spawn a coroutine function that needs no gate. */
static inline PyObject *
handle_spawn_fast(Kernel *k, Nursery *nursery, PyObject *const *args, Py_ssize_t n)
{
    PyObject *name = ((PyFunctionObject *)args[0])->func_qualname;
    PyObject *handle = task_handle_new(k); /* first: a spawn that is refused leaves nothing behind */
    Task *task = handle == NULL ? NULL : k_spawn_fast(k, nursery, name);
    if (task == NULL) {
        Py_XDECREF(handle);
        return NULL;
    }
    ((Handle *)handle)->record = (PyObject *)task;
    handle_give_work(k, task, args, n);
    return handle;
}
