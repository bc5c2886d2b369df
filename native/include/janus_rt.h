/* The C interface of the native runtime: nurseries, tasks, channels, select, cancel tokens.
 *
 *     #include <janus_rt.h>
 *     static int64_t square(void *n) { *(int64_t *)n *= *(int64_t *)n; return 0; }
 *     int main(void) {
 *         int64_t n = 7;
 *         janus_nursery_create();
 *         janus_nursery_spawn(square, &n);
 *         int64_t result = janus_nursery_await_all();
 *         janus_rt_shutdown();
 *         return result == JANUS_OK && n == 49 ? 0 : 1;
 *     }
 *
 * A task is a function that returns a number; a negative one is a failure. It runs on a small stack (8 KiB unless it asks
 * for more; stdio wants 64 KiB) on one of the runtime's threads, and stops only where it calls one of these functions. A
 * function that could wait answers JANUS_CANCELLED when the task is to stop, or JANUS_BUDGET_EXCEEDED when it cannot
 * pay, and goes on doing so: return that number then.
 *
 * A handle is an opaque word, not an address. A null, stale, foreign or twice freed one is answered with JANUS_INVALID (or
 * NULL, or what the function says), never with a crash. Except where it says so, every function may be called by tasks and
 * by any other thread. Nothing here is safe in a signal handler, or in the child of a fork.
 *
 * The functions above the line "ours" and the five results are frozen. */
#ifndef JANUS_RT_H
#define JANUS_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#  define JANUS_API __attribute__((visibility("default")))
#else
#  define JANUS_API
#endif

/* Results. */
#define JANUS_OK 0
#define JANUS_CANCELLED (-1)
#define JANUS_PANICKED (-2)
#define JANUS_BUDGET_EXCEEDED (-3)
#define JANUS_PENDING (-4)
/* Mistakes and circumstances, from the functions that are ours. */
#define JANUS_INVALID (-5)   /* no such handle, or not for the caller; an argument out of range */
#define JANUS_CLOSED (-6)    /* the channel is closed; the nursery takes no children */
#define JANUS_NO_MEMORY (-7) /* no memory, no stack, no thread */
#define JANUS_AGAIN (-8)     /* it would have to wait */
#define JANUS_TIMEOUT (-9)   /* the time is over */
#define JANUS_STOPPING (-10) /* the runtime shuts down, or is not there */

typedef int64_t (*janus_task_fn)(void *arg);
typedef int64_t (*janus_task_noarg_fn)(void);
typedef int32_t (*janus_task_i32_fn)(void *arg);
typedef int32_t (*janus_task_noarg_i32_fn)(void);

typedef struct {
    uint32_t worker_count; /* 0: one per processor */
    uint64_t seed;
} janus_rt_config;

/* ---- the runtime: one per process */

/* 0; -1 if it is up already, or there is no memory, stack or thread for it. */
JANUS_API int janus_rt_init(janus_rt_config config);
JANUS_API int janus_rt_init_default(void);
/* Cancels everything, waits for it, frees everything. Not from a task or a callback: then it does nothing. May be called
 * again. */
JANUS_API void janus_rt_shutdown(void);
JANUS_API bool janus_rt_is_running(void);
/* A handle of the runtime, for adapters; NULL if it is not up. */
JANUS_API void *janus_rt_get(void);

/* ---- nurseries: the current one is the innermost that this task, or this thread, has opened and not awaited */

/* Opens one, and starts the runtime if need be. NULL on failure. */
JANUS_API void *janus_nursery_create(void);
/* 0, or -1. */
JANUS_API int janus_nursery_spawn(janus_task_fn fn, void *arg);
JANUS_API int janus_nursery_spawn_noarg(janus_task_noarg_fn fn);
/* For functions that return int32_t: the result is widened, so that -1 stays -1. */
JANUS_API int janus_nursery_spawn_i32(janus_task_i32_fn fn, void *arg);
JANUS_API int janus_nursery_spawn_noarg_i32(janus_task_noarg_i32_fn fn);
/* Waits for all children and frees the nursery. 0; JANUS_CANCELLED; the failed child's code; JANUS_PANICKED;
 * JANUS_BUDGET_EXCEEDED. JANUS_PENDING if there is no nursery. janus_nursery_result tells them apart. */
