/* Timers: one heap under one lock, and one thread that sleeps until the first is due.
 *
 * What is due goes to the timed lane, where any worker finds it. So no worker looks at the clock, a worker that computes
 * for a second delays nobody's timer, and of a hundred idle workers none wakes up for somebody else's deadline. The thread
 * is made by the first timer; a program without timers has none.
 *
 * Deterministic schedulers have no such thread and no clock: when nothing can run, time jumps to the first deadline.
 *
 * TIMER-1  timers that are due together fire in the order of (deadline, id); ids rise with every arming
 * TIMER-2  a timer is fired or disarmed under the lock: after timers_disarm nobody will touch its record
 * TIMER-3  an alarm rings without a lock, on the thread that fires timers: what it rings for is copied before, so its
 *     record may be gone by then, and what it calls may arm and disarm
 *
 * Rejected: a heap per worker (who fires it while the worker computes?) and a worker in the role of timekeeper (it must be
 * replaced, by a wake that costs microseconds, whenever it finds work).
 */
#pragma once

#include <pthread.h>

#include "engine/lock.h"
#include "engine/memory.h"
#include "engine/park.h"
#include "law/heap.h"

struct Scheduler;
struct Task;
struct Worker;

typedef struct {
    Lock lock;
    LawHeap heap;
    uint64_t next_id;
    size_t heap_bytes; /* of the block that the heap has */
    const EngineMemory *memory;
    struct Scheduler *scheduler;
    Parker parker;
    pthread_t thread;
    bool has_thread;
    bool stop;
} Timers;

/* No timers yet. False if the system has no more conditions (never on Linux). */
bool timers_init(Timers *timers, struct Scheduler *scheduler, const EngineMemory *memory);

/* Stop the thread, free the heap. */
void timers_destroy(Timers *timers);

/* Make sure that there is a thread, before anything is armed. `self` is the running task, or NULL. False if there is none to
 * be had. Called without locks: a task that has too little stack for it lets the loop do it. */
bool timers_ready(Timers *timers, struct Task *self);

/* The same, on a stack that has room for it. */
bool timers_make_thread(Timers *timers);

/* Arm a timer that belongs to a Waiter (wait.h). ENGINE_OK, or ENGINE_MEMORY if there is no memory or no thread. */
int timers_arm(Timers *timers, LawHeapEntry *timer, int64_t deadline_ns);
void timers_disarm(Timers *timers, LawHeapEntry *timer);

/* Call `ring(context, what)` once, at that time. Arming one that is armed moves it. Answers as timers_arm; disarmed as any
 * timer is, though it may be ringing at that moment. */
typedef struct Alarm Alarm;
int timers_set_alarm(Timers *timers, Alarm *alarm, int64_t deadline_ns, void (*ring)(void *context, uint64_t what),
                     void *context, uint64_t what);
void timers_clear_alarm(Timers *timers, Alarm *alarm);

/* Deterministic: let time jump to the first deadline and fire what is due then. False if nothing is armed. */
bool timers_jump(Timers *timers, struct Worker *worker, int64_t *now_ns);
