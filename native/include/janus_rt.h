/* The C interface of Bursar's native runtime: tasks in nurseries, channels, select, cancel tokens, budgets. Janus is the
 * language whose runtime interface this header keeps, and names begin with it.
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
 * Tasks. A task is a function that returns a number. A negative number is a failure. Tasks run on the runtime's
 * threads, each on a small stack of its own: 8 KiB unless it asks for more (stdio needs 64 KiB). A task gives its
 * thread away only inside functions of this header and of janus_interop.h, and may return from them on another thread:
 * do not keep the address of a thread-local variable, such as errno, across such a call. A task must not end its thread
 * (pthread_exit): that ends the process.
 *
 * Nurseries. A nursery owns tasks, its children. A task, or a thread that runs no task (an outside thread), opens a
 * nursery, spawns children into it, and awaits it: the await returns when all children have ended. If a child fails,
 * the other children are cancelled.
 *
 * Cancelling is a request. The functions that can wait return JANUS_CANCELLED when their task must stop, and
 * JANUS_BUDGET_EXCEEDED when it cannot pay, at this call and at every later one. Then free what the task holds and
 * return the code. After 10,000 further calls the runtime ends the task without unwinding its stack.
 *
 * Budgets. A budget limits what tasks spend, in five components: ops, memory (bytes), spawns, channel operations,
 * system calls. One op pays for a tick of a loop, and for each call that can wait, makes something (a nursery, a task,
 * a channel, a select, a token), or looks for a child to recharge. A wait itself is free, and so is
 * janus_nursery_await_all: a task must be able to end what it began. Calls that only look at or end something are free.
 * The runtime itself charges ops, spawns and channel operations; janus_charge charges anything.
 *
 * Handles. `void *` here is a handle: a number, not an address. Never dereference it. A function that gets a null,
 * stale, foreign or twice freed handle returns JANUS_INVALID, or the value that its comment names; it does not crash.
 * Handles of a runtime that was shut down are stale. A handle belongs to the program until the program destroys it, or
 * until janus_rt_shutdown destroys everything.
 *
 * Threads. Every function may be called by tasks and by outside threads, unless its comment says otherwise. An outside
 * thread that waits blocks. No function is safe in a signal handler. In the child of a fork the runtime of its parent
 * counts as shut down, and the child cannot start another one: every call outside tasks is refused.
 *
 * Frozen: the functions above the line "added by Bursar" and the first five results never change. Options structures
 * may get new fields at the end: `size` says how large the caller's structure is. */
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
#define JANUS_CANCELLED (-1)       /* the task must stop; or, of a nursery: it was cancelled */
#define JANUS_PANICKED (-2)        /* a child panicked: by janus_panic or a stack overflow */
#define JANUS_BUDGET_EXCEEDED (-3) /* the budget is too small */
#define JANUS_PENDING (-4)         /* there is no nursery to await */
/* Results of the functions that Bursar added. */
#define JANUS_INVALID (-5)   /* no such handle, not a handle that the caller may use, or an argument out of range */
#define JANUS_CLOSED (-6)    /* the channel is closed; the nursery takes no more children */
#define JANUS_NO_MEMORY (-7) /* no memory, no stack, or no thread */
#define JANUS_AGAIN (-8)     /* not now: the operation would have to wait, or another one must come first */
#define JANUS_TIMEOUT (-9)   /* the time limit has passed */
#define JANUS_STOPPING (-10) /* the runtime is shutting down, or there is none */

/* The function of a task. The variants without an argument or with an int32_t result have their own spawn functions. */
typedef int64_t (*janus_task_fn)(void *arg);
typedef int64_t (*janus_task_noarg_fn)(void);
typedef int32_t (*janus_task_i32_fn)(void *arg);
typedef int32_t (*janus_task_noarg_i32_fn)(void);

typedef struct {
    uint32_t worker_count; /* how many tasks run at the same time, 4096 at most; 0: one per processor */
    uint64_t seed;         /* of the choices that the scheduler makes at random */
} janus_rt_config;

/* ---- the runtime: one per process */

/* Start the runtime. Return 0. Return -1 if it is running already, or without memory, stacks or threads. */
JANUS_API int janus_rt_init(janus_rt_config config);
JANUS_API int janus_rt_init_default(void);

