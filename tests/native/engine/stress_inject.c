/* The injector with real threads: many producers, many takers, every piece exactly once, each producer's in order. */
#include "stress.h"

#include "engine/allocator.h"
#include "engine/inject.h"

enum { THREADS_MAX = 16 };

typedef struct {
    InjectLink link; /* first, so that a link is its task */
    Piece piece;
    unsigned producer;
    size_t number;
} Task;

typedef struct {
    Injector injector;
    Task *tasks[THREADS_MAX];
    unsigned producers;
    size_t count; /* per producer */
    atomic_i64 left;
    atomic_u32 wrong;
} Shared;

typedef struct {
    Shared *shared;
    unsigned index;
} Argument;

static void *
producer_main(void *argument)
{
    Argument *self = argument;
    Shared *shared = self->shared;
    for (size_t i = 0; i < shared->count; i++) {
        Task *task = &shared->tasks[self->index][i];
        task->producer = self->index;
        task->number = i;
        task->piece.secret = secret_of(i);
        while (!inject_push(&shared->injector, &task->link)) { /* at its limit: let the takers run */
            sched_yield();
        }
    }
    return NULL;
}

static void *
taker_main(void *argument)
{
    Argument *self = argument;
    Shared *shared = self->shared;
    InjectLink *links[INJECT_BATCH_MAX];
    int64_t last[THREADS_MAX];
    unsigned wrong = 0;
    memset(last, -1, sizeof last);
    while (load_i64(&shared->left, RELAXED) > 0) {
        size_t count = inject_take(&shared->injector, links, 1 + self->index * 7);
        for (size_t i = 0; i < count; i++) {
            Task *task = (Task *)(void *)links[i];
            wrong += add_u32(&task->piece.times, 1, RELAXED) != 0;
            wrong += task->piece.secret != secret_of(task->number);
            wrong += (int64_t)task->number <= last[task->producer];
            last[task->producer] = (int64_t)task->number;
        }
        if (count == 0) {
            sched_yield();
        }
        add_i64(&shared->left, -(int64_t)count, RELAXED);
    }
    add_u32(&shared->wrong, wrong, RELAXED);
    return NULL;
}

static void
test(unsigned producers, unsigned takers, size_t count, int64_t limit)
{
    Shared *shared = engine_allocator_libc.allocate(NULL, sizeof *shared);
    pthread_t threads[2 * THREADS_MAX];
    Argument arguments[2 * THREADS_MAX];
    inject_init(&shared->injector, limit);
    shared->producers = producers;
    shared->count = count;
    init_i64(&shared->left, (int64_t)(producers * count));
    init_u32(&shared->wrong, 0);
    for (unsigned i = 0; i < producers; i++) {
        shared->tasks[i] = calloc(count, sizeof(Task));
        CHECK(shared->tasks[i] != NULL);
    }
    for (unsigned i = 0; i < producers + takers; i++) {
        arguments[i] = (Argument){shared, i < producers ? i : i - producers};
        thread_start(&threads[i], i < producers ? producer_main : taker_main, &arguments[i]);
    }
    for (unsigned i = 0; i < producers + takers; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQUAL(load_u32(&shared->wrong, RELAXED), 0);
    CHECK_EQUAL(inject_length(&shared->injector), 0);
    for (unsigned i = 0; i < producers; i++) {
        unsigned missing = 0;
        for (size_t j = 0; j < count; j++) {
            missing += load_u32(&shared->tasks[i][j].piece.times, RELAXED) != 1;
        }
        CHECK_EQUAL(missing, 0);
        free(shared->tasks[i]);
    }
    engine_allocator_libc.release(NULL, shared, sizeof *shared);
}

int
main(int argc, char **argv)
{
    size_t count = long_form(argc, argv) ? 2000000 : 10000;
    test(1, 1, count, INJECT_UNLIMITED);
    test(4, 1, count, INJECT_UNLIMITED);
    test(1, 4, count, INJECT_UNLIMITED);
    test(4, 4, count, INJECT_UNLIMITED);
    test(4, 4, count / 10, 3); /* most pushes are refused at first */
    return finish();
}
