/* Walking up the stack of a fiber: by the unwinder of the C library, and by gdb where it is installed. Both must see
 * every function of the fiber and end at its first frame. */

#include "world.h"

#include <execinfo.h>

static struct world world;

/* The return address of each level: what an unwinder must find. */
static void *expected[3], *found[32];
static int found_count;

static __attribute__((noinline)) int64_t
innermost(int64_t x)
{
    expected[0] = __builtin_return_address(0);
    found_count = backtrace(found, 32);
    if (x < 0) {
        raise(SIGTRAP); /* for gdb */
    }
    return x + found_count;
}

static __attribute__((noinline)) int64_t
in_between(int64_t x)
{
    expected[1] = __builtin_return_address(0);
    return innermost(x) * 2;
}

static __attribute__((noinline)) int64_t
outermost(void *arg)
{
    expected[2] = __builtin_return_address(0);
    return in_between(*(int64_t *)arg) + 1;
}

/* The expected addresses are there, one after another, and `frames_after` frames follow. Before them are `innermost`
 * itself, and with a sanitizer its own `backtrace`. */
static void
check_found(int frames_after)
{
    int at = 0;
    while (at < found_count && found[at] != expected[0]) {
        at++;
    }
    CHECK(at == 1 || at == 2);
    CHECK(at + 3 < found_count && found[at + 1] == expected[1] && found[at + 2] == expected[2]);
    int after = found_count - at - 3;
    CHECK(after == frames_after || after == frames_after + 1); /* some unwinders count the end as a frame */
}

static void
test_the_unwinder_ends_at_the_first_frame(void)
{
    struct fiber fiber;
    int64_t x = 1;
    fiber_init(&fiber, "walked", outermost, &x, 0);
    CHECK_EQUAL(fiber_resume(&world.cache, &fiber), FIBER_DONE);
    check_found(1); /* outermost was called by fiber_root, and that by context_root */
}

static int64_t number;

static void
loop(struct runner *runner)
{
    struct fiber fiber;
    fiber_init(&fiber, "walked", outermost, &number, 0);
    CHECK_EQUAL(runner_call(&runner, &fiber), FIBER_DONE);
    runner_leave(runner);
}

/* Below a fiber that is called under a runner is the loop, behind the recovery point. */
static void
test_the_unwinder_under_a_runner(void)
{
    struct runner runner;
    runner_init(&runner, &world.cache, loop, NULL);
    CHECK_EQUAL(runner_enter(&runner), 0);
    check_found(4); /* runner_body, then context_call, loop, runner_first, context_root */
}

/* Runs this program again under gdb, up to the trap, and looks for the frames in the output of gdb. */
static void
test_gdb(const char *self, const char *how, const char *const *frames)
{
    char command[4096], output[65536];
    snprintf(command, sizeof command,
             "gdb -nx -batch -ex 'set style enabled off' -ex 'set debuginfod enabled off' -ex run -ex backtrace "
             "--args %s %s 2>&1",
             self, how);
    FILE *pipe = popen(command, "r");
    size_t length = pipe == NULL ? 0 : fread(output, 1, sizeof output - 1, pipe);
    output[length] = '\0';
    if (pipe == NULL || pclose(pipe) != 0 || strstr(output, "SIGTRAP") == NULL) {
        fprintf(stderr, "gdb cannot run programs here: skipped\n%.300s\n", output);
        return;
    }
    const char *from = output;
    for (; *frames != NULL; frames++) {
        const char *at = strstr(from, *frames);
        CHECK(at != NULL);
        if (at == NULL) {
            fprintf(stderr, "no %s in order in:\n%s\n", *frames, output);
            return;
        }
        from = at;
    }
    CHECK(strstr(from, "corrupt stack") == NULL);
}

int
main(int count_of_arguments, char **arguments)
{
    if (count_of_arguments > 1) { /* this is the process under gdb */
        number = -1;
        world_begin(&world, NULL);
        if (strcmp(arguments[1], "runner") == 0) {
            test_the_unwinder_under_a_runner();
        } else {
            struct fiber fiber;
            fiber_init(&fiber, "walked", outermost, &number, 0);
            fiber_resume(&world.cache, &fiber);
        }
        return 0;
    }
    world_begin(&world, NULL);
    test_the_unwinder_ends_at_the_first_frame();
    test_the_unwinder_under_a_runner();
    world_end(&world);
#if !SANITIZE_ADDRESS && !SANITIZE_THREAD && defined(__x86_64__)
    if (system("gdb --version > /dev/null 2>&1") == 0) {
        const char *const fiber[] = {"innermost", "in_between", "outermost", "fiber_root", "context_root", NULL};
        const char *const runner[] = {"innermost", "in_between",   "outermost",    "runner_body", "context_call",
                                      "loop",      "runner_first", "context_root", NULL};
        test_gdb(arguments[0], "fiber", fiber);
        test_gdb(arguments[0], "runner", runner);
    }
#endif
    (void)test_gdb;
    return finish();
}
