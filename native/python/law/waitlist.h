/* Wait lists (waitlist.c): first in, first out queues of waiting tasks. After law/wake.py.
 *
 * Every operation that can wait (channels, events, joins) keeps one. A list owns the waits in it and borrows the tasks
 * that wait bare (RECORD-2).
 */

#pragma once

#include "python/law/wait.h"

extern PyType_Spec waitlist_spec;

WaitList *waitlist_new(ModuleState *st); /* new reference, or NULL with MemoryError set */
/* Put a bare task or a wait at the end. The list owns a wait. Does nothing if the waiter is in a list already. */
void waitlist_join(WaitList *list, PyObject *waiter);
/* Take a waiter out, if it is in the list. May drop the last reference to a wait. */
void waitlist_leave(WaitList *list, PyObject *waiter);
PyObject *waitlist_oldest(WaitList *list); /* borrowed, or NULL if the list is empty */
PyObject *waitlist_take(WaitList *list);   /* take the oldest out: new reference, or NULL if the list is empty */
static inline bool
waitlist_empty(const WaitList *list)
{
    return law_queue_empty(&list->queue);
}
