/* The scheduler: starting, growing, driving. Stopping is in shutdown.c; the contract is in scheduler.h. */
#ifndef _GNU_SOURCE
#  define _GNU_SOURCE /* sigfillset and friends, sysconf */
#endif

#include "engine/scheduler.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/channel.h"
#include "engine/task_leave.h"
#include "engine/worker_loop.h"
#include "fiber/arena.h"
#include "fiber/trim.h"

#define THREAD_STACK_BYTES ((size_t)256 << 10) /* a worker runs on pooled stacks; this one only starts it */
#define DEQUE_FIRST 256u                       /* tasks before the first growth */
/* `starting`: a thread is being made until its maker has stored its handle and the thread itself has begun. */
#define STARTING_MAKER 1u
#define STARTING_THREAD 2u

static int
create_thread(void *context, pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *arg)
{
    (void)context;
    return pthread_create(thread, attributes, start, arg);
}

static const EngineThreads engine_threads_posix = {create_thread, NULL};

/* Make a thread that gets no asynchronous signal: a signal frame does not fit on a small stack (OVERFLOW-6 of
 * native/fiber). */
int
scheduler_thread(Scheduler *scheduler, pthread_t *thread, void *(*start)(void *), void *arg)
{
    const EngineThreads *threads = scheduler->options.threads;
    pthread_attr_t attributes;
    sigset_t blocked, former;
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        return error;
    }
#if !(SANITIZE_ADDRESS || SANITIZE_THREAD)
    pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
#endif
    sigfillset(&blocked);
    const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sigdelset(&blocked, faults[i]);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &former);
    error = threads->create(threads->context, thread, &attributes, start, arg);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* ---- workers */

static bool
is_pending(void *context, uint32_t worker)
{
    const Scheduler *scheduler = context;
    if (load_u32(&scheduler->phase, RELAXED) == SCHEDULER_HALTED || inject_length(&scheduler->injector) != 0 ||
        inject_length(&scheduler->cancel_lane) != 0 || inject_length(&scheduler->timed_lane) != 0) {
        return true;
    }
    for (uint32_t i = 0; i < scheduler->worker_count; i++) {
        if ((i == worker || !scheduler->options.no_stealing) && worker_has_ready(&scheduler->workers[i])) {
            return true;
        }
    }
    return false;
}

static bool
worker_init(Scheduler *scheduler, uint32_t id)
{
    Worker *worker = &scheduler->workers[id];
    *worker = (Worker){
        .scheduler = scheduler,
        .id = id,
        .host = scheduler->options.deterministic ? &scheduler->workers[0] : worker,
        .next_victim = id,
        .victims = law_random_init(scheduler->options.seed, (int64_t)id),
        .choices = law_random_init(scheduler->options.seed, -2 - (int64_t)id),
    };
    if (!deque_init(&worker->fresh, DEQUE_FIRST, scheduler->memory)) {
        return false;
    }
    if (!deque_init(&worker->started, DEQUE_FIRST, scheduler->memory)) {
        deque_destroy(&worker->fresh);
        return false;
    }
    if (scheduler->options.deterministic || scheduler->options.no_stealing || scheduler->worker_count == 1) {
        deque_set_single_threaded(&worker->fresh);
        deque_set_single_threaded(&worker->started);
    }
    slab_cache_init(&worker->tasks, &scheduler->tasks);
    slab_cache_init(&worker->nurseries, &scheduler->nurseries);
    stack_cache_init(&worker->stacks, &scheduler->stacks);
    runner_init(&worker->runner, &worker->stacks, worker_loop, worker);
    return true;
}

void
scheduler_free_worker(Worker *worker)
{
    slab_cache_flush(&worker->tasks);
    slab_cache_flush(&worker->nurseries);
    stack_cache_close(&worker->stacks);
    deque_destroy(&worker->fresh);
    deque_destroy(&worker->started);
}

