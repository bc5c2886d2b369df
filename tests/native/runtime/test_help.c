/* Owners that run their children above their own frames (engine/help_children.c): what a child may do to the owner
 * beneath it, and how a cancel request passes an owner that cannot run. HELP-1 to HELP-4. */
#include "rt.h"

#include <sched.h>

#define LEVELS 5

typedef struct {
    janus_task_fn innermost;
    void *channel;
    int level;
} Family;

static atomic_int owners_told, arrived;

/* Each level opens a nursery, has one child, and awaits it. */
static int64_t
owner(void *arg)
{
    Family *family = arg, next = *family;
    volatile int64_t mine[8] = {family->level, 1, 2, 3, 4, 5, 6, 7}; /* memory beneath the child */
    if (family->level == LEVELS) {
        atomic_store(&arrived, 1);
        return family->innermost(family->channel);
    }
    next.level += 1;
    janus_nursery_create();
    if (janus_nursery_spawn(owner, &next) != 0) {
        return JANUS_CANCELLED;
    }
    int64_t ended = janus_nursery_await_all();
    MUST(mine[0] == family->level && mine[7] == 7);
    if (ended == JANUS_CANCELLED) {
        MUST(janus_cancelled());
        atomic_fetch_add(&owners_told, 1);
    }
    return ended;
}

static int64_t
receives(void *channel)
{
    int64_t value = 0;
    int error = janus_channel_receive(channel, &value);
    return error != JANUS_OK ? error : value == 42 ? 0 : -100;
}

static int64_t
yields_until_told(void *channel)
{
    (void)channel;
    while (!janus_cancelled()) {
        (void)janus_yield(); /* never waits: it must look for requests to the tasks beneath it (HELP-1) */
    }
    return JANUS_CANCELLED;
}

static int64_t
panics_later(void *channel)
{
    int64_t value;
    (void)janus_channel_receive(channel, &value); /* perhaps another worker resumes it */
    janus_panic(7);
    return 0;
}

/* Until the innermost task is there, and has most probably begun to wait. */
static void
let_it_arrive(void)
{
    for (int i = 0; i < 50 || atomic_load(&arrived) == 0; i++) {
        (void)janus_yield();
    }
}

static int64_t
cancels_later(void *nursery)
{
    let_it_arrive();
    (void)janus_nursery_cancel_in(nursery);
    return 0;
}

static int64_t
sends_later(void *channel)
{
    int64_t value = 42;
    let_it_arrive();
    return janus_channel_send(channel, &value);
}

static int64_t
ends_as(janus_task_fn innermost, janus_task_fn other, bool other_gets_channel)
{
    Family family = {.innermost = innermost, .channel = janus_channel_create(sizeof(int64_t), 0)};
    void *inner = janus_nursery_open(NULL);
    atomic_store(&arrived, 0);
    CHECK_EQUAL(janus_nursery_spawn_in(inner, owner, &family), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(inner, other, other_gets_channel ? family.channel : inner), JANUS_OK);
    int64_t ended = janus_nursery_await(inner);
    CHECK_EQUAL(janus_nursery_destroy(inner), JANUS_OK);
    CHECK_EQUAL(janus_channel_destroy(family.channel), JANUS_OK);
    return ended;
}

/* HELP-2, HELP-3: the child waits, and the request wakes the tasks beneath it, one after another. */
static void
cancelled_while_covered(void)
{
    atomic_store(&owners_told, 0);
    CHECK_EQUAL(ends_as(receives, cancels_later, false), JANUS_CANCELLED);
    CHECK_EQUAL(atomic_load(&owners_told), LEVELS);
}

static void
cancelled_while_the_child_runs(void)
{
    atomic_store(&owners_told, 0);
    CHECK_EQUAL(ends_as(yields_until_told, cancels_later, false), JANUS_CANCELLED);
    CHECK_EQUAL(atomic_load(&owners_told), LEVELS);
}

