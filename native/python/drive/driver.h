/* The driver of the coroutines of one kernel: the type `Driver` (driver.c). After drive/coroutine.py.
 *
 * One poll is in poll.h, the answer to one request in request_answer.h.
 */

#pragma once

#include "python/ops/request.h"

typedef struct Driver {
    PyObject_HEAD
    Kernel *kernel;
    PyObject *clock;     /* called before a request that sets a deadline; NULL: not called */
    long long start_ns;  /* the reading of the machine's clock when the run began; -1: the run has another clock */
    PyObject *meter;     /* the MemoryMeter, or NULL */
    PyObject *collected; /* deque of the generators to be closed after the poll; NULL: not watched */
    PyObject *begun;     /* dictionary of the tasks that have begun generators; or NULL */
    PyObject
        *ours; /* list of the code objects of Bursar's own coroutines, which run no code of the program; NULL: none */
    Task *dispatched; /* owned: the task that the next batch polls first, without a decision; NULL: none */
    Resume *resume;
    bool held; /* a caller on the stack holds the kernel: see gc_aside.c */
    union {
        struct {
            bool metered;  /* there is a meter */
            bool measured; /* a budget states processor time */
            bool checked;  /* a class overrides `poll`, so it is called by its name */
            bool anywhere; /* a pool thread drives: only coroutines in `ours` may be polled */
            bool aborting; /* a second Ctrl-C: KeyboardInterrupt ends the run */
            bool stopped;  /* make no more steps */
        };
        uint64_t special; /* not 0: at least one of these is set */
    };
} Driver;

extern PyType_Spec driver_spec;

typedef enum { STEP_ERROR = -1, STEP_NONE = 0, STEP_DONE = 1, STEP_YIELDED = 2, STEP_ELSEWHERE = 3 } Step;

Step driver_poll_special(Driver *self, Task *task); /* the poll of a step if `checked` or `anywhere` is set */
int driver_close_collected(Driver *self);           /* after a poll, if `collected` is not empty */