/* Run a worker's loop on the calling thread until the loop returns. */
static int
serve(Worker *worker)
{
    Scheduler *scheduler = worker->scheduler;
    const SchedulerOptions *options = &scheduler->options;
    bool guarded = overflow_thread_enter(&worker->signals, options->system) == 0;
    if (options->thread_hook != NULL) {
        options->thread_hook(options->hook_context, &worker->runner);
    }
    worker->runner.worker = worker;
    int error = runner_enter(&worker->runner);
    if (options->thread_hook != NULL) {
        options->thread_hook(options->hook_context, NULL);
    }
    if (guarded) {
        overflow_thread_leave(&worker->signals);
    }
    return error;
}

/* A task has ended the worker's thread, by pthread_exit or pthread_cancel. Its frames are unwound, so the task cannot
 * end, and its nursery would wait for ever: report it and end the process. Rejected: a new thread for the worker. The
 * tasks beneath the ended one on its stack (help_children.c) are unwound too, and their callers cannot know it. */
static void
thread_ended(void *arg)
{
    const Worker *worker = arg;
    const char *name = worker->current != NULL ? worker->current->fiber.name : NULL;
    fprintf(stderr,
            "bursar: task %s ended the thread that it ran on, by pthread_exit or pthread_cancel; "
            "a task must return or panic\n",
            name != NULL ? name : "without a name");
    abort();
}

static void *
worker_thread(void *arg)
{
    Worker *worker = arg;
    int error;
    and_u32(&worker->scheduler->starting, ~STARTING_THREAD, ACQ_REL);
    pthread_cleanup_push(thread_ended, worker);
    error = serve(worker);
    pthread_cleanup_pop(0);
    LAW_RULE(error == 0, "SCHEDULER-3"); /* worker_start made sure that there is a first stack */
    return NULL;
}

/* Give a worker its first stack, then its thread: so everything that can fail fails here. */
static bool
worker_start(Worker *worker)
{
    struct stack *stack = stack_cache_get(&worker->stacks, 0);
    if (stack == NULL) {
        return false;
    }
    stack_cache_put(&worker->stacks, stack);
    if (worker->scheduler->options.deterministic) {
        return true;
    }
    worker->has_thread = scheduler_thread(worker->scheduler, &worker->thread, worker_thread, worker) == 0;
    add_u64(&worker->scheduler->threads, worker->has_thread, RELAXED);
    return worker->has_thread;
}

/* Make one more thread, if it is needed and no other thread is making one. True: it was made. */
static bool
grow_one(Scheduler *scheduler)
{
    uint64_t word = load_u64(&scheduler->idle.word, RELAXED);
    uint32_t none = 0;
    struct stack *stack = stack_find(__builtin_frame_address(0)); /* NULL on an outside thread */
    if (stack != NULL && stack_headroom(stack) < THREAD_HEADROOM_BYTES) {
        return false; /* the worker's loop tries again, with more room on its stack */
    }
    if (idle_count(word) != 0 || idle_searching(word) != 0 ||
        !cas_u32(&scheduler->starting, &none, STARTING_MAKER | STARTING_THREAD, ACQ_REL)) {
        return false;
    }
    fence_after_change(); /* either scheduler_stop sees `starting`, or this thread sees that the scheduler stops */
    uint32_t dormant = load_u32(&scheduler->dormant, RELAXED);
    if (dormant == 0 || load_u32(&scheduler->phase, RELAXED) != SCHEDULER_RUNNING) {
        store_u32(&scheduler->starting, 0, RELEASE);
        return false;
    }
    store_u32(&scheduler->dormant, dormant - 1, RELAXED); /* before the new thread can make the next one */
    if (!worker_start(&scheduler->workers[scheduler->worker_count - dormant])) {
        store_u32(&scheduler->dormant, 0, RELAXED); /* one refusal is enough (SCHEDULER-3) */
        add_u64(&scheduler->threads_refused, 1, RELAXED);
        store_u32(&scheduler->starting, 0, RELEASE);
        return false;
    }
    and_u32(&scheduler->starting, ~STARTING_MAKER, ACQ_REL); /* publishes the handle to the thread that will join it */
    return true;
}

void
scheduler_grow(Scheduler *scheduler)
{
    while (grow_one(scheduler)) {
        /* Either the new thread sees that `starting` is 0, or this thread sees that the new one no longer searches. */
        fence_after_change();
        if (!is_pending(scheduler, IDLE_NO_WORKER)) {
            return;
        }
    }
}