JANUS_API int64_t janus_nursery_await_all(void);
/* Children that have not ended, a guess; 0 without a nursery. */
JANUS_API int32_t janus_nursery_task_count(void);
/* A token that is cancelled with the nursery; NULL without one. To be destroyed as any other. */
JANUS_API void *janus_nursery_get_token(void);
/* True also without a nursery. */
JANUS_API bool janus_nursery_is_cancelled(void);
JANUS_API void janus_nursery_cancel(void);

/* ---- cancel tokens: a null one, or one that is gone, counts as cancelled */

JANUS_API void *janus_cancel_token_create(void);
JANUS_API void *janus_cancel_token_child(void *parent);
JANUS_API bool janus_cancel_token_is_cancelled(void *token);
JANUS_API void janus_cancel_token_cancel(void *token);
JANUS_API void janus_cancel_token_destroy(void *token);

/* ---- channels of int64_t */

/* A negative capacity is 0: a rendezvous. */
JANUS_API void *janus_channel_create_i64(int32_t capacity);
JANUS_API void janus_channel_destroy_i64(void *channel);
/* 0, or -1: closed, cancelled, no budget. janus_channel_send tells them apart. */
JANUS_API int32_t janus_channel_send_i64(void *channel, int64_t value);
/* The value, and 0 in `*error`; else 0, and -1 there. */
JANUS_API int64_t janus_channel_recv_i64(void *channel, int32_t *error);
/* 1 done, 0 would wait, -1 closed or refused. */
JANUS_API int32_t janus_channel_try_send_i64(void *channel, int64_t value);
JANUS_API int32_t janus_channel_try_recv_i64(void *channel, int64_t *value);
JANUS_API void janus_channel_close_i64(void *channel);
/* 1, also for one that is gone. */
JANUS_API int32_t janus_channel_is_closed_i64(void *channel);
JANUS_API int32_t janus_channel_len_i64(void *channel);

/* ---- select: cases are numbered in the order in which they are added */

JANUS_API void *janus_select_create(void);
JANUS_API void janus_select_destroy(void *select);
/* The number of the case, or -1. */
JANUS_API int32_t janus_select_add_recv(void *select, void *channel);
JANUS_API int32_t janus_select_add_send(void *select, void *channel, int64_t value);
JANUS_API int32_t janus_select_add_timeout(void *select, int64_t milliseconds);
JANUS_API int32_t janus_select_add_default(void *select);
/* The case that came true: its value was sent or received, its time is over, or it is the default. Else negative:
 * JANUS_CLOSED if the channel of janus_select_case is closed, JANUS_CANCELLED, JANUS_BUDGET_EXCEEDED, JANUS_INVALID. */
JANUS_API int32_t janus_select_wait(void *select);
JANUS_API int64_t janus_select_get_recv_value(void *select, int32_t number);

/* ======== ours ======== */

/* ---- options and results */

#define JANUS_UNLIMITED INT64_C(-1)

/* Five components; JANUS_UNLIMITED states no limit of its own, 0 grants nothing. */
typedef struct {
    int64_t ops, memory, spawns, channel_ops, syscalls;
} janus_budget;
#define JANUS_BUDGET_UNLIMITED {JANUS_UNLIMITED, JANUS_UNLIMITED, JANUS_UNLIMITED, JANUS_UNLIMITED, JANUS_UNLIMITED}

typedef enum {
    JANUS_KIND_OK = 0,
    JANUS_KIND_FAILED = 1,
    JANUS_KIND_CANCELLED = 2,
    JANUS_KIND_PANICKED = 3,
    JANUS_KIND_BUDGET = 4,
    JANUS_KIND_NONE = 5, /* nothing was awaited yet */
} janus_kind;

typedef struct {
    janus_kind kind;
    uint64_t task_id; /* of the first child that failed; 0 if none did */
    int64_t code;     /* what it returned, or panicked with */
} janus_result;

