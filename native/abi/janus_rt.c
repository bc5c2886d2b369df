/* The C interface: the runtime and who is calling. The only file with thread-local storage; see abi.h. */
#include "abi/abi.h"
#include "abi/current.h"
#include "abi/token.h"
#include "engine/fast_paths.h"
#include "engine/shutdown.h"
#include "engine/worker_loop.h"
#include "hints.h"

#include <string.h>

/* The one global, and what guards it. `state` is changed under the lock. */
enum { DOWN = 0, UP = 1, MOVING = 2 };
Runtime the_runtime;
static Lock gate;
static int state = DOWN;

/* What a thread has. `opened` and `awaited` are for threads outside (ABI-2). */
typedef struct {
    struct runner *runner; /* on threads that run tasks */
    Nursery *opened;       /* innermost first, by `outer` */
    uint32_t epoch;        /* that `opened` belongs to */
    Ending awaited;
    bool has_awaited;
    int64_t ticks;
    uint32_t callbacks; /* that it is in */
} ThreadState;

/* Beside a thread's own data rather than wherever the loader finds room: an address, not a call. glibc keeps some bytes
 * there for libraries that are loaded late; others may not. */
#if defined(__GLIBC__) && defined(__GNUC__)
__attribute__((tls_model("initial-exec")))
#endif
static _Thread_local ThreadState thread_state;

/* ABI-1. The empty statement with a side effect keeps calls from being merged. */
static NOINLINE ThreadState *
this_thread(void)
{
    __asm__ __volatile__("");
    return &thread_state;
}

static NOINLINE void
thread_hook(void *context, struct runner *runner)
{
    (void)context;
    this_thread()->runner = runner;
}

/* ---- visits and handles */

/* The worker of a thread's runner, if a task runs there; that has room for what it asks for, or ends: before any lock
 * is taken, because what overflows later would keep it. */
static ALWAYS_INLINE Worker *
worker_of(const struct runner *runner)
{
    Worker *worker = runner != NULL ? runner->worker : NULL;
    if (worker == NULL || worker->current == NULL) {
        return NULL;
    }
    return stack_is_roomy(runner->stack) ? worker : worker_look_at_stack(worker);
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
    Visit visit = {0};
    lock_take(&gate);
    if (state == UP && scheduler_enter(&the_runtime.scheduler)) {
        visit.runtime = &the_runtime;
    }
    lock_give(&gate);
    return visit;
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
        (void)janus_rt_init_default(); /* or somebody else was quicker */
        visit = visit_begin();
    }
    return visit;
}

void *
handle_from(HandleKind kind, uint64_t place)
{
    uint64_t low = place & ((uint64_t)HANDLE_GENERATION_MASK << 32 | UINT32_MAX);
    return (void *)(uintptr_t)((uint64_t)the_runtime.mark << 56 | (uint64_t)kind << 56 | low);
}

void *
handle_of(HandleKind kind, const SlabHead *head)
{
    return handle_from(kind, (uint64_t)load_u32(&head->generation, RELAXED) << 32 | head->index);
}

static Slab *
slab_of(Runtime *runtime, HandleKind kind)
{
    switch (kind) {
    case HANDLE_NURSERY:
        return &runtime->scheduler.nurseries;
    case HANDLE_CHANNEL:
        return &runtime->scheduler.channels;
    case HANDLE_TASK:
        return &runtime->scheduler.tasks;
    case HANDLE_SELECT:
        return &runtime->selects;
    default:
        return &runtime->tokens;
    }
}

void *
handle_find(const Visit *visit, HandleKind kind, const void *handle, uint32_t *generation)
{
    Runtime *runtime = visit->runtime;
    return runtime == NULL ? NULL : handle_find_in(slab_of(runtime, kind), runtime->mark, kind, handle, generation);
}

/* ---- the runtime */

static int
start(const SchedulerOptions *options)
{
    lock_take(&gate);
    bool ours = state == DOWN;
    state = ours ? MOVING : state;
    lock_give(&gate);
    if (!ours) {
        return JANUS_AGAIN;
    }
    int error = scheduler_start(&the_runtime.scheduler, options);
    if (error == ENGINE_OK) {
        const EngineMemory *memory = the_runtime.scheduler.memory;
        lock_init(&the_runtime.tokens_lock);
        the_runtime.guests = NULL;
        abi_slabs_init(&the_runtime, memory);
    }
    lock_take(&gate);
    the_runtime.epoch += error == ENGINE_OK;
    the_runtime.mark = (the_runtime.epoch & 15) << 4;
    state = error == ENGINE_OK ? UP : DOWN;
    lock_give(&gate);
    return error;
}

