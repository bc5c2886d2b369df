/* Handles: the `Task` and the `Nursery` that a user holds (handle.c). After ops/task.py and ops/nursery.py.
 *
 * A handle refers to its record and to its kernel. handle.c, gate_spawn.c and nursery_block.c make handles.
 */

#pragma once

#include "python/cpython/context_fast.h"
#include "python/law/task.h"

typedef struct Handle {
    PyObject_HEAD
    Kernel *kernel;
    PyObject *record; /* a Task or a Nursery */
} Handle;

extern PyType_Spec task_handle_spec, nursery_handle_spec;

/* A handle without its record, which the caller sets later. So the handle can be made first, and a spawn that is
 * refused leaves nothing behind. New reference, or NULL with MemoryError set. */
static inline PyObject *
handle_new(Kernel *k, FreeList *list, PyTypeObject *type)
{
    Handle *self = (Handle *)free_make_bare(list, type);
    if (self == NULL) {
        return NULL;
    }
    self->kernel = (Kernel *)Py_NewRef((PyObject *)k);
    self->record = NULL;
    gc_aside_keep(&k->gc_aside, (PyObject *)self);
    return (PyObject *)self;
}

/* A `bursar.Task`. Nearly every spawn makes one, and most are dropped at once. */
static inline PyObject *
task_handle_new(Kernel *k)
{
    return handle_new(k, &k->st->free_handles, k->st->TaskHandle);
}

/* A `bursar.Nursery`. */
static inline PyObject *
nursery_handle_new(Kernel *k)
{
    return handle_new(k, &k->st->free_nursery_handles, k->st->NurseryHandle);
}

/* Give a new task its function, args[0], and its arguments. Without memory the task gets none, and fails when it
 * begins. The coroutine is made when the task begins (`task_begin`): a task that waits long for its first poll needs
 * no coroutine until then. */
static inline void
handle_give_work(Kernel *k, Task *task, PyObject *const *args, Py_ssize_t n)
{
    if (context_at_spawn(k, task) < 0 || (n > 1 && (task->answer = arguments_new(k->st, args + 1, n - 1)) == NULL)) {
        PyErr_Clear();
        return;
    }
    task->work = Py_NewRef(args[0]);
}