static void
goes_on_after_a_wait(void)
{
    for (int i = 0; i < FEW(100); i++) {
        CHECK_EQUAL(ends_as(receives, sends_later, true), JANUS_OK);
    }
}

/* The frames of the child are dropped, those of its owner stay. */
static void
panic_above(void)
{
    CHECK_EQUAL(ends_as(panics_later, sends_later, true), JANUS_PANICKED);
}

#define MANY 40

static atomic_int ended_well;

/* Every third child panics, and every fifth gives way first, which may move the owner to another worker. */
static int64_t
one_of_many(void *number)
{
    intptr_t i = (intptr_t)number;
    if (i % 5 == 0) {
        MUST(janus_yield() == 0);
    }
    if (i % 3 == 0) {
        janus_panic((int32_t)i);
    }
    atomic_fetch_add(&ended_well, 1);
    return 0;
}

static int64_t
has_many(void *arg)
{
    volatile int64_t mine[8] = {0, 1, 2, 3, 4, 5, 6, 7}; /* memory beneath the children */
    janus_nursery_options options = {.size = sizeof options, .keep_going = true};
    (void)arg;
    for (int round = 0; round < 3; round++) {
        void *nursery = janus_nursery_open(&options);
        MUST(nursery != NULL);
        for (intptr_t i = 1; i <= MANY; i++) {
            MUST(janus_nursery_spawn(one_of_many, (void *)i) == 0);
        }
        MUST(janus_nursery_await(nursery) == JANUS_PANICKED);
        MUST(janus_nursery_destroy(nursery) == JANUS_OK);
        MUST(mine[0] == 0 && mine[7] == 7);
    }
    return 0;
}

/* RUNNER-9: all children are called from one recovery point, which is set again after each panic. Every child is
 * counted once. */
static void
panics_among_many(void)
{
    atomic_store(&ended_well, 0);
    void *outer = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_in(outer, has_many, NULL), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(outer), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(outer), JANUS_OK);
    CHECK_EQUAL(atomic_load(&ended_well), 3 * (MANY - MANY / 3));
}

static void *unrelated[3]; /* nurseries without children: to cancel one is a request to no task */

/* A task that must stop gets ENGINE_CANCELLED at every call, whatever other requests there are meanwhile (HELP-1). */
static int64_t
asks_again(void *channel)
{
    (void)channel;
    while (!janus_cancelled()) {
        (void)janus_yield();
    }
    for (int i = 0; i < 3; i++) {
        MUST(janus_yield() == JANUS_CANCELLED && janus_cancelled());
        MUST(janus_nursery_create() == NULL); /* it could have no children */
        MUST(janus_nursery_cancel_in(unrelated[i]) == JANUS_OK && janus_cancelled());
    }
    return JANUS_CANCELLED;
}

static void
stays_told(void)
{
    atomic_store(&owners_told, 0);
    for (int i = 0; i < 3; i++) {
        unrelated[i] = janus_nursery_open(NULL);
        CHECK(unrelated[i] != NULL);
    }
    CHECK_EQUAL(ends_as(asks_again, cancels_later, false), JANUS_CANCELLED);
    CHECK_EQUAL(atomic_load(&owners_told), LEVELS);
    for (int i = 0; i < 3; i++) {
        CHECK_EQUAL(janus_nursery_await(unrelated[i]), JANUS_CANCELLED);
        CHECK_EQUAL(janus_nursery_destroy(unrelated[i]), JANUS_OK);
    }
}

/* Three tasks of one worker: one whose child waits above it, one that waits, and one that keeps the worker meanwhile.
 */
typedef struct {
    void *to_child, *to_other;
    atomic_int turn; /* 1: the thread outside may go on, 2: the task inside may */
} Outside;

static int64_t
receives_and_works(void *channel)
{
    static const janus_budget one = {.ops = 1};
    int64_t ended = receives(channel);
    MUST(janus_charge(&one) == JANUS_OK); /* draws more */
    return ended;
}