/* Cancels all tasks, waits until they have ended, and frees everything. All handles become stale. Does nothing if there
 * is no runtime, or another thread is starting or stopping it. Also does nothing in a task or a callback, which would
 * wait for itself. After a shutdown the runtime can be started again. */
JANUS_API void janus_rt_shutdown(void);

/* Returns whether the runtime is running. */
JANUS_API bool janus_rt_is_running(void);

/* Returns a handle of the runtime, for adapters that pass one around; NULL if the runtime is not running. */
JANUS_API void *janus_rt_get(void);

/* ---- the current nursery: the innermost one that the calling task or thread has opened and not awaited */

/* Opens a nursery, which becomes the current one. Starts the runtime if it is not running. Returns a handle. Returns
 * NULL without memory, while the runtime shuts down, if the runtime cannot be started, or if the calling task must stop
 * or cannot pay. */
JANUS_API void *janus_nursery_create(void);

/* Spawn a task into the current nursery: the task calls fn(arg). `arg` must stay valid until the task has ended. Return
 * 0. Return -1 without a nursery, if the caller must stop, or if the nursery refuses: it is cancelled, its budget is
 * spent, there is no memory. A refused spawn has no effect. An int32_t result becomes an int64_t of the same value. */
JANUS_API int janus_nursery_spawn(janus_task_fn fn, void *arg);
JANUS_API int janus_nursery_spawn_noarg(janus_task_noarg_fn fn);
JANUS_API int janus_nursery_spawn_i32(janus_task_i32_fn fn, void *arg);
JANUS_API int janus_nursery_spawn_noarg_i32(janus_task_noarg_i32_fn fn);

/* Waits until all children of the current nursery have ended, and frees the nursery. If the caller must stop
 * meanwhile, the children are cancelled and the call goes on waiting. Returns JANUS_OK if all children succeeded; the
 * number that the first failed child returned; JANUS_PANICKED or JANUS_BUDGET_EXCEEDED if the first failed child
 * ended so; JANUS_CANCELLED if no child failed, but the nursery was cancelled; JANUS_PENDING if there is no nursery.
 * A child may return one of these numbers too: janus_nursery_result tells the cases apart. */
JANUS_API int64_t janus_nursery_await_all(void);

/* Returns how many children of the current nursery have not ended; 0 without a nursery. Another thread may have changed
 * the number already. */
JANUS_API int32_t janus_nursery_task_count(void);

/* Returns a new cancel token of the current nursery: it is cancelled when the nursery is, and cancelling it cancels the
 * nursery. The caller destroys the token. Returns NULL without a nursery or memory. */
JANUS_API void *janus_nursery_get_token(void);

/* Returns whether the current nursery is cancelled; true without a nursery. */
JANUS_API bool janus_nursery_is_cancelled(void);

/* Cancels the current nursery: its children must stop. Does not wait for them. Does nothing without a nursery. */
JANUS_API void janus_nursery_cancel(void);

/* ---- cancel tokens: requests to stop that a program can pass around. Tokens form trees */

/* Returns a new token, which the caller destroys. Starts the runtime if it is not running. Returns NULL without memory
 * or runtime. */
JANUS_API void *janus_cancel_token_create(void);

/* Returns a new token that is cancelled when `parent` is. The caller destroys it. Returns NULL if `parent` is stale, or
 * without memory. */
JANUS_API void *janus_cancel_token_child(void *parent);

/* Returns whether the token, or a token above it, is cancelled; true for a null or stale token. */
JANUS_API bool janus_cancel_token_is_cancelled(void *token);

/* Cancels the token, all tokens below it, and the nursery that it was made from. Calls their callbacks before it
 * returns. */
JANUS_API void janus_cancel_token_cancel(void *token);

/* Frees the token. Its callbacks are not called any more. Tokens below it stay valid, and are no longer cancelled by
 * its time limit. */
JANUS_API void janus_cancel_token_destroy(void *token);

/* ---- channels of int64_t: values from task to task, first in, first out
 *
 * The sends and receives below refuse a channel that janus_channel_create made for items of another size than 8 bytes,
 * as they refuse a stale handle: with -1, and nothing is read or written. */

/* Returns a new channel with room for `capacity` values. A send into a channel without room waits for a receiver.
 * Negative is 0. Starts the runtime if it is not running. The caller destroys the channel. Returns NULL without memory
 * or runtime, or if the capacity is above 2^24. */