void
scheduler_grow_again(Scheduler *scheduler)
{
    fence_seq_cst(); /* see scheduler_grow */
    if (!scheduler->options.deterministic && is_pending(scheduler, IDLE_NO_WORKER)) {
        scheduler_grow(scheduler);
    }
}

/* ---- starting */

/* Everything that is needed before the first worker. On failure nothing is left behind. */
static bool
prepare(Scheduler *scheduler)
{
    const EngineAllocator *memory = scheduler->memory;
    const struct stack_options stacks = {.system = scheduler->options.system};
    inject_init(&scheduler->cancel_lane, INJECT_UNLIMITED);
    inject_init(&scheduler->timed_lane, INJECT_UNLIMITED);
    inject_init(&scheduler->injector, INJECT_UNLIMITED);
    slab_init(&scheduler->tasks, TASK_BYTES, NULL, memory); /* TASK-5 */
    slab_init(&scheduler->nurseries, (sizeof(Nursery) + 15) / 16 * 16, nursery_prepare, memory);
    slab_init(&scheduler->channels, (sizeof(Channel) + 15) / 16 * 16, channel_prepare, memory);
    purse_set_init(&scheduler->purse_set, &scheduler->options.budget, memory);
    init_u32(&scheduler->phase, SCHEDULER_RUNNING);
    init_u32(&scheduler->starting, 0);
    init_u32(&scheduler->requests, 0);
    init_u64(&scheduler->next_nursery, 0);
    init_u64(&scheduler->outside_spawned, 0);
    init_u64(&scheduler->threads, 0);
    init_u64(&scheduler->threads_refused, 0);
    init_i64(&scheduler->outside_calls, 0);
    lock_init(&scheduler->roots_lock);
    law_queue_init(&scheduler->roots);
    law_queue_init(&scheduler->outside);
    scheduler->logical = (Logical){
        .chain = law_seed_chain(scheduler->options.seed, scheduler->worker_count),
        .turns = law_random_init(scheduler->options.seed, -1),
    };
    lock_init(&scheduler->logical.driving);
    if (!parker_init(&scheduler->quiet)) {
        return false;
    }
    if (!timers_init(&scheduler->timers, scheduler, memory)) {
        goto no_timers;
    }
    if (stack_pool_init(&scheduler->stacks, &stacks) != 0) {
        goto no_stacks;
    }
    if (overflow_install() == 0) {
        return true;
    }
    stack_pool_close(&scheduler->stacks);
no_stacks:
    timers_destroy(&scheduler->timers);
no_timers:
    parker_destroy(&scheduler->quiet);
    return false;
}

void
scheduler_unprepare(Scheduler *scheduler)
{
    overflow_remove();
    timers_destroy(&scheduler->timers);
    int left = stack_pool_close(&scheduler->stacks);
    LAW_RULE(left == 0, "SCHEDULER-2");
    parker_destroy(&scheduler->quiet);
    purse_set_destroy(&scheduler->purse_set);
    slab_destroy(&scheduler->tasks);
    slab_destroy(&scheduler->nurseries);
    slab_destroy(&scheduler->channels);
}

/* Fill in the options that the caller left out. Returns false if one is out of range. */
static bool
resolve_options(Scheduler *scheduler, const SchedulerOptions *options)
{
    SchedulerOptions *ours = &scheduler->options;
    *ours = *options;
    if (ours->workers == 0) {
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        ours->workers = processors < 1 ? 1 : (uint32_t)processors;
    }
    ours->memory = ours->memory != NULL ? ours->memory : &engine_allocator_libc;
    ours->threads = ours->threads != NULL ? ours->threads : &engine_threads_posix;
    ours->yield_interval = ours->yield_interval > 0 ? ours->yield_interval : LAW_YIELD_INTERVAL;
    ours->cleanup_calls = ours->cleanup_calls > 0 ? ours->cleanup_calls : LAW_CLEANUP_OPS;
    scheduler->memory = ours->memory;
    scheduler->worker_count = ours->workers;
    for (int c = 0; c < LAW_COMPONENTS; c++) {
        if (ours->budget.limit[c] < LAW_OPEN || ours->budget.limit[c] > LAW_UNITS_MAX) {
            return false;
        }
    }
    return ours->workers <= IDLE_WORKERS_MAX && (unsigned)ours->policy <= LAW_STEAL_LEAST_LOADED;
}

