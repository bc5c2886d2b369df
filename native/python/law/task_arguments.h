/* The arguments of a task that has not begun (task_arguments.c), and its beginning. */

#pragma once

#include "python/law/task.h"

extern PyType_Spec arguments_spec;

/* New reference, or NULL with MemoryError set. */
PyObject *arguments_new(ModuleState *st, PyObject *const *items, Py_ssize_t n);
void arguments_dealloc(Arguments *arguments);

/* Those of a task that has not begun; NULL: what its `answer` is, if it has one, is none. */
static inline Arguments *
task_arguments(const Task *task)
{
    bool has = task->answer != NULL && Py_TYPE(task->answer)->tp_dealloc == (destructor)arguments_dealloc;
    return has ? (Arguments *)(void *)task->answer : NULL;
}

/* Make the coroutine of a task that is `task_not_begun`. 0, or -1 with an exception set: the task is as before. */
static inline int
task_begin(ModuleState *st, Task *task)
{
    Arguments *args = task_arguments(task);
    task->answer = NULL;
    PyObject *work = function_call(task->work, args ? args->item : NULL, args ? (size_t)Py_SIZE(args) : 0);
    if (!LIKELY(work != NULL) && (work = task_raise_later(st)) == NULL) {
        task->answer = (PyObject *)args;
        return -1;
    }
    Py_XDECREF((PyObject *)args);
    Py_SETREF(task->work, work);
    return 0;
}
