/* What drives the coroutines of one kernel: the type (driver.c), one poll (poll.c), one answer (request_answer.c). */

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
        uint64_t odd; /* not 0: one of these */
    };
} Driver;

extern PyType_Spec driver_spec;

typedef enum { STEP_ERROR = -1, STEP_NONE = 0, STEP_DONE = 1, STEP_TURNED = 2, STEP_ELSEWHERE = 3 } Step;

/* One step or, `straight`, several while they are turns, *most at the most, less those that were made. `task`: who was
 * dispatched already, and comes first and is not counted; or NULL. */
Step driver_steps(Driver *self, Task *task, bool straight, long *most);
Step driver_polled_oddly(Driver *self, Task *task); /* the poll in it, where it is `checked` or may be `anywhere` */
int driver_see_to_collected(Driver *self);          /* after a poll: the collector found something */

/* Run a task that was just dispatched until its poll is over. 0, or -1 with an exception set. */
int driver_poll(Driver *self, Task *task);

typedef enum { ASK_ERROR = -1, ASK_ANSWERED = 0, ASK_SUSPENDED = 1 } Asked;

/* Bill and perform a request, which is given away, unless there is an error to raise. ANSWERED: *value is the result, or
 * *error is to be raised at the await point; new references. SUSPENDED: the poll is over. */
Asked driver_answer(Driver *self, Task *task, Request *request, PyObject **value, PyObject **error);

/* What a request was refused with goes to the await point, as *error; a bug of ours, or worse, goes out. So does what failed
 * when the poll was over: the task waits already, and cannot be told. 0 or -1. */
COLD int driver_refused(Driver *self, Task *task, PyObject **error);

/* A metered task's code begins to run: 0, or -1 with an exception set. */
int metered_enter(Driver *self, Task *task);

/* It has stopped, but will run again: the error to raise where it stands, or None; NULL with an exception set. */
PyObject *metered_leave(Driver *self, Task *task);

/* It will not run again, and ended with `error`, or well (NULL): what to raise instead, or None; NULL likewise. */
PyObject *metered_end(Driver *self, Task *task, PyObject *error);

/* Call a method of the Python class for its effect; `what` may be NULL. 0, or -1 with an exception set. */
int driver_call(Driver *self, const char *name, PyObject *task, PyObject *what);
