/* The frequent events: one function per kind. The twin is trace/catalogue.py.
 *
 * Each function writes the record with the observer's trace writer. If that is not possible, the function makes the detail
 * and calls the observer in Python. Call these functions only if the kernel has an observer: use NOTED. All return what
 * `k_note` returns.
 */

#pragma once

#include "python/trace/writer.h"

#define NOTED(k, call) (LIKELY((k)->observer == NULL) ? 0 : (call))

bool note_clock(Kernel *k, PyObject *now); /* the host's time in the middle of a batch; false: no record was written */
int note_step_begin(Kernel *k);
int note_decision(Kernel *k, Task *task, LawLane lane, Worker *worker, uint32_t limit);
int note_step_end(Kernel *k, Task *task);
int note_task(Kernel *k, Note note, Task *task); /* kinds whose only field is the task */
int note_spawned(Kernel *k, Task *task, PyObject *budget);
int note_enqueued(Kernel *k, Task *task, Worker *home, bool timed, int64_t deadline_ns); /* home NULL: the injector */
int note_woken(Kernel *k, Task *task, uint64_t generation, LawNotice notice);
int note_blocked(Kernel *k, Task *task);
int note_done(Kernel *k, Task *task);
int note_charged(Kernel *k, Task *task, const LawCost *cost, PyObject *row); /* row NULL: made if needed */
int note_timer(Kernel *k, Note note, Task *task, Timer *timer);
int note_nursery_opened(Kernel *k, Nursery *nursery, PyObject *budget);
int note_nursery(Kernel *k, Note note, Nursery *nursery);            /* closing, cancelling, closed */
int note_cancel(Kernel *k, Note note, Task *task, PyObject *reason); /* requested, delivered */