static int64_t
owns_one(void *arg)
{
    Outside *outside = arg;
    MUST(janus_nursery_create() != NULL);
    MUST(janus_nursery_spawn(receives_and_works, outside->to_child) == 0);
    return janus_nursery_await_all();
}

static int64_t
keeps_the_worker(void *arg)
{
    Outside *outside = arg;
    int64_t value = 42;
    for (int i = 0; i < 10; i++) {
        MUST(janus_yield() == 0); /* the others go first, and wait by now */
    }
    atomic_store(&outside->turn, 1);
    while (atomic_load(&outside->turn) != 2) {
        (void)sched_yield();
    }
    MUST(janus_channel_send(outside->to_child, &value) == JANUS_OK); /* goes before the tasks in the injector */
    return janus_channel_send(outside->to_other, &value);
}

/* A covered task is in the injector, because an outside thread woke it, while its child ends and passes its drawn ops
 * back. Neither this task nor the next one in the injector is lost. */
static void
woken_from_outside_while_covered(void)
{
    Outside outside = {
        .to_child = janus_channel_create(sizeof(int64_t), 0),
        .to_other = janus_channel_create(sizeof(int64_t), 0),
    };
    janus_task covered, other;
    void *nursery = janus_nursery_open(NULL);
    CHECK_EQUAL(janus_nursery_spawn_with(nursery, owns_one, &outside, NULL, &covered), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_with(nursery, receives, outside.to_other, NULL, &other), JANUS_OK);
    CHECK_EQUAL(janus_nursery_spawn_in(nursery, keeps_the_worker, &outside), JANUS_OK);
    while (atomic_load(&outside.turn) != 1) {
        (void)sched_yield();
    }
    const janus_task woken[] = {covered, other};
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(janus_task_pause(woken[i]), JANUS_OK);
        CHECK_EQUAL(janus_task_resume(woken[i]), JANUS_OK);
    }
    atomic_store(&outside.turn, 2);
    CHECK_EQUAL(janus_nursery_await(nursery), JANUS_OK);
    CHECK_EQUAL(janus_nursery_destroy(nursery), JANUS_OK);
    CHECK_EQUAL(janus_channel_destroy(outside.to_child), JANUS_OK);
    CHECK_EQUAL(janus_channel_destroy(outside.to_other), JANUS_OK);
}

/* ---- a callback that is called while an owner is covered */

static atomic_int child_waits, callback_calls;
static atomic_uint_least64_t callback_task;

static void
note_callback(void *arg, int reason)
{
    (void)arg;
    (void)reason;
    atomic_store(&callback_task, janus_task_id());
    atomic_store(&callback_calls, 1);
}

static int64_t
says_that_it_waits(void *channel)
{
    atomic_store(&child_waits, 1);
    return receives(channel);
}

static int64_t
watches_its_nursery(void *channel)
{
    MUST(janus_nursery_create() != NULL);
    void *token = janus_nursery_get_token();
    MUST(janus_cancel_token_on_cancel(token, note_callback, NULL) == JANUS_OK);
    MUST(janus_nursery_spawn(says_that_it_waits, channel) == 0);
    int64_t ended = janus_nursery_await_all();
    janus_cancel_token_destroy(token);
    return ended;
}

/* The loop serves the covered owner, so no task runs: the callback does not see the task that was parked last as the
 * running one. */