int
janus_rt_init_with(const janus_rt_options *options)
{
    if (options == NULL || options->size < sizeof *options || !budget_valid(options->budget) ||
        options->steal_policy > 2 || !profile_allows(options)) {
        return JANUS_INVALID;
    }
    SchedulerOptions ours = {
        .workers = options->worker_count,
        .seed = options->seed,
        .deterministic = options->deterministic,
        .no_stealing = options->no_stealing,
        .sovereign = options->profile == JANUS_PROFILE_SOVEREIGN,
        .policy = (LawStealPolicy)options->steal_policy,
        .budget = budget_in(options->budget),
        .yield_interval =
            options->yield_interval > 0 ? options->yield_interval : profile_yield_interval(options->profile),
        .thread_hook = thread_hook,
        .cancel_hook = tokens_nursery_cancelled,
        .hook_context = &the_runtime,
    };
    return start(&ours);
}

int
janus_rt_init(janus_rt_config config)
{
    janus_rt_options options = {.size = sizeof options, .worker_count = config.worker_count, .seed = config.seed};
    return janus_rt_init_with(&options) == JANUS_OK ? 0 : -1;
}

int
janus_rt_init_default(void)
{
    return janus_rt_init((janus_rt_config){0});
}

void
janus_rt_shutdown(void)
{
    ThreadState *thread = this_thread();
    if (thread->runner != NULL || thread->callbacks != 0) {
        return; /* a task cannot wait for its own end, nor a call for its own */
    }
    lock_take(&gate);
    bool ours = state == UP;
    state = ours ? MOVING : state;
    lock_give(&gate);
    if (!ours) {
        return;
    }
    (void)scheduler_stop(&the_runtime.scheduler, NULL);
    abi_slabs_destroy(&the_runtime);
    lock_take(&gate);
    state = DOWN;
    lock_give(&gate);
}

bool
janus_rt_is_running(void)
{
    lock_take(&gate);
    bool up = state == UP;
    lock_give(&gate);
    return up;
}

void *
janus_rt_get(void)
{
    lock_take(&gate);
    uint64_t handle = state != UP ? 0 : (uint64_t)the_runtime.mark << 56 | (uint64_t)HANDLE_RUNTIME << 56;
    lock_give(&gate);
    return (void *)(uintptr_t)handle;
}

int
janus_rt_statistics(janus_statistics *out)
{
    _Static_assert(sizeof(janus_statistics) == sizeof(SchedulerStatistics), "the same counters in the same order");
    Visit visit = visit_begin();
    SchedulerStatistics sums;
    int error = visit.runtime == NULL ? JANUS_STOPPING : out == NULL ? JANUS_INVALID : JANUS_OK;
    if (error == JANUS_OK) {
        scheduler_statistics(&visit.runtime->scheduler, &sums);
        memcpy(out, &sums, sizeof sums);
    }
    visit_end(&visit);
    return error;
}

int
janus_rt_worker_statistics(uint32_t worker, janus_statistics *out)
{
    Visit visit = visit_begin();
    SchedulerStatistics its;
    int error = visit.runtime == NULL ? JANUS_STOPPING
                : out == NULL         ? JANUS_INVALID
                                      : scheduler_worker_statistics(&visit.runtime->scheduler, worker, &its);
    visit_end(&visit);
    if (error == JANUS_OK) {
        memcpy(out, &its, sizeof its);
    }
    return error;
}

uint64_t
janus_rt_chain(void)
{
    Visit visit = visit_begin();
    uint64_t chain = 0;
    if (visit.runtime != NULL && visit.runtime->scheduler.options.deterministic) {
        chain = visit.runtime->scheduler.logical.chain;
    }
    visit_end(&visit);
    return chain;
}

/* ---- what is current */

Nursery **
current_opened(const Visit *visit)
{
    if (visit->task != NULL) {
        return &visit->task->opened;
    }
    ThreadState *thread = this_thread();
    if (thread->epoch != the_runtime.epoch) { /* of a runtime that is gone, and they with it */
        thread->epoch = the_runtime.epoch;
        thread->opened = NULL;
        thread->has_awaited = false;
    }
    return &thread->opened;
}

/* A plain child of a task: so short that it is here, where it need not call anybody to learn who calls. */
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
calling_out(bool begin)
{
    ThreadState *thread = this_thread();
    if (thread->runner == NULL) {
        thread->callbacks += begin ? 1u : UINT32_MAX;
    }
    return thread->runner == NULL;
}

int64_t *
outside_ticks(void)
{
    ThreadState *thread = this_thread();
    thread->ticks = INT64_MAX;
    return &thread->ticks;
}