JANUS_API void *janus_channel_create_i64(int32_t capacity);

/* Closes the channel and frees it, with the values in it. Calls that wait for it fail. */
JANUS_API void janus_channel_destroy_i64(void *channel);

/* Sends a value; waits while there is no room. Returns 0, or -1: the channel is closed, the task must stop or cannot
 * pay. janus_channel_send tells these apart. */
JANUS_API int32_t janus_channel_send_i64(void *channel, int64_t value);

/* Receives a value; waits while there is none. Returns the value and stores 0 in `*error`. If the channel is closed and
 * empty, or the task must stop or cannot pay, returns 0 and stores -1. `error` may be NULL. */
JANUS_API int64_t janus_channel_recv_i64(void *channel, int32_t *error);

/* Send or receive without waiting. Return 1 if it was done, 0 if it would have to wait, -1 if the channel is closed or
 * the call is refused. */
JANUS_API int32_t janus_channel_try_send_i64(void *channel, int64_t value);
JANUS_API int32_t janus_channel_try_recv_i64(void *channel, int64_t *value);

/* Closes the channel: later sends fail, and so do sends that wait. Values in it can still be received. */
JANUS_API void janus_channel_close_i64(void *channel);

/* Returns 1 if the channel is closed or the handle is stale, otherwise 0. */
JANUS_API int32_t janus_channel_is_closed_i64(void *channel);

/* Returns how many values are in the channel; 0 for a stale handle. */
JANUS_API int32_t janus_channel_len_i64(void *channel);

/* ---- select: wait for the first of several operations, the cases
 *
 * A select is a list of cases, which is made once and can be waited for again and again. Only one task or thread may
 * use it at a time: a second one is refused as if the handle were stale. */

/* Returns a new select without cases, which the caller destroys. Starts the runtime if it is not running. Returns NULL
 * without memory or runtime. */
JANUS_API void *janus_select_create(void);
JANUS_API void janus_select_destroy(void *select);

/* Add a case: a receive, a send of `value`, a time limit, or a default for when no channel is ready. Cases are numbered
 * from 0 in the order of these calls. A select has at most 16 cases with channels, one time limit and one default; with
 * a default the time limit has no effect. A time limit counts from the beginning of each wait. Channels must have items
 * of 8 bytes. Return the number of the case, or -1. */
JANUS_API int32_t janus_select_add_recv(void *select, void *channel);
JANUS_API int32_t janus_select_add_send(void *select, void *channel, int64_t value);
JANUS_API int32_t janus_select_add_timeout(void *select, int64_t milliseconds);
JANUS_API int32_t janus_select_add_default(void *select);

/* Waits until one case can be done, does it, and returns its number. If several cases can be done, one is drawn at
 * random. Otherwise returns a negative number: JANUS_CLOSED if a channel is closed (janus_select_case says which),
 * JANUS_CANCELLED, JANUS_BUDGET_EXCEEDED, JANUS_NO_MEMORY, JANUS_STOPPING, or JANUS_INVALID: the handle or a channel is
 * stale, or the select has no case. */
JANUS_API int32_t janus_select_wait(void *select);

/* Returns the value that case `number` received last; 0 if it is no receive. */
JANUS_API int64_t janus_select_get_recv_value(void *select, int32_t number);

/* ======== added by Bursar ======== */

/* ---- budgets */

#define JANUS_UNLIMITED INT64_C(-1)

/* How much may be spent. JANUS_UNLIMITED sets no limit of its own: the owner's limit holds. 0 allows nothing. Other
 * negative numbers, and numbers above 2^62 - 1, are refused. */
typedef struct {
    int64_t ops, memory, spawns, channel_ops, syscalls;
} janus_budget;
#define JANUS_BUDGET_UNLIMITED {JANUS_UNLIMITED, JANUS_UNLIMITED, JANUS_UNLIMITED, JANUS_UNLIMITED, JANUS_UNLIMITED}

/* ---- how tasks and nurseries end */

typedef enum {
    JANUS_KIND_OK = 0,
    JANUS_KIND_FAILED = 1, /* it returned a negative number */
    JANUS_KIND_CANCELLED = 2,
    JANUS_KIND_PANICKED = 3,
    JANUS_KIND_BUDGET = 4, /* it could not pay */
    JANUS_KIND_NONE = 5,   /* nothing was awaited yet */
} janus_kind;

