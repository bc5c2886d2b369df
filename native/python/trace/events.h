/* The notes of every step: one function per kind of event that happens to every task. After trace/catalogue.py.
 *
 * Each writes the record by the observer's trace writer, or makes the detail and tells an observer in Python. Only to
 * be called if somebody listens: see NOTED. All return what `k_note` does.
 */

#pragma once

#include "python/trace/writer.h"

#define NOTED(k, call) (LIKELY((k)->observer == NULL) ? 0 : (call))

bool note_clock(Kernel *k, PyObject *now); /* the host's time in the middle of a batch; false: it is not written */
int note_step_begin(Kernel *k);
int note_decision(Kernel *k, Task *task, LawLane lane, Worker *worker, uint32_t limit);
int note_step_end(Kernel *k, Task *task);
int note_task(Kernel *k, Note note, Task *task); /* kinds that say nothing but whose task it is */
int note_spawned(Kernel *k, Task *task, PyObject *budget);
int note_enqueued(Kernel *k, Task *task, Worker *home, bool timed, int64_t deadline_ns); /* home: NULL: the injector */
int note_woken(Kernel *k, Task *task, uint64_t generation, LawNotice notice);
int note_blocked(Kernel *k, Task *task);
int note_done(Kernel *k, Task *task);
int note_charged(Kernel *k, Task *task, const LawCost *cost, PyObject *row); /* row: NULL: made if need be */
int note_timer(Kernel *k, Note note, Task *task, Timer *timer);
int note_nursery_opened(Kernel *k, Nursery *nursery, PyObject *budget);
int note_nursery(Kernel *k, Note note, Nursery *nursery);            /* closing, cancelling, closed */
int note_cancel(Kernel *k, Note note, Task *task, PyObject *reason); /* requested, delivered */
