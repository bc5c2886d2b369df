/* The caches of a kernel: visiting them for the collector, and dropping them. See kernel_caches.h. */

#include "python/law/kernel_caches.h"

int
caches_visit(KernelCaches *caches, visitproc visit, void *arg)
{
    Py_VISIT(caches->checked_spawn_cap);
    Py_VISIT(caches->spawn_terms);
    Py_VISIT(caches->last_terms);
    Py_VISIT(caches->inherited_capabilities);
    Py_VISIT(caches->snapshot);
    Py_VISIT(caches->shared_context);
    Py_VISIT(caches->cancel_args);
    Py_VISIT(caches->cancel_spare);
    Py_VISIT(caches->checked_timer_cap);
    Py_VISIT(caches->threads);
    Py_VISIT(caches->thread_terms);
    Py_VISIT(caches->thread_code);
    Py_VISIT(caches->thread_notes);
    return 0;
}

void
caches_clear(KernelCaches *caches)
{
    Py_CLEAR(caches->checked_spawn_cap);
    Py_CLEAR(caches->spawn_terms);
    Py_CLEAR(caches->last_terms);
    Py_CLEAR(caches->inherited_capabilities);
    Py_CLEAR(caches->snapshot);
    Py_CLEAR(caches->shared_context);
    Py_CLEAR(caches->cancel_spare); /* before its arguments */
    Py_CLEAR(caches->cancel_args);
    Py_CLEAR(caches->checked_timer_cap);
    Py_CLEAR(caches->threads);
    Py_CLEAR(caches->thread_terms);
    Py_CLEAR(caches->thread_code);
    Py_CLEAR(caches->thread_notes);
}