typedef struct {
    janus_kind kind;
    uint64_t task_id; /* the id of the first child that failed; 0 if none failed */
    int64_t code;     /* what that child returned, or the code of its panic */
} janus_result;

/* ---- starting a runtime with options */

/* What a task may spend if its options do not say so. */
typedef enum {
    JANUS_PROFILE_SERVICE = 0, /* tasks share the budget of their nursery */
    JANUS_PROFILE_CLUSTER = 1, /* the same, with shorter turns */
    JANUS_PROFILE_SOVEREIGN =
        2,                  /* the runtime's options must have a budget; a task may spawn only if its own options have
                                    a budget that allows it */
    JANUS_PROFILE_CORE = 3, /* a profile without a scheduler: no runtime can be started with it */
} janus_profile;

/* Set `size`, and leave the other fields 0 for the defaults. */
typedef struct {
    size_t size; /* sizeof(janus_rt_options) */
    uint32_t worker_count;
    uint64_t seed;
    bool deterministic; /* no threads, and virtual time: a thread that waits runs all workers in turn, in an order that
                                   depends only on the seed and the program */
    bool no_stealing;   /* a worker never takes tasks from another worker */
    uint32_t steal_policy;      /* from which worker to steal: 0 random, 1 round robin, 2 the one with most tasks */
    const janus_budget *budget; /* of the whole runtime; copied. NULL: no limit */
    int64_t yield_interval;     /* ops after which a task lets others run; 0: 1024, in the cluster profile 512 */
    uint32_t profile;           /* a janus_profile */
} janus_rt_options;

typedef struct {
    size_t size; /* sizeof(janus_nursery_options) */
    const janus_budget
        *budget;     /* of all children together, taken from the opener's budget; copied. NULL: they share the
                                   opener's budget */
    bool keep_going; /* a failed child does not cancel the others */
    bool hold;       /* a child that cannot pay waits for janus_budget_recharge_child, instead of an error */
} janus_nursery_options;

/* A handle of a task; 0 is no task. It is stale when the task has ended, and needs no destroying. */
typedef uint64_t janus_task;

typedef struct {
    size_t size;                /* sizeof(janus_task_options) */
    const char *name;           /* for reports. Not copied: it must stay valid until the task has ended */
    size_t stack_bytes;         /* 0: 8 KiB; 16 MiB at most */
    const janus_budget *budget; /* of the task, taken from the nursery's; copied. NULL: it shares the nursery's */
    const janus_budget
        *recharge;      /* how much the task may give itself by janus_budget_recharge; copied. NULL: nothing. Needs
                                     a budget */
    int64_t *value_out; /* gets the number that the task returned, when the task has ended; NULL: it is not stored */
    void (*done)(void *arg,
                 const janus_result *result); /* is called when the task has ended, on a thread of the runtime and a
                                                            small stack; it must be short and must not wait. NULL: no call */
    void *done_arg;
} janus_task_options;

/* Counts since the start of the runtime. */
typedef struct {
    uint64_t threads;         /* threads that were started */
    uint64_t threads_refused; /* threads that the system refused to start */
    uint64_t spawned;         /* tasks */
    uint64_t dispatched;      /* how often a worker began to run a task, or ran it on */
    uint64_t finished;        /* tasks that have ended, the next four among them */
    uint64_t cancelled, failed, panicked;
    uint64_t cut_off;   /* tasks that the runtime ended because they went on after a request to stop */
    uint64_t exhausted; /* how often a task could not pay */
    uint64_t parked;    /* how often a task waited */
    uint64_t yielded;   /* how often a task let others run */
    uint64_t local_takes,
        injected_takes; /* tasks that workers took from their own queues, and from the queue for outside
                                             threads */
    uint64_t steals, steals_failed, stolen; /* successful and failed attempts to steal; tasks that were stolen */
    uint64_t sleeps;                        /* how often a worker found nothing to do */
    uint64_t repaired; /* how often a worker began anew after a task was dropped: by a panic, an overflow, or a cut */
} janus_statistics;

/* Starts the runtime. Returns JANUS_OK, JANUS_INVALID, JANUS_NO_MEMORY, or JANUS_AGAIN if it is running already. */
JANUS_API int janus_rt_init_with(const janus_rt_options *options);

