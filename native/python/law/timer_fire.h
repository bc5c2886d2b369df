/* The passing of time (timer_fire.c): due timers wake, cancel and expire. After law/kernel.py.
 *
 * Both are methods of the kernel, for kernel.c. Firing only queues tasks; it never polls one.
 */

#pragma once

#include "python/law/records.h"

PyObject *kernel_advance(Kernel *k, PyObject *const *args,
                         Py_ssize_t n);            /* advance(now_ns, most=None): how many fired */
PyObject *kernel_fire(Kernel *k, PyObject *timer); /* _fire(timer): None */
