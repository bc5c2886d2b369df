/* Budgets: every row of the cost table, exhaustion, recharge, no amplification. Faults 11, 14, 15. */
#include "rt.h"

#include <sched.h>

#include "engine/scheduler.h"

static void *
open_with(const janus_budget *budget, bool hold)
{
    janus_nursery_options options = {.size = sizeof options, .budget = budget, .hold = hold};
    void *n = janus_nursery_open(&options);
    CHECK(n != NULL);
    return n;
}

static int64_t
nothing(void *arg)
{
    (void)arg;
    return 0;
}

/* As many ticks as there are ops; the next one is refused. */
static int64_t
ticks_out(void *arg)
{
    int64_t count = 0;
    janus_ticks *ticks = janus_ticks_get();
    while (janus_tick(ticks) == JANUS_OK) {
        count++;
    }
    MUST(janus_yield() == JANUS_BUDGET_EXCEEDED); /* a second time */
    *(int64_t *)arg = count;
    return 0; /* its return value does not hide that */
}

static void
ops(void)
{
    const int64_t amounts[] = {0, 1, 1023, 1024, 1025, 5000};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        janus_budget purse = {20000, 0, 10, 0, 0}, own = {amounts[i], 0, 0, 0, 0};
        janus_task_options options = {.size = sizeof options, .budget = &own};
        int64_t count = -1;
        void *n = open_with(&purse, false);
        CHECK_EQUAL(janus_nursery_spawn_with(n, ticks_out, &count, &options, NULL), JANUS_OK);
        CHECK_EQUAL(janus_nursery_await(n), JANUS_BUDGET_EXCEEDED); /* instead of a hang */
        CHECK_EQUAL(rt_result().kind, JANUS_KIND_BUDGET);
        CHECK_EQUAL(count, amounts[i]);
        CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    }
}

/* Fault 14: each operation costs what the table says, and one that cannot be paid is not done. */
static int64_t
pays_for_channels(void *channel)
{
    janus_budget before = janus_budget_get_current();
    MUST(janus_channel_send_i64(channel, 1) == 0);
    janus_budget after = janus_budget_get_current();
    MUST(after.ops == before.ops - 1 && after.channel_ops == before.channel_ops - 1);
    int32_t error;
    MUST(janus_channel_recv_i64(channel, &error) == 1);
    int64_t value = 2;
    MUST(after.channel_ops - 1 == janus_budget_get_current().channel_ops);
    MUST(janus_budget_get_current().channel_ops == 0);
    MUST(janus_channel_send(channel, &value) == JANUS_BUDGET_EXCEEDED);
    MUST(janus_channel_len_i64(channel) == 0); /* not done */
    return 0;
}

static int64_t
pays_for_the_rest(void *arg)
{
    (void)arg;
    janus_budget before = janus_budget_get_current();
    janus_budget memory = {1, 100, 0, 0, 0}, syscall = {1, 0, 0, 0, 1}, much = {1, 1000000, 0, 0, 0};
    MUST(janus_charge(&memory) == JANUS_OK && janus_charge(&syscall) == JANUS_OK);
    janus_budget after = janus_budget_get_current();
    MUST(after.ops == before.ops - 2 && after.memory == before.memory - 100 && after.syscalls == before.syscalls - 1);
    MUST(janus_charge(&much) == JANUS_BUDGET_EXCEEDED); /* a smaller charge may still succeed */
    MUST(janus_budget_get_current().ops == after.ops && janus_budget_get_current().memory == after.memory);
    MUST(janus_charge(&memory) == JANUS_OK);
    MUST(janus_nursery_create() != NULL);          /* costs 1 op */
    MUST(janus_nursery_spawn(nothing, NULL) == 0); /* costs 1 op and 1 spawn of the task's own budget */
    MUST(janus_nursery_await_all() == JANUS_OK);
    MUST(janus_budget_get_current().spawns == before.spawns - 1);
    MUST(janus_budget_get_current().ops == after.ops - 3);
    return 0;
}

