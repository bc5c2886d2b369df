/* What drives the coroutines of one kernel: the type `Driver` (driver.c). After drive/coroutine.py.
 *
 * One poll is poll.h, one answer to a request is request_answer.h.
 */

#pragma once

#include "python/ops/request.h"

typedef struct Driver {
    PyObject_HEAD
    Kernel *kernel;
    PyObject *clock;     /* asked before anything that sets a deadline; NULL: nobody */
    long long start_ns;  /* if the run's clock is the machine's, its reading when the run began; else -1 */
    PyObject *meter;     /* MemoryMeter: charges what the program's code allocates; NULL: nobody does */
    PyObject *collected; /* deque, so an object with a size, of what the collector found; NULL: nobody looks */
    PyObject *ours;      /* list of the code of coroutines that run nothing of the program's; NULL: none */
    Task *dispatched;    /* owned: the first to be polled, by the thread that may; NULL: nobody */
    Resume *resume;
    bool held; /* whoever drives the kernel is on the stack, and holds it: see gc_aside.c */
    union {
        struct {
            bool metered;  /* there is a meter */
            bool checked;  /* `poll` is another one, which must be called by its name */
            bool anywhere; /* this is not the loop's thread: only what `ours` names may be polled */
            bool aborting; /* a second Ctrl-C: KeyboardInterrupt is not a task's affair any more */
            bool stopped;  /* no step is made any more */
        };
        uint64_t special; /* not 0: one of these */
    };
} Driver;

extern PyType_Spec driver_spec;

typedef enum { STEP_ERROR = -1, STEP_NONE = 0, STEP_DONE = 1, STEP_TURNED = 2, STEP_ELSEWHERE = 3 } Step;

Step driver_poll_special(Driver *self, Task *task); /* the poll in it, where it is `checked` or may be `anywhere` */
int driver_close_collected(Driver *self);           /* after a poll: the collector found something */
