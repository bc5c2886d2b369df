/* A counting house in C: the functions of the C library in one program.
 *
 * Clerks receive ranges of numbers from one channel and send their counts to another; a nursery owns the clerks.
 * Several tasks search for the same receipt: a select gets the first result, and a cancel token stops the other
 * searches. A task that would never end is stopped by its budget, and the other tasks are not affected. The program
 * needs only the flags that `bursar info` prints.
 *
 * Run:
 *     cc -std=c11 -O2 counting_house.c $(bursar info --cflags --libs) -o counting_house
 *     ./counting_house
 *
 * Prints:
 *     9592 primes below 100000
 *     the receipt is number 271828; the other searches were stopped
 *     the spendthrift was stopped after 100000 ops; the frugal one returned 5050
 */

#include <inttypes.h>
#include <janus_interop.h>
#include <janus_rt.h>
#include <stdio.h>
#include <stdlib.h>

enum { RANGE = 1000, LAST = 100000, CLERKS = 4, SEARCHERS = 3, OPS = 100000 };

static void *ranges, *counts, *found; /* channels */

/* Ends the program after a failure; a service would handle the failure instead. Not for tasks: stdio needs more stack
 * than they have by default. */
static void
must(int holds)
{
    if (!holds) {
        fprintf(stderr, "the C library refused a call: no memory, or a bug of this program\n");
        exit(1);
    }
}

/* ---- channels and a nursery */

static int
is_prime(int64_t n)
{
    for (int64_t i = 2; i * i <= n; i++) {
        if (n % i == 0) {
            return 0;
        }
    }
    return n > 1;
}

static int64_t
hand_out(void *unused)
{
    (void)unused;
    for (int64_t first = 0; first < LAST; first += RANGE) {
        if (janus_channel_send_i64(ranges, first) !=
            0) { /* waits while the channel is full; its thread runs other tasks */
            return JANUS_CANCELLED;
        }
    }
    janus_channel_close_i64(ranges);
    return 0;
}

static int64_t
clerk(void *unused)
{
    (void)unused;
    janus_ticks *ticks = janus_ticks_get(); /* belongs to the task, on whatever thread it runs */
    while (1) {
        int32_t error;
        int64_t first = janus_channel_recv_i64(ranges, &error), count = 0;
        if (error != 0) {
            return 0; /* closed: there are no more ranges */
        }
        for (int64_t n = first; n < first + RANGE; n++) {
            int code = janus_tick(ticks); /* a decrement and a branch; once in 1024 ticks it lets others run */
            if (code != JANUS_OK) {
                return code; /* the task must stop, or its budget is spent: return the code */
            }
            count += is_prime(n);
        }
        if (janus_channel_send_i64(counts, count) != 0) {
            return JANUS_CANCELLED;
        }
    }
}

static void
count_primes(void)
{
    ranges = janus_channel_create_i64(8);
    counts = janus_channel_create_i64(0); /* a rendezvous */
    must(janus_nursery_create() != NULL);
    must(janus_nursery_spawn(hand_out, NULL) == 0);
    for (int i = 0; i < CLERKS; i++) {
        must(janus_nursery_spawn(clerk, NULL) == 0);
    }
    int64_t total = 0;
    for (int i = 0; i < LAST / RANGE; i++) {
        int32_t error;
        total += janus_channel_recv_i64(counts, &error); /* a thread that runs no task may wait too */
        must(error == 0);
    }
    must(janus_nursery_await_all() == JANUS_OK);
    janus_channel_destroy_i64(counts);
    janus_channel_destroy_i64(ranges);
    printf("%" PRId64 " primes below %d\n", total, LAST);
}

/* ---- select and a cancel token */

/* One-to-one: only one number has a given checksum. */
static uint64_t
checksum(uint64_t n)
{
    n = (n ^ n >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    return n ^ n >> 29;
}

static int64_t
look(void *start)
{
    janus_ticks *ticks = janus_ticks_get();
    const uint64_t wanted = checksum(271828);
    for (uint64_t n = (uintptr_t)start; janus_tick(ticks) == JANUS_OK; n += SEARCHERS) {
        if (checksum(n) == wanted) {
            return janus_channel_send_i64(found, (int64_t)n);
        }
    }
    return JANUS_CANCELLED;
}

static void
find_receipt(void)
{
    found = janus_channel_create_i64(1);
    must(janus_nursery_create() != NULL);
    for (uintptr_t i = 0; i < SEARCHERS; i++) {
        must(janus_nursery_spawn(look, (void *)i) == 0);
    }
    void *token = janus_nursery_get_token(); /* whatever code has the token can end the search */
    void *choice = janus_select_create();
    int32_t receipt = janus_select_add_recv(choice, found);
    int32_t too_late = janus_select_add_timeout(choice, 60000);
    int32_t came = janus_select_wait(choice);
    janus_cancel_token_cancel(token);
    must(janus_nursery_await_all() == JANUS_CANCELLED);
    if (came == receipt) {
        printf("the receipt is number %" PRId64 "; the other searches were stopped\n",
               janus_select_get_recv_value(choice, receipt));
    } else if (came == too_late) {
        printf("no receipt within a minute\n");
    }
    janus_select_destroy(choice);
    janus_cancel_token_destroy(token);
    janus_channel_destroy_i64(found);
}

/* ---- budgets */

static int64_t
spendthrift(void *spent)
{
    janus_ticks *ticks = janus_ticks_get();
    int answer;
    while ((answer = janus_tick(ticks)) == JANUS_OK) {
        *(int64_t *)spent += 1;
    }
    return answer;
}

static int64_t
frugal(void *unused)
{
    (void)unused;
    int64_t sum = 0;
    for (int64_t i = 1; i <= 100; i++) {
        if (janus_yield() != JANUS_OK) {
            return JANUS_CANCELLED;
        }
        sum += i;
    }
    return sum;
}

static void
keep_to_budgets(void)
{
    janus_budget ops = {OPS, JANUS_UNLIMITED, JANUS_UNLIMITED, JANUS_UNLIMITED, JANUS_UNLIMITED};
    int64_t spent = 0, sum = 0;
    janus_nursery_options keep_going = {.size = sizeof keep_going, .keep_going = true};
    janus_task_options limited = {.size = sizeof limited, .name = "spendthrift", .budget = &ops};
    janus_task_options heard = {.size = sizeof heard, .name = "frugal", .value_out = &sum};
    void *nursery = janus_nursery_open(&keep_going);
    must(janus_nursery_spawn_with(nursery, spendthrift, &spent, &limited, NULL) == JANUS_OK);
    must(janus_nursery_spawn_with(nursery, frugal, NULL, &heard, NULL) == JANUS_OK);
    must(janus_nursery_await(nursery) == JANUS_BUDGET_EXCEEDED);
    janus_result result; /* a child may also return -3: the kind tells the two apart */
    must(janus_nursery_result(&result) == JANUS_OK && result.kind == JANUS_KIND_BUDGET);
    must(janus_nursery_destroy(nursery) == JANUS_OK);
    printf("the spendthrift was stopped after %" PRId64 " ops; the frugal one returned %" PRId64 "\n", spent, sum);
}

int
main(void)
{
    must(janus_rt_init_default() == 0); /* one worker per processor */
    count_primes();
    find_receipt();
    keep_to_budgets();
    janus_rt_shutdown();
    return 0;
}