/* What is granted to whom nothing is said about. */
typedef enum {
    JANUS_PROFILE_SERVICE = 0, /* tasks share what their nursery has */
    JANUS_PROFILE_CLUSTER = 1, /* the same, with shorter turns */
    JANUS_PROFILE_SOVEREIGN =
        2,                  /* the options must state a budget; no task spawns unless its options grant it spawns */
    JANUS_PROFILE_CORE = 3, /* no scheduler: refused */
} janus_profile;

typedef struct {
    size_t size; /* sizeof(janus_rt_options): later versions may be larger */
    uint32_t worker_count;
    uint64_t seed;
    bool
        deterministic; /* no threads: whoever awaits runs all workers, in an order that the seed decides; time is virtual */
    bool no_stealing;
    uint32_t steal_policy;      /* 0 random, 1 round robin, 2 least loaded */
    const janus_budget *budget; /* of the whole runtime; NULL: no limit */
    int64_t yield_interval;     /* ops per turn; 0: 1024, in the cluster profile 512 */
    uint32_t profile;           /* janus_profile */
} janus_rt_options;

typedef struct {
    size_t size;
    const janus_budget *budget; /* of the nursery, out of the opener's; NULL: shares the opener's */
    bool keep_going;            /* a failure does not cancel the siblings */
    bool hold;                  /* a child that cannot pay waits for a recharge */
} janus_nursery_options;

typedef uint64_t janus_task; /* a handle; 0 is none */

typedef struct {
    size_t size;
    const char *name; /* kept by the caller until the task has ended */
    size_t stack_bytes;
    const janus_budget *budget;   /* of the task, out of the nursery's; NULL: shares the nursery's */
    const janus_budget *recharge; /* what it may recharge itself with; NULL: nothing */
    int64_t *value_out;           /* where its value goes when it has ended; NULL: nowhere */
    void (*done)(void *arg,
                 const janus_result *result); /* called when it has ended, on a thread of the runtime; no waiting */
    void *done_arg;
} janus_task_options;

typedef struct {
    uint64_t threads, threads_refused;
    uint64_t spawned, dispatched, finished, cancelled, failed, panicked, cut_off, exhausted, parked, yielded;
    uint64_t local_takes, injected_takes, steals, steals_failed, stolen, sleeps;
    uint64_t repaired; /* workers that went on after a task was dropped in the middle: panic, overflow, cut off */
} janus_statistics;

/* 0, or JANUS_INVALID, JANUS_NO_MEMORY; JANUS_AGAIN if it is up already. */
JANUS_API int janus_rt_init_with(const janus_rt_options *options);
/* 0, or JANUS_STOPPING. */
JANUS_API int janus_rt_statistics(janus_statistics *out);
/* Of one worker, counted from 0; JANUS_INVALID if there is no such. Threads and what came from outside are not its own. */
JANUS_API int janus_rt_worker_statistics(uint32_t worker, janus_statistics *out);
/* The budgets that are named after the profiles: core's is nothing. And that of a child that nobody thought about: enough to
 * work, not enough to spawn. */
JANUS_API janus_budget janus_budget_of_profile(uint32_t profile);
JANUS_API janus_budget janus_budget_of_child(void);
/* Deterministic: the chain of decisions so far; 0 without one. */
JANUS_API uint64_t janus_rt_chain(void);

/* What the last nursery came to that this task, or this thread, has awaited. */
JANUS_API int janus_nursery_result(janus_result *out);

/* ---- nurseries by handle */

/* As janus_nursery_create, with options (NULL: none). NULL on failure. */
JANUS_API void *janus_nursery_open(const janus_nursery_options *options);
/* JANUS_OK, JANUS_CLOSED, JANUS_CANCELLED, JANUS_BUDGET_EXCEEDED, JANUS_NO_MEMORY, JANUS_INVALID. Also by others than its
 * opener. `options` and `task` may be NULL. */
JANUS_API int janus_nursery_spawn_in(void *nursery, janus_task_fn fn, void *arg);
JANUS_API int janus_nursery_spawn_with(void *nursery, janus_task_fn fn, void *arg, const janus_task_options *options,
                                       janus_task *task);
