/* Parking with real threads, in a small engine: workers with deques, an injector and an idle set. A lost wake-up hangs,
 * and ctest ends the test.
 *
 * ping-pong   one piece of work at a time, injected from outside; both sides sleep in between trees       tasks that
 * spawn two tasks each, on more workers than processors waiters     256 workers, all asleep, then woken by as many
 * pieces, and by calls to stop
 */
#include "stress.h"

#include "engine/deque.h"
#include "engine/idle.h"
#include "engine/inject.h"
#include "engine/park.h"

enum { WORKERS_MAX = 256 };

typedef struct {
    InjectLink link; /* first, so that a link is its task */
    Piece piece;
    uint64_t number;
    unsigned depth;
} Task;

typedef struct {
    IdleSet idle;
    Injector injector;
    Deque deques[WORKERS_MAX];
    uint32_t workers;
    atomic_u32 stop;
    atomic_u32 wrong;
    atomic_i64 left;
    Task *tree; /* a heap: the children of i are 2 i + 1 and 2 i + 2 */
    Parker outside;
} Engine;

typedef struct {
    Engine *engine;
    uint32_t index;
    pthread_t thread;
} Worker;

static bool
pending(void *context, uint32_t worker)
{
    Engine *engine = context;
    (void)worker;
    if (inject_length(&engine->injector) != 0) {
        return true;
    }
    for (uint32_t i = 0; i < engine->workers; i++) {
        if (deque_length(&engine->deques[i]) != 0) {
            return true;
        }
    }
    return false;
}

static Task *
look(Engine *engine, uint32_t self)
{
    InjectLink *link;
    void *item;
    size_t count;
    if (inject_take(&engine->injector, &link, 1) == 1) {
        return (Task *)(void *)link;
    }
    for (uint32_t i = 1; i < engine->workers; i++) {
        uint32_t victim = (self + i) % engine->workers;
        if (deque_length(&engine->deques[victim]) != 0 &&
            deque_steal_into(&engine->deques[victim], &engine->deques[self], &item, &count) == STEAL_DONE) {
            if (count > 1) {
                idle_notify(&engine->idle); /* the other stolen tasks are visible to other workers now (IDLE-1) */
            }
            return item;
        }
    }
    return NULL;
}

static void
run_task(Engine *engine, uint32_t self, Task *task)
{
    bool wrong = add_u32(&task->piece.times, 1, RELAXED) != 0 || task->piece.secret != secret_of(task->number);
    for (unsigned child = 1; task->depth > 0 && child <= 2; child++) {
        Task *next = &engine->tree[2 * task->number + child];
        next->number = 2 * task->number + child;
        next->depth = task->depth - 1;
        next->piece.secret = secret_of(next->number);
        wrong = wrong || !deque_push(&engine->deques[self], next);
        idle_notify(&engine->idle);
    }
    if (wrong) {
        add_u32(&engine->wrong, 1, RELAXED);
    }
    if (add_i64(&engine->left, -1, ACQ_REL) == 1) {
        parker_wake(&engine->outside, 1);
    }
}

static void *
worker_main(void *argument)
{
    Worker *self = argument;
    Engine *engine = self->engine;
    bool searching = false;
    while (load_u32(&engine->stop, ACQUIRE) == 0) {
        Task *task = deque_take(&engine->deques[self->index]);
        if (task == NULL) {
            searching = searching || idle_search_begin(&engine->idle);
            task = searching ? look(engine, self->index) : NULL;
        }
        if (task == NULL) {
            searching = idle_park(&engine->idle, self->index, searching, PARK_FOREVER) == IDLE_SEARCH;
            continue;
        }
        if (searching) {
            idle_search_end(&engine->idle);
            searching = false;
        }
        run_task(engine, self->index, task);
    }
    if (searching) {
        idle_search_end(&engine->idle);
    }
    return NULL;
}

static Engine *
engine_start(uint32_t workers, Worker *worker)
{
    Engine *engine = engine_allocator_libc.allocate(NULL, sizeof *engine);
    engine->workers = workers;
    inject_init(&engine->injector, INJECT_UNLIMITED);
    init_u32(&engine->stop, 0);
    init_u32(&engine->wrong, 0);
    init_i64(&engine->left, 0);
    CHECK(parker_init(&engine->outside));
    CHECK(idle_init(&engine->idle, workers, pending, engine, &engine_allocator_libc));
    for (uint32_t i = 0; i < workers; i++) {
        CHECK(deque_init(&engine->deques[i], 4, &engine_allocator_libc));
    }
    for (uint32_t i = 0; i < workers; i++) {
        worker[i].engine = engine;
        worker[i].index = i;
        thread_start(&worker[i].thread, worker_main, &worker[i]);
    }
    return engine;
}

