/* The runtime: see runtime.h. */
#include "abi/runtime.h"

#include <pthread.h>

#include "abi/janus_select.h"
#include "abi/janus_token.h"
#include "engine/shutdown.h"

Runtime the_runtime;

/* FORKED: this process is the child of a fork, and the runtime's threads are in its parent. There is no way back: locks
 * and tasks are as some thread left them. */
typedef enum { DOWN, MOVING, RUNNING, FORKED } RuntimeState;

static Lock gate; /* of `state` */
static RuntimeState state = DOWN;

/* Go from one state to another. False in any other state. */
static bool
move(RuntimeState from, RuntimeState to)
{
    lock_take(&gate);
    bool moves = state == from;
    if (moves) {
        state = to;
    }
    lock_give(&gate);
    return moves;
}

/* In the child of a fork, which has one thread. The runtime counts as gone, so every call is refused instead of waiting
 * for threads that do not exist. A runtime can still be started if the parent had none. */
static void
after_fork(void)
{
    lock_init(&gate);
    state = state == DOWN ? DOWN : FORKED;
}

static void
slabs_init(Runtime *runtime, const EngineAllocator *memory)
{
    slab_init(&runtime->selects, (sizeof(Select) + 15) / 16 * 16, NULL, memory);
    slab_init(&runtime->tokens, (sizeof(Token) + 15) / 16 * 16, NULL, memory);
    slab_init(&runtime->callbacks, (sizeof(Callback) + 15) / 16 * 16, NULL, memory);
}

static void
slabs_destroy(Runtime *runtime)
{
    slab_destroy(&runtime->selects);
    slab_destroy(&runtime->tokens);
    slab_destroy(&runtime->callbacks);
}

int
runtime_start(const SchedulerOptions *options)
{
    static bool watches_forks; /* written in the state MOVING, which one thread has */
    if (!move(DOWN, MOVING)) {
        return ENGINE_AGAIN;
    }
    watches_forks = watches_forks || pthread_atfork(NULL, NULL, after_fork) == 0;
    int error = scheduler_start(&the_runtime.scheduler, options);
    if (error == ENGINE_OK) {
        lock_init(&the_runtime.tokens_lock);
        the_runtime.fiber_calls = NULL;
        slabs_init(&the_runtime, the_runtime.scheduler.memory);
        the_runtime.epoch += 1;
        the_runtime.mark = (the_runtime.epoch & 15) << 4;
    }
    (void)move(MOVING, error == ENGINE_OK ? RUNNING : DOWN);
    return error;
}

void
runtime_stop(void)
{
    if (move(RUNNING, MOVING)) {
        (void)scheduler_stop(&the_runtime.scheduler, NULL);
        slabs_destroy(&the_runtime);
        (void)move(MOVING, DOWN);
    }
}

bool
runtime_is_running(void)
{
    lock_take(&gate);
    bool running = state == RUNNING;
    lock_give(&gate);
    return running;
}

bool
runtime_enter(void)
{
    lock_take(&gate);
    bool enters = state == RUNNING && scheduler_enter(&the_runtime.scheduler);
    lock_give(&gate);
    return enters;
}
