/* Wait lists (waitlist.c): first in, first out queues of waiting tasks. After law/wake.py.
 *
 * Every operation that can wait (channels, events, joins) keeps one. A list owns the waits in it and borrows the tasks that
 * wait bare (RECORD-2).
 */

#pragma once

#include "python/law/wait.h"

extern PyType_Spec waitlist_spec;

WaitList *waitlist_new(ModuleState *st); /* new reference, or NULL with MemoryError set */
/* Put a task that waits bare, or a wait, of which the list takes a reference, at the end. A second time changes nothing. */
void waitlist_join(WaitList *list, PyObject *waiter);
void waitlist_leave(WaitList *list, PyObject *waiter); /* if it is in; may drop the last reference to a wait */
PyObject *waitlist_oldest(WaitList *list);             /* borrowed, or NULL if empty */
PyObject *waitlist_take(WaitList *list);               /* the oldest, taken out: new reference, or NULL if empty */
static inline bool
waitlist_empty(const WaitList *list)
{
    return law_queue_empty(&list->queue);
}
