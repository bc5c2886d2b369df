/* Faults that are no overflows: the signal kills the process, or the former handler gets it (OVERFLOW-2, OVERFLOW-3).
 * Each case runs in a child process. */

#include "world.h"

#include <sys/mman.h>

static struct world world;

/* The signal that ends a child that runs `entry` on a fiber, or minus its exit status. */
static int
dies_of(fiber_entry what)
{
    pid_t child = fork();
    if (child == 0) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL); /* not a sanitizer's handler, which would exit */
        signal(SIGBUS, SIG_DFL);
        struct fiber fiber;
        world_begin(&world, NULL);
        fiber_init(&fiber, "suspect", what, NULL, 0);
        enum fiber_state state = fiber_resume(&world.cache, &fiber);
        _exit(state == FIBER_PANICKED ? 77 : state == FIBER_DONE ? 78 : 79);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static int64_t
overflows(void *arg)
{
    return overflowing(arg);
}

static char *volatile nowhere = (char *)(uintptr_t)8; /* volatile: the compiler must not know the value */

static int64_t
writes_to_nowhere(void *arg)
{
    (void)arg;
    *nowhere = 1;
    return 0;
}

static int64_t
jumps_to_nowhere(void *arg)
{
    (void)arg;
    ((void (*)(void))(uintptr_t)nowhere)();
    return 0;
}

/* A wild pointer into the guard of another stack is not an overflow. */
static int64_t
writes_into_a_strange_guard(void *arg)
{
    (void)arg;
    struct stack *other = stack_cache_get(&world.cache, 0);
    other->limit[-1] = 1;
    return 0;
}

static struct fiber inner;

static int64_t
waits_inside(void *arg)
{
    /* The guard of the fiber that resumed this one: it is RUNNING, but it does not run here. */
    ((struct fiber *)arg)->stack->limit[-1] = 1;
    return 0;
}

static int64_t
inner_writes_into_the_outer_guard(void *arg)
{
    (void)arg;
    fiber_init(&inner, "inner", waits_inside, fiber_self(), 0);
    fiber_resume(&world.cache, &inner);
    return 0;
}

static int64_t
is_sent_a_signal(void *arg)
{
    (void)arg;
    raise(SIGSEGV);
    return 0;
}

static int64_t
reads_past_a_file(void *arg)
{
    (void)arg;
    FILE *file = tmpfile();
    volatile char *mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
    return mapped[0];
}

static void
test_what_kills(void)
{
    CHECK_EQUAL(dies_of(overflows), -77);
    CHECK_EQUAL(dies_of(writes_to_nowhere), SIGSEGV);
    CHECK_EQUAL(dies_of(jumps_to_nowhere), SIGSEGV);
    CHECK_EQUAL(dies_of(writes_into_a_strange_guard), SIGSEGV);
    CHECK_EQUAL(dies_of(inner_writes_into_the_outer_guard), SIGSEGV);
    CHECK_EQUAL(dies_of(is_sent_a_signal), SIGSEGV);
    CHECK_EQUAL(dies_of(reads_past_a_file), SIGBUS);
}

/* The loop of a runner is no fiber: an overflow there kills. */
static void
bad_loop(struct runner *runner)
{
    overflowing(NULL);
    runner_leave(runner);
}

static int64_t
enters_a_bad_loop(void *arg)
{
    struct runner runner;
    (void)arg;
    runner_init(&runner, &world.cache, bad_loop, NULL);
    return runner_enter(&runner);
}

static void
test_a_loop_that_overflows_kills(void)
{
    CHECK_EQUAL(dies_of(enters_a_bad_loop), SIGSEGV);
}

static void
former(int signal, siginfo_t *info, void *at)
{
    (void)signal, (void)at;
    _exit(info->si_addr == (void *)8 ? 55 : 56);
}

static void
former_plain(int signal)
{
    _exit(signal == SIGSEGV ? 57 : 58);
}

static int64_t
with_a_former_handler(void *arg)
{
    return writes_to_nowhere(arg);
}

/* As dies_of, but with a handler that was installed before ours. */
static int
dies_with(struct sigaction *action, fiber_entry what)
{
    pid_t child = fork();
    if (child == 0) {
        struct fiber fiber;
        sigaction(SIGSEGV, action, NULL);
        world_begin(&world, NULL);
        for (int i = 0; i < 3; i++) { /* overflows do not reach it */
            fiber_init(&fiber, "glutton", overflowing, NULL, 0);
            if (fiber_resume(&world.cache, &fiber) != FIBER_PANICKED) {
                _exit(60);
            }
        }
        fiber_init(&fiber, "suspect", what, NULL, 0);
        _exit(fiber_resume(&world.cache, &fiber) == FIBER_DONE ? 61 : 62);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void
test_the_former_handler_is_called(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = former;
    action.sa_flags = SA_SIGINFO;
    CHECK_EQUAL(dies_with(&action, with_a_former_handler), -55);
    action.sa_handler = former_plain;
    action.sa_flags = 0;
    CHECK_EQUAL(dies_with(&action, with_a_former_handler), -57);
    action.sa_handler = SIG_IGN; /* a fault cannot be ignored, a signal that was sent can */
    CHECK_EQUAL(dies_with(&action, with_a_former_handler), SIGSEGV);
    CHECK_EQUAL(dies_with(&action, is_sent_a_signal), -61);
}

/* Installed and removed several times: the former handler is back after the last removal, not before. */
static void
test_installing_and_removing(void)
{
    struct sigaction before, now;
    sigaction(SIGSEGV, NULL, &before);
    CHECK_EQUAL(overflow_install(), 0);
    CHECK_EQUAL(overflow_install(), 0);
    overflow_remove();
    sigaction(SIGSEGV, NULL, &now);
    CHECK(now.sa_sigaction != before.sa_sigaction);
    overflow_remove();
    sigaction(SIGSEGV, NULL, &now);
    CHECK(now.sa_sigaction == before.sa_sigaction);
    overflow_remove(); /* one too many is harmless */
    /* Another handler was installed over ours: both stay. */
    CHECK_EQUAL(overflow_install(), 0);
    struct sigaction stranger;
    memset(&stranger, 0, sizeof stranger);
    stranger.sa_handler = former_plain;
    sigaction(SIGSEGV, &stranger, &now);
    overflow_remove();
    sigaction(SIGSEGV, NULL, &stranger);
    CHECK(stranger.sa_handler == former_plain);
    sigaction(SIGSEGV, &now, NULL);
    CHECK_EQUAL(overflow_install(), 0);
    overflow_remove();
    sigaction(SIGSEGV, NULL, &now);
    CHECK(now.sa_sigaction == before.sa_sigaction);
}

int
main(void)
{
    test_what_kills();
    test_a_loop_that_overflows_kills();
    test_the_former_handler_is_called();
    test_installing_and_removing();
    return finish();
}
