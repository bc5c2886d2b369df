/* Timers: one heap under one lock, and one thread that sleeps until the first timer is due.
 *
 * The waits of due timers go to the timed lane, where any worker finds them. So no worker reads the clock, a worker
 * that computes for a second delays no timer, and of a hundred idle workers none wakes up for another worker's
 * deadline. The first timer makes the thread; a program without timers has none.
 *
 * Deterministic schedulers have no such thread and no clock: when nothing can run, time jumps to the first deadline.
 *
 * TIMER-1  timers that are due together fire in the order of (deadline, id); ids rise with every arming
 * TIMER-2  a timer is fired or disarmed under the lock: after timers_disarm no thread touches its record
 * TIMER-3  an alarm's function is called without a lock, on the thread that fires timers. What it needs is copied
 *     before the call, so the record may be gone by then, and the function may arm and disarm timers
 *
 * Rejected: a heap per worker (no thread could fire it while the worker computes); a worker as timekeeper (it must be
 * replaced, by a wake that costs microseconds, whenever it finds work).
 */
#pragma once

#include <pthread.h>

#include "engine/allocator.h"
#include "engine/lock.h"
#include "engine/park.h"
#include "law/heap.h"

struct Scheduler;
struct Task;
struct Worker;

typedef struct {
    Lock lock;
    LawHeap heap;
    uint64_t next_id;
    size_t heap_bytes; /* the size of the heap's block */
    const EngineAllocator *memory;
    struct Scheduler *scheduler;
    Parker parker;
    pthread_t thread;
    bool has_thread;
    bool stop;
} Timers;

/* Make an empty heap. Returns false if the system has no condition variable left (never on Linux). */
bool timers_init(Timers *timers, struct Scheduler *scheduler, const EngineAllocator *memory);

/* Stop the thread, free the heap. */
void timers_destroy(Timers *timers);

/* Make sure that there is a thread, before a timer is armed. `self` is the running task, or NULL. Returns false if no
 * thread can be made. Called without locks: if the task has too little stack, the worker's loop makes the thread. */
bool timers_ready(Timers *timers, struct Task *self);

/* The same, on a stack that has enough room. */
bool timers_make_thread(Timers *timers);

/* Arm a timer of a Waiter (wait.h). Returns ENGINE_OK, or ENGINE_MEMORY if there is no memory or no thread. */
int timers_arm(Timers *timers, LawHeapEntry *timer, int64_t deadline_ns);
void timers_disarm(Timers *timers, LawHeapEntry *timer);

/* Call `call(context, what)` once, at that time. To set an alarm that is set moves it. Returns as timers_arm. After
 * timers_clear_alarm a call that has begun may still run. */
typedef struct Alarm Alarm;
int timers_set_alarm(Timers *timers, Alarm *alarm, int64_t deadline_ns, void (*call)(void *context, uint64_t what),
                     void *context, uint64_t what);
void timers_clear_alarm(Timers *timers, Alarm *alarm);

/* Deterministic: let time jump to the first deadline, and fire the timers that are due then. Returns false if none is
 * armed. */
bool timers_jump(Timers *timers, struct Worker *worker, int64_t *now_ns);
