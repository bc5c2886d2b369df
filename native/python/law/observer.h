/* The observer (observer.c): the function that gets every event of the kernel. After `note` in law/dispatch.py.
 *
 * An observer that raises must not stop a change half way: its error is deferred, and both functions return 0. Events
 * of every step go through trace/events.h, rare events through NOTE.
 */

#pragma once

#include "python/law/records.h"

/* Give an event to the observer, if there is one. `detail` is evaluated only then: a new reference, which is stolen, or
 * NULL with an exception set. Always 0. */
#define NOTE(k, what, task, detail) ((k)->observer == NULL ? 0 : k_note((k), (what), (task), (detail)))
#define NOTHING Py_NewRef(Py_None)

int k_note(Kernel *k, const char *what, Task *task, PyObject *detail);
int k_count(Kernel *k, const char *counter); /* add one to a counter of `kernel.counters` */
