/* The observer (observer.c): how the kernel tells evidence what happens. After law/observer.py.
 *
 * An observer that fails must not stop a change half way: its error is deferred. So all of these return 0, or -1 only where
 * the error cannot even be stored. Events of every step go through trace/events.h, the rare ones through NOTE.
 */

#pragma once

#include "python/law/records.h"

/* Tell the observer, if there is one. `detail` is a new reference that is given away, or NULL with an exception set
 * (making it failed); it is evaluated only if somebody listens. 0, or -1 with an exception set. */
#define NOTE(k, what, task, detail) ((k)->observer == NULL ? 0 : k_note((k), (what), (task), (detail)))
#define NOTHING Py_NewRef(Py_None)

int k_note(Kernel *k, const char *what, Task *task, PyObject *detail);
int k_count(Kernel *k, const char *counter); /* add one to a counter of `kernel.counters` */