static void
engine_stop(Engine *engine, Worker *worker)
{
    store_u32(&engine->stop, 1, RELEASE);
    for (uint32_t i = 0; i < engine->workers; i++) {
        idle_call(&engine->idle, i);
    }
    for (uint32_t i = 0; i < engine->workers; i++) {
        pthread_join(worker[i].thread, NULL);
        deque_destroy(&engine->deques[i]);
    }
    CHECK_EQUAL(load_u32(&engine->wrong, RELAXED), 0);
    CHECK_EQUAL(load_u64(&engine->idle.word, RELAXED), 0); /* no role and no sleeper is left */
    idle_destroy(&engine->idle);
    parker_destroy(&engine->outside);
    engine_allocator_libc.release(NULL, engine, sizeof *engine);
}

static void
hand_in(Engine *engine, Task *task)
{
    inject_push(&engine->injector, &task->link);
    idle_notify(&engine->idle);
}

static void
wait_done(Engine *engine)
{
    while (load_i64(&engine->left, ACQUIRE) != 0) {
        parker_sleep(&engine->outside, PARK_FOREVER);
    }
}

static void
test_ping_pong(uint32_t workers, unsigned rounds)
{
    static Worker worker[WORKERS_MAX];
    Engine *engine = engine_start(workers, worker);
    for (unsigned i = 0; i < rounds; i++) {
        Task task = {.piece.secret = secret_of(i), .number = i};
        store_i64(&engine->left, 1, RELAXED);
        hand_in(engine, &task);
        while (load_i64(&engine->left, ACQUIRE) != 0) {
            parker_sleep(&engine->outside, PARK_FOREVER);
        }
        parker_collect(&engine->outside); /* a token may have come after the check */
    }
    engine_stop(engine, worker);
}

static void
test_trees(uint32_t workers, unsigned depth, unsigned rounds)
{
    static Worker worker[WORKERS_MAX];
    size_t count = ((size_t)1 << (depth + 1)) - 1;
    Engine *engine = engine_start(workers, worker);
    for (unsigned i = 0; i < rounds; i++) {
        engine->tree = calloc(count, sizeof(Task));
        CHECK(engine->tree != NULL);
        engine->tree[0].depth = depth;
        engine->tree[0].piece.secret = secret_of(0);
        store_i64(&engine->left, (int64_t)count, RELAXED);
        hand_in(engine, &engine->tree[0]);
        wait_done(engine);
        unsigned missing = 0;
        for (size_t j = 0; j < count; j++) {
            missing += load_u32(&engine->tree[j].piece.times, RELAXED) != 1;
        }
        CHECK_EQUAL(missing, 0);
        free(engine->tree);
    }
    engine_stop(engine, worker);
}

static void
test_waiters(uint32_t workers, unsigned rounds)
{
    static Worker worker[WORKERS_MAX];
    Task *tasks = calloc(workers, sizeof *tasks);
    Engine *engine = engine_start(workers, worker);
    CHECK(tasks != NULL);
    for (unsigned i = 0; i < rounds; i++) {
        while (idle_count(load_u64(&engine->idle.word, ACQUIRE)) != workers) {
            sched_yield(); /* until all of them are asleep, or about to be */
        }
        store_i64(&engine->left, workers, RELAXED);
        for (uint32_t j = 0; j < workers; j++) {
            tasks[j] = (Task){.piece.secret = secret_of(j), .number = j};
            hand_in(engine, &tasks[j]);
        }
        wait_done(engine);
    }
    engine_stop(engine, worker);
    free(tasks);
}

int
main(int argc, char **argv)
{
    unsigned times = long_form(argc, argv) ? 200 : 5;
    test_ping_pong(1, 3000 * times);
    test_ping_pong(2, 3000 * times);
    test_ping_pong(4, 2000 * times);
    test_trees(2, 12, 3 * times);
    test_trees(8, 12, 3 * times);
    test_waiters(WORKERS_MAX, 5 * times);
    return finish();
}
