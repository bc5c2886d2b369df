/* What a test in C needs, and no more: CHECK, CHECK_EQUAL, CHECK_BREAKS, and a `main` that counts. Include it first.
 *
 * A failed check says where and what, and the test goes on, so that one run shows all of them; `finish` is what `main`
 * returns. A rule of the law that is broken ends the process, so CHECK_BREAKS runs its statement in a child.
 */
#ifndef TESTS_NATIVE_CHECK_H
#define TESTS_NATIVE_CHECK_H

#ifndef _POSIX_C_SOURCE
#  define _POSIX_C_SOURCE 200809L
#endif

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int checks_made, checks_failed;

static inline void
check(bool holds, const char *text, const char *file, int line)
{
    checks_made += 1;
    if (!holds) {
        checks_failed += 1;
        fprintf(stderr, "%s:%d: %s\n", file, line, text);
    }
}

static inline void
check_equal(uint64_t a, uint64_t b, const char *text, const char *file, int line)
{
    check(a == b, text, file, line);
    if (a != b) {
        fprintf(stderr, "    %" PRIu64 " (%" PRIx64 ") is not %" PRIu64 " (%" PRIx64 ")\n", a, a, b, b);
    }
}

#define CHECK(holds) check((holds), #holds, __FILE__, __LINE__)

/* Whole numbers that are the same word of 64 bits. */
#define CHECK_EQUAL(a, b) check_equal((uint64_t)(a), (uint64_t)(b), #a " == " #b, __FILE__, __LINE__)

/* In the child: no core file, and what it says on the way down goes to the pipe. */
static inline void
check_prepare_to_die(int to)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    dup2(to, STDERR_FILENO);
}

/* In the parent: whether the child was aborted for breaking `rule`. */
static inline bool
check_died_of(pid_t child, int from, const char *rule)
{
    char said[512] = "", expected[64];
    size_t length = 0;
    ssize_t got;
    while (length < sizeof said - 1 && (got = read(from, said + length, sizeof said - 1 - length)) > 0) {
        length += (size_t)got;
    }
    int status = 0;
    snprintf(expected, sizeof expected, "rule %s of the law", rule);
    return waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
           strstr(said, expected) != NULL;
}

/* The statement breaks this rule of the law, and the process with it. */
#define CHECK_BREAKS(rule, statement)                                                         \
    do {                                                                                      \
        int check_ends[2];                                                                    \
        pid_t check_child = pipe(check_ends) == 0 ? fork() : -1;                              \
        if (check_child == 0) {                                                               \
            check_prepare_to_die(check_ends[1]);                                              \
            statement;                                                                        \
            _exit(0);                                                                         \
        }                                                                                     \
        close(check_ends[1]);                                                                 \
        bool check_died = check_child > 0 && check_died_of(check_child, check_ends[0], rule); \
        check(check_died, #statement " breaks " rule, __FILE__, __LINE__);                    \
        close(check_ends[0]);                                                                 \
    } while (0)

/* Say how it went. Returns what `main` returns. */
static inline int
finish(void)
{
    fprintf(stderr, "%d checks, %d failed\n", checks_made, checks_failed);
    return checks_failed == 0 && checks_made > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