static void
costs(void)
{
    janus_budget purse = {1000, 1000, 100, 100, 10};
    janus_budget own = {100, 0, 0, 2, 0}, rich = {100, 500, 5, 0, 5};
    janus_task_options options = {.size = sizeof options, .budget = &own};
    void *c = janus_channel_create_i64(1);
    void *n = open_with(&purse, false);
    CHECK_EQUAL(janus_nursery_spawn_with(n, pays_for_channels, c, &options, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_BUDGET_EXCEEDED);
    CHECK_EQUAL(rt_result().code, 0); /* it did everything */
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    n = open_with(&purse, false);
    options.budget = &rich;
    CHECK_EQUAL(janus_nursery_spawn_with(n, pays_for_the_rest, NULL, &options, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    janus_channel_destroy_i64(c);
}

/* Fault 15: nesting does not give what was not granted; NU-5. */
static int64_t
tries_to_nest(void *arg)
{
    (void)arg;
    MUST(janus_nursery_create() != NULL);
    MUST(janus_nursery_spawn(nothing, NULL) == -1);
    MUST(janus_nursery_await_all() == JANUS_OK);
    janus_budget wish = {10, 10, 1000, 10, 10};
    janus_nursery_options options = {.size = sizeof options, .budget = &wish};
    void *n = janus_nursery_open(&options); /* a demand that is too large is reduced */
    MUST(n != NULL);
    MUST(janus_nursery_spawn_in(n, nothing, NULL) == JANUS_BUDGET_EXCEEDED);
    MUST(janus_nursery_await(n) == JANUS_OK && janus_nursery_destroy(n) == JANUS_OK);
    return 0;
}

static int64_t
nests_while_it_can(void *arg)
{
    atomic_long *born = arg;
    atomic_fetch_add(born, 1);
    if (janus_nursery_create() == NULL) {
        return 0;
    }
    for (int i = 0; i < 3; i++) {
        if (janus_nursery_spawn(nests_while_it_can, arg) != 0) {
            break;
        }
    }
    return janus_nursery_await_all();
}

static void
nesting(void)
{
    janus_budget none = {1000, 1000, 0, 10, 10}, purse = {100000, 100000, 50, 100, 100};
    janus_task_options options = {.size = sizeof options, .budget = &none};
    atomic_long born = 0;
    void *n = open_with(&purse, false);
    CHECK_EQUAL(janus_nursery_spawn_with(n, tries_to_nest, NULL, &options, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    n = open_with(&purse, false);
    CHECK_EQUAL(janus_nursery_spawn_in(n, nests_while_it_can, &born), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(atomic_load(&born), 50); /* fifty spawns, on whatever level */
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

/* Fault 11: a task that holds goes on after a recharge. */
static int64_t
ticks_ten(void *arg)
{
    (void)arg;
    janus_ticks *ticks = janus_ticks_get();
    for (int i = 0; i < 10; i++) {
        MUST(janus_tick(ticks) == JANUS_OK);
    }
    return 10;
}

static int64_t
supervises(void *arg)
{
    janus_budget purse = {1000, 0, 10, 0, 0}, three = {3, 0, 0, 0, 0}, too_much = {100000, 0, 0, 0, 0};
    janus_nursery_options holding = {.size = sizeof holding, .budget = &purse, .hold = true};
    janus_task_options options = {.size = sizeof options, .budget = &three, .value_out = arg};
    janus_task task;
    void *n = janus_nursery_open(&holding);
    MUST(n != NULL);
    MUST(janus_nursery_spawn_with(n, ticks_ten, NULL, &options, &task) == JANUS_OK);
    for (int given = 0; given < 3;) {
        MUST(janus_yield() == JANUS_OK);
        MUST(janus_budget_recharge_child(task, too_much) == -1);
        given += janus_budget_recharge_child(task, three) == 0;
    }
    MUST(janus_nursery_await(n) == JANUS_OK);
    MUST(janus_budget_recharge_child(task, three) == -1); /* it has ended */
    return janus_nursery_destroy(n);
}

static int64_t
holds_until_cancelled(void *arg)
{
    (void)arg;
    janus_ticks *ticks = janus_ticks_get();
    while (janus_tick(ticks) == JANUS_OK) {
    }
    MUST(janus_cancelled());
    return JANUS_CANCELLED;
}

static int64_t
fails_later(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        MUST(janus_yield() == JANUS_OK);
    }
    return -6;
}

static void
recharge(void)
{
    int64_t value = 0;
    CHECK_EQUAL(rt_run(supervises, &value), JANUS_OK);
    CHECK_EQUAL(value, 10);
    janus_budget purse = {100, 0, 10, 0, 0}, three = {3, 0, 0, 0, 0};
    janus_task_options options = {.size = sizeof options, .budget = &three};
    void *n = open_with(&purse, true);
    CHECK_EQUAL(janus_nursery_spawn_with(n, holds_until_cancelled, NULL, &options, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(n, fails_later, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), -6);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
}

/* A self-recharge needs a CapBudget, which limits it. */
static int64_t
recharges_itself(void *arg)
{
    (void)arg;
    janus_budget five = {5, 0, 0, 0, 0}, one = {1, 0, 0, 0, 0}, other = {0, 1, 0, 0, 0};
    MUST(janus_budget_get_current().ops == 2);
    MUST(janus_budget_recharge(five) == 0);
    MUST(janus_budget_get_current().ops == 6); /* the call costs 1 op */
    MUST(janus_budget_recharge(one) == -1 && janus_budget_recharge(other) == -1);
    return 0;
}

static int64_t
may_not(void *arg)
{
    (void)arg;
    janus_budget one = {1, 0, 0, 0, 0};
    MUST(janus_budget_recharge(one) == -1);
    return 0;
}

static void
self_recharge(void)
{
    janus_budget two = {2, 0, 0, 0, 0}, right = {5, 0, 0, 0, 0};
    janus_task_options options = {.size = sizeof options, .budget = &two, .recharge = &right};
    void *n = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_with(n, recharges_itself, NULL, &options, NULL), JANUS_OK);
    options.recharge = NULL;
    CHECK_EQUAL(janus_nursery_spawn_with(n, may_not, NULL, &options, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(n, may_not, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    CHECK_EQUAL(janus_budget_recharge(two), -1); /* not called by a task */
}

/* Unspent budget comes back: the same finite purse serves any number of children, one after the other. */
static int64_t
spends_one(void *arg)
{
    (void)arg;
    janus_ticks *ticks = janus_ticks_get();
    return janus_tick(ticks);
}

static void
refunds(void)
{
    janus_budget purse = {1000, 0, 200, 0, 0};
    janus_rt_shutdown();
    janus_rt_options root = {.size = sizeof root, .worker_count = 2, .budget = &purse};
    CHECK_EQUAL(janus_rt_init_with(&root), JANUS_OK);
    janus_budget own = {700, 0, 0, 0, 0};
    janus_task_options options = {.size = sizeof options, .budget = &own};
    for (int i = 0; i < 50; i++) {
        void *n = janus_nursery_open(NULL);
        CHECK_EQUAL(janus_nursery_spawn_with(n, spends_one, NULL, &options, NULL), JANUS_OK);
        CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
        CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    }
    janus_budget left = janus_budget_get_current();
    CHECK_EQUAL(left.ops, 1000 - 50 * 2); /* a spawn and a tick each */
    CHECK_EQUAL(left.spawns, 150);
}

/* Two tasks that run at the same time share what is left: one spawns a little and goes on, the other takes the rest. */
static atomic_int spawned_one, spawned_all;

static int64_t
spawns_one(void *arg)
{
    (void)arg;
    MUST(janus_nursery_create() != NULL && janus_nursery_spawn(nothing, NULL) == 0);
    atomic_store(&spawned_one, 1);
    while (atomic_load(&spawned_all) == 0) {
        (void)sched_yield();
    }
    return janus_nursery_await_all();
}

static int64_t
spawns_the_rest(void *arg)
{
    int64_t *count = arg;
    while (atomic_load(&spawned_one) == 0) {
        (void)sched_yield();
    }
    MUST(janus_nursery_create() != NULL);
    while (*count < 1000 && janus_nursery_spawn(nothing, NULL) == 0) {
        *count += 1;
    }
    atomic_store(&spawned_all, 1);
    return janus_nursery_await_all();
}

static void
shared_spawns(void)
{
    const janus_budget purse = {100000, 0, 100, 0, 0};
    int64_t rest = 0;
    rt_up(2);
    void *n = open_with(&purse, false);
    CHECK_EQUAL(janus_nursery_spawn_in(n, spawns_one, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(n, spawns_the_rest, &rest), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(n), JANUS_OK);
    CHECK_EQUAL(rest, 100 - 3);
    CHECK_EQUAL(janus_nursery_destroy(n), JANUS_OK);
    janus_rt_shutdown();
}

int
main(void)
{
    void (*const tests[])(void) = {ops, costs, nesting, recharge, self_recharge, refunds};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        rt_each(tests[i]);
    }
    shared_spawns();
    return finish();
}