/* Stores the counts of the runtime. Returns JANUS_OK, JANUS_INVALID if `out` is NULL, or JANUS_STOPPING. */
JANUS_API int janus_rt_statistics(janus_statistics *out);

/* The same for one worker, numbered from 0. Counts of threads and of spawns by outside threads are not included. Also
 * returns JANUS_INVALID if there is no such worker. */
JANUS_API int janus_rt_worker_statistics(uint32_t worker, janus_statistics *out);

/* Returns the budget that is named after the profile: proposed numbers, which no function uses by itself. All
 * components are 0 for the core profile. */
JANUS_API janus_budget janus_budget_of_profile(uint32_t profile);

/* Returns a proposed budget for a task: enough to work, no spawns. */
JANUS_API janus_budget janus_budget_of_child(void);

/* Returns a hash of all scheduling decisions of a deterministic runtime so far: two runs with the same hash took the
 * same decisions. Returns 0 otherwise. */
JANUS_API uint64_t janus_rt_chain(void);

/* Stores how the nursery ended that the calling task or thread awaited last. Returns JANUS_OK, or JANUS_INVALID if
 * `out` is NULL. */
JANUS_API int janus_nursery_result(janus_result *out);

/* ---- nurseries by handle */

/* As janus_nursery_create, with options; NULL: the defaults. Also returns NULL if an option is out of range, or the
 * opener's budget is too small. */
JANUS_API void *janus_nursery_open(const janus_nursery_options *options);

/* Spawn a task into a nursery; other tasks than its opener may do so, too. `options` may be NULL. The options are
 * copied, except the name. If `task` is not NULL, `*task` becomes a handle of the new task, or 0. Return JANUS_OK,
 * JANUS_CLOSED if the nursery is cancelled or awaited, JANUS_CANCELLED if the caller must stop, JANUS_BUDGET_EXCEEDED,
 * JANUS_NO_MEMORY, or JANUS_INVALID. A refused spawn has no effect. */
JANUS_API int janus_nursery_spawn_in(void *nursery, janus_task_fn fn, void *arg);
JANUS_API int janus_nursery_spawn_with(void *nursery, janus_task_fn fn, void *arg, const janus_task_options *options,
                                       janus_task *task);

/* As janus_nursery_await_all for one nursery, but does not free it: call janus_nursery_destroy. Returns JANUS_INVALID
 * if the caller did not open the nursery, or has awaited it already. */
JANUS_API int64_t janus_nursery_await(void *nursery);

/* Frees a nursery that was awaited. Returns JANUS_OK, JANUS_INVALID, or JANUS_AGAIN if it was not awaited yet. */
JANUS_API int janus_nursery_destroy(void *nursery);

/* Cancels a nursery: its children must stop. Does not wait for them. Returns JANUS_OK or JANUS_INVALID. */
JANUS_API int janus_nursery_cancel_in(void *nursery);

/* Returns 0 open, 1 closing (it is awaited), 2 cancelling, 3 closed, 4 cancelled (all children have ended); or
 * JANUS_INVALID. */
JANUS_API int janus_nursery_state(void *nursery);

/* ---- tasks */

/* Asks a task to stop. Returns JANUS_OK, or JANUS_INVALID if the task has ended. */
JANUS_API int janus_task_cancel(janus_task task);

/* Asks a task to pause: where it waits, or at its next call that could wait, until it is resumed or asked to stop.
 * Returns JANUS_OK, JANUS_CANCELLED if the task must stop already, or JANUS_INVALID if it has ended. */
JANUS_API int janus_task_pause(janus_task task);

/* Lets a paused task run on. Returns JANUS_OK, or JANUS_INVALID if the task has ended or was not asked to pause. */
JANUS_API int janus_task_resume(janus_task task);

/* Returns whether the running task must stop; false outside tasks. */
JANUS_API bool janus_cancelled(void);

/* Returns why the running task must stop: a janus_reason, JANUS_REASON_NONE if it need not or outside tasks. */
JANUS_API int janus_cancel_reason(void);

/* Lets other tasks run. Returns JANUS_OK, JANUS_CANCELLED, JANUS_BUDGET_EXCEEDED, or JANUS_INVALID outside tasks. */
JANUS_API int janus_yield(void);

