/* What handle.c offers to the rest. */

#ifndef BURSAR_PYTHON_HANDLE_H
#define BURSAR_PYTHON_HANDLE_H

#include "core.h"

enum { NAME_MAX_LENGTH = 400 }; /* of a name that is repeated as it is: `TEXT_MAX` of errors.py */

/* What a user holds in the hand. */
typedef struct Handle {
    PyObject_HEAD
    Kernel *kernel;
    PyObject *record; /* a Task or a Nursery */
} Handle;

extern PyType_Spec task_handle_spec, nursery_handle_spec;
/* Of a nursery that is open, a task that lives or, if it is NULL, is to come: a `bursar.Nursery`, a `bursar.Task`. New
 * references. */
PyObject *nursery_handle_new(Kernel *k, Nursery *nursery);
PyObject *task_handle_new(Kernel *k, Task *task);
/* Give a new task its function, args[0], and its arguments. Without memory it has none, and fails by that when it begins. */
void handle_give_work(Kernel *k, Task *task, PyObject *const *args, Py_ssize_t n);

#endif
