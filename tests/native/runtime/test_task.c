/* The word of a task, its record, slabs and locks: the base of everything else. TK-1 to TK-5; fault 6. */
#include "rt.h"

#include <sched.h>

#include "engine/task.h"

static Task task;

static void
states(void)
{
    memset(&task, 0, sizeof task);
    task_word_begin(&task);
    CHECK_EQUAL(task_state(&task), LAW_STATE_RUNNING); /* runnable, in a queue or not */
    task_dispatched(&task);
    CHECK(!task_notified(&task, false));         /* noted */
    CHECK(!task_notified(&task, true));          /* merged */
    CHECK(task_rests(&task, LAW_STATE_BLOCKED)); /* so it must be queued at once */
    CHECK_EQUAL(task_state(&task), LAW_STATE_RUNNING);
    CHECK(!task_rests(&task, LAW_STATE_BLOCKED));
    CHECK_EQUAL(task_state(&task), LAW_STATE_BLOCKED);
    CHECK(task_notified(&task, false));
    CHECK(!task_notified(&task, false)); /* many wakes, one entry; but the task must check again */
    CHECK(task_rests(&task, LAW_STATE_EXHAUSTED));
    CHECK(!task_rests(&task, LAW_STATE_EXHAUSTED));
    CHECK(!task_notified(&task, false));            /* a wake is no recharge */
    CHECK_BREAKS("TASK-1", task_dispatched(&task)); /* it waits */
    CHECK(task_notified(&task, true));
    task_word_end(&task, LAW_OUTCOME_OK);
    CHECK_EQUAL(task_state(&task), LAW_STATE_DONE);
    CHECK(!task_notified(&task, true)); /* stale */
    CHECK_BREAKS("TASK-1", task_dispatched(&task));
    CHECK_BREAKS("TASK-1", task_word_end(&task, LAW_OUTCOME_OK));
    task_word_begin(&task); /* the record belongs to another task now */
    CHECK(!task_rests(&task, LAW_STATE_BLOCKED));
    CHECK_BREAKS("TASK-1", task_word_end(&task, LAW_OUTCOME_OK)); /* it waits */
}

/* A waker and a task that rests: however they interleave, each rest is followed by exactly one entry. */
static atomic_long entries;
static atomic_bool over;

static void *
wakes(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        if (task_notified(&task, false)) {
            atomic_fetch_add(&entries, 1);
        }
    }
    return NULL;
}

static void
wakes_against_rests(void)
{
    pthread_t thread;
    memset(&task, 0, sizeof task);
    task_word_begin(&task);
    atomic_store(&entries, 1);
    CHECK_EQUAL(pthread_create(&thread, NULL, wakes, NULL), 0);
    for (int i = 0; i < FEW(200); i++) {
        while (atomic_load(&entries) == 0) {
            sched_yield(); /* the waker may share a processor with this thread */
        }
        CHECK(atomic_fetch_sub(&entries, 1) == 1);
        task_dispatched(&task);
        if (task_rests(&task, LAW_STATE_BLOCKED)) {
            atomic_fetch_add(&entries, 1);
        }
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
}

/* TASK-5. */
static void
record(void)
{
    CHECK(sizeof(Task) <= TASK_BYTES);
    memset(&task, 0, sizeof task);
    fiber_init(&task.fiber, "fresh", NULL, NULL, 0);
    CHECK(task.fiber.stack == NULL && task.fiber.state == FIBER_FRESH);
}

/* SLAB-1, SLAB-2: a free record stays a record, and the slab hands out the same memory again. */
static void
slabs(void)
{
    Slab slab;
    SlabCache a, b;
    static void *records[1000];
    uint32_t generation = 0;
    CHECK_BREAKS("SLAB-1", slab_init(&slab, 40, NULL, &engine_allocator_libc)); /* not aligned */
    slab_init(&slab, 64, NULL, &engine_allocator_libc);
    slab_cache_init(&a, &slab);
    slab_cache_init(&b, &slab);
    CHECK(slab_peek(&slab, 0, &generation) == NULL);
    for (int i = 0; i < 1000; i++) {
        records[i] = slab_cache_take(&a);
        CHECK(records[i] != NULL && ((uintptr_t)records[i] & 15) == 0);
        SlabHead *head = records[i];
        CHECK(slab_peek(&slab, head->index, &generation) == head && generation % 2 == 1);
    }
    CHECK(slab_peek(&slab, 100000, &generation) == NULL);
    for (int i = 0; i < 1000; i++) { /* what one cache takes another may give */
        slab_cache_give(&b, records[i]);
        CHECK(slab_peek(&slab, ((SlabHead *)records[i])->index, &generation) == records[i] && generation % 2 == 0);
    }
    slab_cache_flush(&a);
    slab_cache_flush(&b);
    CHECK_EQUAL(slab_in_use(&slab), 0);
    uint64_t carved = slab.carved;
    for (int i = 0; i < 1000; i++) {
        records[i] = slab_take(&slab);
    }
    CHECK_EQUAL(slab.carved, carved > 1000 ? carved : 1000); /* no new record was made */
    for (int i = 0; i < 1000; i++) {
        slab_give(&slab, records[i]);
    }
    slab_destroy(&slab);
}

static Lock lock;
static long guarded;

static void *
counts(void *arg)
{
    (void)arg;
    for (int i = 0; i < FEW(200000); i++) {
        lock_take(&lock);
        guarded++;
        lock_give(&lock);
    }
    return NULL;
}

static void
locks(void)
{
    pthread_t threads[4];
    lock_init(&lock);
    for (int i = 0; i < 4; i++) {
        CHECK_EQUAL(pthread_create(&threads[i], NULL, counts, NULL), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQUAL(guarded, 4 * FEW(200000));
}

int
main(void)
{
    states();
    wakes_against_rests();
    record();
    slabs();
    locks();
    return finish();
}
