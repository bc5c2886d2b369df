/* Read-only Python views of queues of tasks (queue_view.c): a lane of a worker, or the injector. kernel_py.c and
 * worker.c make a view when Python reads the attribute.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec queue_view_spec;

/* A view of a queue inside `owner` that links tasks by `Task.link`. A new reference, or NULL with MemoryError set. */
PyObject *queue_view_make(ModuleState *st, PyObject *owner, LawQueue *queue);

/* A view of the timed lane of a worker. A new reference, or NULL with MemoryError set. */
PyObject *queue_view_make_timed(ModuleState *st, Worker *worker);