/* Its opener waits for all children; results as for await_all. The handle stays valid until it is destroyed. */
JANUS_API int64_t janus_nursery_await(void *nursery);
/* JANUS_AGAIN if it was not awaited yet. */
JANUS_API int janus_nursery_destroy(void *nursery);
JANUS_API int janus_nursery_cancel_in(void *nursery);
/* 0 open, 1 closing, 2 cancelling, 3 closed, 4 cancelled; or JANUS_INVALID. */
JANUS_API int janus_nursery_state(void *nursery);

/* ---- tasks */

/* Asks one task to stop. JANUS_INVALID if it has ended. */
JANUS_API int janus_task_cancel(janus_task task);
/* Asks one task to stand still where it waits, or at its next call that could, until it is resumed or is to stop. JANUS_OK;
 * JANUS_CANCELLED if it is to stop already; JANUS_INVALID if it has ended, or is not to be resumed. */
JANUS_API int janus_task_pause(janus_task task);
JANUS_API int janus_task_resume(janus_task task);
/* Whether the running task is to stop; false outside tasks. And why: a janus_reason. */
JANUS_API bool janus_cancelled(void);
JANUS_API int janus_cancel_reason(void);
/* Lets others run. JANUS_OK, JANUS_CANCELLED, JANUS_BUDGET_EXCEEDED; JANUS_INVALID outside tasks. */
JANUS_API int janus_yield(void);
/* The same answers. On the monotonic clock. */
JANUS_API int janus_sleep_ns(int64_t nanoseconds);
/* Charges the running task, whole or not at all. The same answers. */
JANUS_API int janus_charge(const janus_budget *amount);
/* Ends the running task as panicked, without unwinding. Returns JANUS_INVALID outside tasks. */
JANUS_API int janus_panic(int32_t code);
/* The id and the name of the running task; 0 and NULL outside tasks. */
JANUS_API uint64_t janus_task_id(void);
JANUS_API const char *janus_task_name(void);

/* ---- cancel tokens: reasons, callbacks, time limits */

typedef enum {
    JANUS_REASON_NONE = -1, /* it is not cancelled */
    JANUS_REASON_USER = 0,
    JANUS_REASON_TIMEOUT = 1,
    JANUS_REASON_PARENT = 2,  /* what it is a part of was cancelled, or is gone */
    JANUS_REASON_SIBLING = 3, /* of a nursery: a child has failed */
    JANUS_REASON_BUDGET = 4,
    JANUS_REASON_DROP = 5,
    JANUS_REASON_SHUTDOWN = 6,
} janus_reason;

typedef void (*janus_cancel_fn)(void *arg, int reason);

/* Why it is cancelled: a janus_reason. The first one stays. */
JANUS_API int janus_cancel_token_reason(void *token);
/* JANUS_OK, JANUS_CANCELLED, or JANUS_TIMEOUT if its own time is over. */
JANUS_API int janus_cancel_token_check(void *token);
/* Has `fn` called once when it is cancelled, or at once if it is; never if it is destroyed before. By whoever cancels, on
 * that stack, which may be small: it must be short, and must not wait. That may be a thread of the runtime which runs
 * no task just then. JANUS_OK, JANUS_INVALID, JANUS_NO_MEMORY. */
JANUS_API int janus_cancel_token_on_cancel(void *token, janus_cancel_fn fn, void *arg);
/* Cancels it when the time is over; the last call counts. A nursery is cancelled with its token. The same answers. */
JANUS_API int janus_cancel_token_cancel_after(void *token, int64_t nanoseconds);

/* ---- channels of anything up to 4096 bytes */

JANUS_API void *janus_channel_create(size_t item_bytes, size_t capacity);
JANUS_API int janus_channel_destroy(void *channel);
JANUS_API int janus_channel_close(void *channel);
/* JANUS_OK, JANUS_CLOSED, JANUS_CANCELLED, JANUS_BUDGET_EXCEEDED, JANUS_INVALID, JANUS_STOPPING; try: JANUS_AGAIN. */
JANUS_API int janus_channel_send(void *channel, const void *item);
JANUS_API int janus_channel_receive(void *channel, void *item);
JANUS_API int janus_channel_try_send(void *channel, const void *item);
JANUS_API int janus_channel_try_receive(void *channel, void *item);

/* The case that the last janus_select_wait was about, or -1. */
JANUS_API int32_t janus_select_case(void *select);

#ifdef __cplusplus
}
#endif

#endif