int
scheduler_start(Scheduler *scheduler, const SchedulerOptions *options)
{
    if (!resolve_options(scheduler, options)) {
        return ENGINE_INVALID;
    }
    size_t workers_bytes = scheduler->worker_count * sizeof(Worker);
    uint32_t made = 0;
    if (!prepare(scheduler)) {
        return ENGINE_MEMORY;
    }
    if (!idle_init(&scheduler->idle, scheduler->worker_count, is_pending, scheduler, scheduler->memory)) {
        goto no_idle;
    }
    scheduler->workers = scheduler->memory->allocate(scheduler->memory->context, workers_bytes);
    if (scheduler->workers == NULL) {
        goto no_workers;
    }
    while (made < scheduler->worker_count && worker_init(scheduler, made)) {
        made++;
    }
    init_u32(&scheduler->dormant, scheduler->options.deterministic ? 0 : scheduler->worker_count - 1);
    if (made == scheduler->worker_count && worker_start(&scheduler->workers[0])) {
        return ENGINE_OK;
    }
    while (made > 0) {
        scheduler_free_worker(&scheduler->workers[--made]);
    }
    scheduler->memory->release(scheduler->memory->context, scheduler->workers, workers_bytes);
no_workers:
    idle_destroy(&scheduler->idle);
no_idle:
    scheduler_unprepare(scheduler);
    return ENGINE_MEMORY;
}

bool
scheduler_drive(Scheduler *scheduler, const atomic_u32 *word, uint32_t value)
{
    Logical *logical = &scheduler->logical;
    lock_take(&logical->driving);
    logical->until = word;
    logical->until_value = value;
    logical->stuck = false;
    if (load_u32(word, ACQUIRE) != value) {
        int error = serve(&scheduler->workers[0]);
        LAW_RULE(error == 0, "SCHEDULER-3");
    }
    lock_give(&logical->driving);
    return load_u32(word, ACQUIRE) == value;
}

/* Add the counters of one worker. */
static void
add_worker(SchedulerStatistics *out, const Worker *worker)
{
    const WorkerStatistics *its = &worker->statistics;
    out->spawned += load_u64(&its->spawned, RELAXED);
    out->dispatched += load_u64(&its->dispatched, RELAXED);
    out->finished += load_u64(&its->finished, RELAXED);
    out->cancelled += load_u64(&its->cancelled, RELAXED);
    out->failed += load_u64(&its->failed, RELAXED);
    out->panicked += load_u64(&its->panicked, RELAXED);
    out->cut_off += load_u64(&its->cut_off, RELAXED);
    out->exhausted += load_u64(&its->exhausted, RELAXED);
    out->parked += load_u64(&its->parked, RELAXED);
    out->yielded += load_u64(&its->yielded, RELAXED);
    out->local_takes += load_u64(&its->local_takes, RELAXED);
    out->injected_takes += load_u64(&its->injected_takes, RELAXED);
    out->steals += load_u64(&its->steals, RELAXED);
    out->steals_failed += load_u64(&its->steals_failed, RELAXED);
    out->stolen += load_u64(&its->stolen, RELAXED);
    out->sleeps += load_u64(&its->sleeps, RELAXED);
    out->repaired += load_u64(&its->repaired, RELAXED);
}

void
scheduler_statistics(const Scheduler *scheduler, SchedulerStatistics *out)
{
    *out = (SchedulerStatistics){.spawned = load_u64(&scheduler->outside_spawned, RELAXED),
                                 .threads = load_u64(&scheduler->threads, RELAXED),
                                 .threads_refused = load_u64(&scheduler->threads_refused, RELAXED)};
    for (uint32_t i = 0; i < scheduler->worker_count; i++) {
        add_worker(out, &scheduler->workers[i]);
    }
}

int
scheduler_worker_statistics(const Scheduler *scheduler, uint32_t worker, SchedulerStatistics *out)
{
    if (worker >= scheduler->worker_count) {
        return ENGINE_INVALID;
    }
    *out = (SchedulerStatistics){0};
    add_worker(out, &scheduler->workers[worker]);
    return ENGINE_OK;
}
