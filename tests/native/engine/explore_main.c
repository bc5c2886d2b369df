/* main() of the explorer's tests: see the end of explore.h. */
#define _POSIX_C_SOURCE 200809L

#include "explore.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool expect_failure, any_failed;
static uint64_t first_seed = 1;
static bool one_seed;
static const char *only = "";

/* An abort is a failure too: a broken rule of the law, or a thread in an endless loop. */
static void
aborted(int signal_number)
{
    (void)signal_number;
    _exit(0);
}

static void
report(const ExploreProgram *explored, bool all, const ExploreResult *result)
{
    bool ok = !result->failed && (!all || result->complete);
    printf("%-28s %-7s %9llu runs %9llu states %6llu cut  %s\n", explored->name,
           !all               ? "random"
           : explored->strong ? "strong"
                              : "all",
           (unsigned long long)result->runs, (unsigned long long)result->states, (unsigned long long)result->cut,
           ok               ? "ok"
           : result->failed ? result->failure
                            : "NOT COMPLETE");
    fflush(stdout);
    any_failed = any_failed || !ok;
    if (expect_failure && result->failed) {
        exit(0);
    }
}

void
explore_check_all(const ExploreProgram *explored)
{
    if (!one_seed && strstr(explored->name, only) != NULL) {
        ExploreResult result = explore_all(explored, UINT64_C(1) << 40);
        report(explored, true, &result);
    }
}

void
explore_check_random(const ExploreProgram *explored, uint64_t runs, unsigned turns)
{
    if (strstr(explored->name, only) != NULL) {
        ExploreResult result = explore_random(explored, first_seed, one_seed ? 1 : runs, turns);
        report(explored, false, &result);
    }
}

int
explore_main(int argc, char **argv, void (*test)(bool long_form))
{
    bool long_form = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--long") == 0) {
            long_form = true;
        } else if (strcmp(argv[i], "--expect-failure") == 0) {
            expect_failure = true;
            signal(SIGABRT, aborted);
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            first_seed = strtoull(argv[++i], NULL, 0);
            one_seed = true;
        } else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            only = argv[++i];
        } else {
            fprintf(stderr, "usage: %s [--long] [--expect-failure] [--seed N] [--only NAME]\n", argv[0]);
            return 2;
        }
    }
    test(long_form);
    if (expect_failure) {
        fprintf(stderr, "a fault was planted, and nothing failed\n");
        return 1;
    }
    return any_failed ? 1 : 0;
}
