/* Programs that must end in a stated way; the argument says which. See test_die.py. */
#ifndef _GNU_SOURCE
#  define _GNU_SOURCE
#endif

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/nursery.h"
#include "janus_interop.h"

static void
run(janus_task_fn fn)
{
    janus_nursery_create();
    if (janus_nursery_spawn(fn, NULL) != 0) {
        exit(90);
    }
    printf("awaited %lld\n", (long long)janus_nursery_await_all());
    fflush(stdout);
}

static __attribute__((noinline)) int64_t
devour(volatile int64_t depth)
{
    volatile char some[200];
    some[0] = (char)depth;
    some[199] = some[0];
    return depth < 0 ? 0 : devour(depth + 1) + some[199];
}

static int64_t
overflows(void *arg)
{
    (void)arg;
    return devour(0);
}

/* A wild pointer is not an overflow: it kills the process, also in a task. */
static int64_t
writes_wildly(void *arg)
{
    (void)arg;
    char *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *gone = 1;
    return 0;
}

static int64_t
ends_its_thread(void *arg)
{
    (void)arg;
    pthread_exit(NULL);
}

static int64_t
owns_such_a_task(void *arg)
{
    (void)arg;
    janus_nursery_create();
    janus_nursery_spawn(ends_its_thread, NULL);
    return janus_nursery_await_all();
}

static int64_t
aborts(void *arg)
{
    (void)arg;
    abort();
}

static int64_t
exits(void *arg)
{
    (void)arg;
    _exit(23);
}

static int64_t
exits_in_order(void *arg)
{
    (void)arg;
    exit(24); /* runs the functions that were registered with atexit */
}

static int64_t
computes_for_ever(void *arg)
{
    volatile uint64_t count = 0;
    (void)arg;
    for (;;) {
        count = count + 1;
    }
    return 0;
}

static void
devours_at_the_end(void *arg, const janus_result *result)
{
    (void)arg;
    (void)result;
    (void)devour(0);
}

static void
devours_when_cancelled(void *arg, int reason)
{
    (void)arg;
    (void)reason;
    (void)devour(0);
}

/* A callback runs on the stack of the task or thread that cancels: here a task's, and that task ends. */
static int64_t
cancels_with_callback(void *arg)
{
    (void)arg;
    void *token = janus_cancel_token_create();
    (void)janus_cancel_token_on_cancel(token, devours_when_cancelled, NULL);
    janus_cancel_token_cancel(token);
    return 0;
}

static int64_t
sleeps_long(void *arg)
{
    (void)arg;
    return janus_sleep_ns(INT64_C(3600) * 1000000000);
}

static int64_t
sleeps_not(void *arg)
{
    (void)arg;
    return 0;
}

static void *
overflows_thread(void *arg)
{
    (void)devour(0);
    return arg;
}

/* A nursery that is not terminal must not be freed: the attempt is a bug, and ends the process before it does damage. */
static void
breaks_a_rule(void)
{
    static Nursery nursery;
    nursery_free(&nursery, NULL);
}

int
main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (strcmp(what, "overflow") == 0) {
        run(overflows);
        run(overflows);
        janus_rt_shutdown();
    } else if (strcmp(what, "wild") == 0) {
        run(writes_wildly);
    } else if (strcmp(what, "abort") == 0) {
        run(aborts);
    } else if (strcmp(what, "exit") == 0) {
        run(exits);
    } else if (strcmp(what, "return") == 0) {
        janus_nursery_create();
        for (int i = 0; i < 100; i++) {
            janus_nursery_spawn(sleeps_long, NULL);
        }
    } else if (strcmp(what, "thread") == 0) {
        pthread_t thread;
        janus_rt_init_default();
        pthread_create(&thread, NULL, overflows_thread, NULL);
        pthread_join(thread, NULL);
    } else if (strcmp(what, "exit_in_order") == 0) {
        atexit(janus_rt_shutdown); /* does nothing: this is a task */
        run(exits_in_order);
    } else if (strcmp(what, "stop_at_exit") == 0) {
        atexit(janus_rt_shutdown);
        janus_nursery_create();
        for (int i = 0; i < 100; i++) {
            janus_nursery_spawn(sleeps_long, NULL);
        }
    } else if (strcmp(what, "compute") == 0) {
        janus_nursery_create();
        janus_nursery_spawn(computes_for_ever, NULL);
    } else if (strcmp(what, "fork") == 0) {
        janus_nursery_create();
        janus_nursery_spawn(sleeps_long, NULL);
        pid_t child = fork();
        if (child == 0) {
            return 25; /* without a call of the library: the threads of the runtime do not exist in the child */
        }
        int status = 0;
        waitpid(child, &status, 0);
        janus_rt_shutdown();
        return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
    } else if (strcmp(what, "done_overflow") == 0) {
        janus_task_options options = {.size = sizeof options, .done = devours_at_the_end};
        void *nursery = janus_nursery_open(NULL);
        janus_nursery_spawn_with(nursery, sleeps_not, NULL, &options, NULL);
        janus_nursery_await(nursery);
    } else if (strcmp(what, "callback_overflow") == 0) {
        run(cancels_with_callback);
        janus_rt_shutdown();
    } else if (strcmp(what, "no_runtime") == 0) { /* several functions, before the first runtime and after it */
        for (int i = 0; i < 2; i++) {
            printf("%lld %d %d %d\n", (long long)janus_nursery_await_all(), janus_yield(), janus_panic(-1),
                   janus_cancelled());
            janus_nursery_cancel();
            janus_rt_shutdown();
            if (i == 0) {
                janus_rt_init_default();
                janus_rt_shutdown();
            }
        }
    } else if (strncmp(what, "pthread_exit", 12) == 0) {
        janus_task_options options = {.size = sizeof options, .name = "quitter", .stack_bytes = (size_t)1 << 16};
        janus_rt_init((janus_rt_config){.worker_count = strcmp(what, "pthread_exit_alone") == 0 ? 1 : 2});
        void *nursery = janus_nursery_open(NULL);
        janus_task_fn fn = strcmp(what, "pthread_exit_above") == 0 ? owns_such_a_task : ends_its_thread;
        janus_nursery_spawn_with(nursery, fn, NULL, &options, NULL);
        janus_nursery_await(nursery);
    } else if (strcmp(what, "rule") == 0) {
        breaks_a_rule();
    } else {
        return 99;
    }
    return 0;
}
