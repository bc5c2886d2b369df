/* The condition of the fast paths of admission: a plain ticket (ticket.h). The slow twins are the methods of the
 * classes in law/admission/gate.py and law/admission/ticket.py, which handle every ticket.
 */

#pragma once

#include "python/fast_paths.h"
#include "python/law/admission/ticket.h"

/* The ticket of a task, if it is plain. NULL: the task has no ticket, or the ticket has rare fields. Borrowed. */
static inline Ticket *
plain_ticket(ModuleState *st, const Task *task)
{
    PyObject *ticket = task->extra != NULL ? task->extra->ticket : NULL;
    bool plain = FAST_PATHS && ticket != NULL && Py_TYPE(ticket) == st->Ticket && ((Ticket *)ticket)->rare == NULL;
    return plain ? (Ticket *)ticket : NULL;
}
