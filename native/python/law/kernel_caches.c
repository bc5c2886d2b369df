/* The caches of a kernel: how the collector sees them, and how they are dropped. See kernel_caches.h. */

#include "python/law/kernel_caches.h"

int
caches_visit(KernelCaches *caches, visitproc visit, void *arg)
{
    Py_VISIT(caches->spawn_permit);
    Py_VISIT(caches->spawn_terms);
    Py_VISIT(caches->last_terms);
    Py_VISIT(caches->heritage);
    Py_VISIT(caches->snapshot);
    Py_VISIT(caches->stage);
    Py_VISIT(caches->cancel_args);
    Py_VISIT(caches->cancel_spare);
    Py_VISIT(caches->timer_permit);
    Py_VISIT(caches->threads);
    Py_VISIT(caches->thread_terms);
    Py_VISIT(caches->thread_code);
    Py_VISIT(caches->thread_notes);
    return 0;
}

void
caches_clear(KernelCaches *caches)
{
    Py_CLEAR(caches->spawn_permit);
    Py_CLEAR(caches->spawn_terms);
    Py_CLEAR(caches->last_terms);
    Py_CLEAR(caches->heritage);
    Py_CLEAR(caches->snapshot);
    Py_CLEAR(caches->stage);
    Py_CLEAR(caches->cancel_spare); /* before its arguments */
    Py_CLEAR(caches->cancel_args);
    Py_CLEAR(caches->timer_permit);
    Py_CLEAR(caches->threads);
    Py_CLEAR(caches->thread_terms);
    Py_CLEAR(caches->thread_code);
    Py_CLEAR(caches->thread_notes);
}