/* Waits, by the monotonic clock. Returns as janus_yield does. */
JANUS_API int janus_sleep_ns(int64_t nanoseconds);

/* Charges the running task for `amount`, and at least for 1 op: for all of it, or for nothing if one component is
 * short. Returns as janus_yield does; also JANUS_INVALID for a negative amount. */
JANUS_API int janus_charge(const janus_budget *amount);

/* Ends the running task as panicked, with this code. Its frames are dropped: no cleanup runs, and locks stay locked.
 * Does not return. Outside tasks returns JANUS_INVALID. */
JANUS_API int janus_panic(int32_t code);

/* Returns the id of the running task, which no other task of the runtime has; 0 outside tasks. */
JANUS_API uint64_t janus_task_id(void);

/* Returns the name from the options of the running task; NULL without one and outside tasks. */
JANUS_API const char *janus_task_name(void);

/* ---- cancel tokens: reasons, callbacks, time limits */

typedef enum {
    JANUS_REASON_NONE = -1, /* not cancelled */
    JANUS_REASON_USER = 0,  /* a program asked for it */
    JANUS_REASON_TIMEOUT = 1,
    JANUS_REASON_PARENT =
        2, /* the token above was cancelled; the nursery, or the task that opened it, has ended; stale */
    JANUS_REASON_SIBLING = 3,  /* a child of the nursery failed */
    JANUS_REASON_BUDGET = 4,   /* reserved */
    JANUS_REASON_DROP = 5,     /* reserved */
    JANUS_REASON_SHUTDOWN = 6, /* the runtime shuts down; or it is deterministic, and no task can run any more */
} janus_reason;

typedef void (*janus_cancel_fn)(void *arg, int reason);

/* Returns why the token is cancelled: a janus_reason. Only the first reason is kept. */
JANUS_API int janus_cancel_token_reason(void *token);

/* Returns JANUS_OK if the token is not cancelled, JANUS_TIMEOUT if the reason is a timeout, otherwise
 * JANUS_CANCELLED. */
JANUS_API int janus_cancel_token_check(void *token);

/* Registers fn(arg, reason) to be called once, when the token is cancelled; at once if it is cancelled already; never
 * if it is destroyed before. The thread or task that cancels makes the call, on its own stack, which may be small; so
 * may a thread of the runtime that runs no task at that moment. `fn` must be short and must not wait. Returns JANUS_OK,
 * JANUS_INVALID or JANUS_NO_MEMORY. */
JANUS_API int janus_cancel_token_on_cancel(void *token, janus_cancel_fn fn, void *arg);

/* Cancels the token after this time, with the nursery that it was made from. A later call replaces the time limit.
 * Returns JANUS_OK, also if the token is cancelled already; JANUS_INVALID if the token is stale or the time negative;
 * JANUS_NO_MEMORY. */
JANUS_API int janus_cancel_token_cancel_after(void *token, int64_t nanoseconds);

/* ---- channels of items of any type, up to 4096 bytes */

/* Returns a new channel, as janus_channel_create_i64 does. Also returns NULL if `item_bytes` is not 1 to 4096. */
JANUS_API void *janus_channel_create(size_t item_bytes, size_t capacity);

/* Close and free the channel, or only close it, as the functions for int64_t do. Return JANUS_OK or JANUS_INVALID. */
JANUS_API int janus_channel_destroy(void *channel);
JANUS_API int janus_channel_close(void *channel);

/* Send a copy of `*item`, or receive an item into `*item`, as the functions for int64_t do. Return JANUS_OK,
 * JANUS_CLOSED, JANUS_CANCELLED, JANUS_BUDGET_EXCEEDED, JANUS_INVALID, JANUS_NO_MEMORY, or JANUS_STOPPING (only outside
 * tasks). The two without waiting also return JANUS_AGAIN. */
JANUS_API int janus_channel_send(void *channel, const void *item);
JANUS_API int janus_channel_receive(void *channel, void *item);
JANUS_API int janus_channel_try_send(void *channel, const void *item);
JANUS_API int janus_channel_try_receive(void *channel, void *item);

/* Returns the number of the case with which the last janus_select_wait ended, also by JANUS_CLOSED; -1 if there is
 * none. */
JANUS_API int32_t janus_select_case(void *select);

#ifdef __cplusplus
}
#endif

#endif