static void
called_by_the_loop(void)
{
    void *channel = janus_channel_create(sizeof(int64_t), 0), *nursery = janus_nursery_open(NULL);
    janus_task covered;
    atomic_store(&child_waits, 0);
    atomic_store(&callback_calls, 0);
    atomic_store(&callback_task, 1);
    CHECK_EQUAL(janus_nursery_spawn_with(nursery, watches_its_nursery, channel, NULL, &covered), JANUS_OK);
    while (atomic_load(&child_waits) == 0 || rt_statistics().parked < 1) {
        (void)sched_yield();
    }
    CHECK_EQUAL(janus_task_cancel(covered), JANUS_OK);
    CHECK_EQUAL(janus_nursery_await(nursery), JANUS_OK);
    CHECK_EQUAL(atomic_load(&callback_calls), 1);
    CHECK_EQUAL(atomic_load(&callback_task), 0);
    CHECK_EQUAL(janus_nursery_destroy(nursery), JANUS_OK);
    CHECK_EQUAL(janus_channel_destroy(channel), JANUS_OK);
}

static atomic_int begun;

static int64_t
begins(void *arg)
{
    (void)arg;
    atomic_fetch_add(&begun, 1);
    return 0;
}

static int64_t
fails(void *arg)
{
    (void)arg;
    atomic_fetch_add(&begun, 1);
    return -100;
}

/* The owner of children that are cancelled before they begin; it runs them itself, newest first. */
static int64_t
asks_before_they_begin(void *arg)
{
    janus_nursery_options options = {.size = sizeof options, .keep_going = true};
    janus_task asked;
    (void)arg;
    void *nursery = janus_nursery_open(&options); /* one of three, by its handle */
    MUST(janus_nursery_spawn(begins, NULL) == 0);
    MUST(janus_nursery_spawn_with(nursery, begins, NULL, NULL, &asked) == JANUS_OK);
    MUST(janus_nursery_spawn(begins, NULL) == 0);
    MUST(janus_task_cancel(asked) == JANUS_OK);
    (void)janus_nursery_await(nursery);
    MUST(janus_nursery_destroy(nursery) == JANUS_OK && atomic_exchange(&begun, 0) == 2);

    MUST(janus_nursery_create() != NULL); /* all of them */
    MUST(janus_nursery_spawn(begins, NULL) == 0 && janus_nursery_spawn(begins, NULL) == 0);
    janus_nursery_cancel();
    MUST(janus_nursery_await_all() == JANUS_CANCELLED && atomic_exchange(&begun, 0) == 0);

    MUST(janus_nursery_create() != NULL); /* the remaining ones, after one has failed */
    MUST(janus_nursery_spawn(begins, NULL) == 0 && janus_nursery_spawn(fails, NULL) == 0);
    MUST(janus_nursery_spawn(begins, NULL) == 0);
    MUST(janus_nursery_await_all() == -100 && atomic_exchange(&begun, 0) == 2);

    MUST(janus_nursery_create() != NULL); /* none: the requests are to other tasks, after this nursery was opened */
    MUST(janus_nursery_spawn(begins, NULL) == 0 && janus_nursery_spawn(begins, NULL) == 0);
    MUST(janus_nursery_create() != NULL && janus_nursery_spawn(begins, NULL) == 0);
    janus_nursery_cancel();
    MUST(janus_nursery_await_all() == JANUS_CANCELLED);
    return janus_nursery_await_all() == JANUS_OK && atomic_exchange(&begun, 0) == 2 ? 0 : -1;
}

/* A task that was cancelled before it began never begins: by its handle, with its nursery, or because a sibling failed
 * (HELP-1). */
static void
asked_before_it_began(void)
{
    atomic_store(&begun, 0);
    CHECK_EQUAL(rt_run(asks_before_they_begin, NULL), 0);
}

int
main(void)
{
    void (*const tests[])(void) = {
        cancelled_while_covered, cancelled_while_the_child_runs,
        goes_on_after_a_wait,    panic_above,
        panics_among_many,       stays_told,
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        rt_each(tests[i]);
    }
    rt_up(1);
    for (int i = 0; i < 10; i++) {
        woken_from_outside_while_covered();
    }
    asked_before_it_began();
    janus_rt_shutdown();
    rt_up(1);
    called_by_the_loop();
    janus_rt_shutdown();
    return finish();
}
