/* Visits: see visit.h. The only file with thread-local storage. */
#include "abi/visit.h"

#include "abi/janus_nursery.h"
#include "engine/fast_paths.h"
#include "engine/shutdown.h"
#include "engine/task_leave.h"
#include "include/janus_rt.h"

/* What a thread has. All fields but `runner` are for outside threads (ABI-2). */
typedef struct {
    struct runner *runner; /* on threads that run tasks; otherwise NULL */
    Nursery *opened;       /* innermost first, linked by `outer` */
    uint32_t epoch;        /* of the runtime that `opened` and `awaited` belong to */
    Ending awaited;
    bool has_awaited;
    int64_t ticks;
    uint32_t callbacks; /* how many calls of callbacks this thread is in */
} ThreadState;

/* glibc keeps some room beside each thread's own data for libraries that are loaded late. There an access is an
 * address, not a call. Other C libraries may have no such room. */
#if defined(__GLIBC__) && defined(__GNUC__)
__attribute__((tls_model("initial-exec")))
#endif
static _Thread_local ThreadState thread_state;

/* ABI-1. The empty statement with a side effect keeps the compiler from merging calls of this function. */
static NOINLINE ThreadState *
this_thread(void)
{
    __asm__ __volatile__("");
    return &thread_state;
}

/* ABI-1 */
NOINLINE void
visit_thread_hook(void *context, struct runner *runner)
{
    (void)context;
    this_thread()->runner = runner;
}

/* The worker of a runner, or NULL if no task runs there. A task that has too little stack for the call ends here,
 * before it takes a lock: a task that overflows later would keep the lock. */
static ALWAYS_INLINE Worker *
worker_of(const struct runner *runner)
{
    Worker *worker = runner != NULL ? runner->worker : NULL;
    if (worker == NULL || worker->current == NULL) {
        return NULL;
    }
    return stack_has_headroom(runner->stack) ? worker : worker_check_stack(worker);
}

NOINLINE Worker *
visit_worker(void)
{
    __asm__ __volatile__(""); /* ABI-1 */
    return worker_of(thread_state.runner);
}

NOINLINE Task *
visit_task(void)
{
    __asm__ __volatile__(""); /* ABI-1 */
    const Worker *worker = worker_of(thread_state.runner);
    return worker != NULL ? worker->current : NULL;
}

Visit
visit_enter(void)
{
    return (Visit){.runtime = runtime_enter() ? &the_runtime : NULL};
}

void
visit_leave(const Visit *visit)
{
    if (visit->runtime != NULL) {
        scheduler_leave(&visit->runtime->scheduler);
    }
}

Visit
visit_begin_or_start(void)
{
    Visit visit = visit_begin();
    if (visit.runtime == NULL) {
        (void)janus_rt_init_default(); /* fails if another thread starts it at the same time */
        visit = visit_begin();
    }
    return visit;
}

Nursery **
current_opened(const Visit *visit)
{
    if (visit->task != NULL) {
        return &visit->task->opened;
    }
    ThreadState *thread = this_thread();
    if (thread->epoch != the_runtime.epoch) { /* what it has is of an earlier runtime, and is gone */
        thread->epoch = the_runtime.epoch;
        thread->opened = NULL;
        thread->has_awaited = false;
    }
    return &thread->opened;
}

/* The fast path, for a child without options in a task's current nursery. It is in this file so that it needs no other
 * call to find its caller. spawn_current is the slow path. */
NOINLINE int
janus_nursery_spawn(janus_task_fn fn, void *arg)
{
    __asm__ __volatile__(""); /* ABI-1 */
    Worker *worker = worker_of(thread_state.runner);
    Task *self = worker != NULL ? worker->current : NULL;
    if (self != NULL && self->opened != NULL && spawn_fast(self->opened, worker, self, fn, arg)) {
        return 0;
    }
    return spawn_current(fn, arg, NULL);
}

void
note_awaited(const Ending *ending)
{
    ThreadState *thread = this_thread();
    thread->awaited = *ending;
    thread->has_awaited = true;
}

Ending
last_awaited(const Visit *visit)
{
    if (visit->task != NULL) {
        return visit->task->has_awaited ? visit->task->awaited : (Ending){.kind = END_NONE};
    }
    ThreadState *thread = this_thread();
    return thread->has_awaited ? thread->awaited : (Ending){.kind = END_NONE};
}

bool
callbacks_begin(void)
{
    ThreadState *thread = this_thread();
    bool is_outside = thread->runner == NULL;
    thread->callbacks += is_outside ? 1 : 0;
    return is_outside;
}

void
callbacks_end(bool noted)
{
    if (noted) {
        this_thread()->callbacks -= 1;
    }
}

bool
visit_may_stop(void)
{
    const ThreadState *thread = this_thread();
    return thread->runner == NULL && thread->callbacks == 0;
}

int64_t *
outside_ticks(void)
{
    ThreadState *thread = this_thread();
    thread->ticks = INT64_MAX;
    return &thread->ticks;
}
