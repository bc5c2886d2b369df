/* Read-only views of queues of tasks, for Python (queue_view.c): a lane of a worker, or the injector. kernel.c and worker.c
 * make views when Python asks for a lane.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec queue_view_spec;

/* A view of a queue of `Task.link` that lies inside `owner`. A new reference, or NULL with MemoryError set. */
PyObject *queue_view_make(ModuleState *st, PyObject *owner, LawQueue *queue);

/* A view of the timed lane of a worker. A new reference, or NULL with MemoryError set. */
PyObject *queue_view_make_timed(ModuleState *st, Worker *worker);
