/* Nurseries. Contract: include/janus_rt.h. */
#include "abi/janus_nursery.h"

#include "abi/convert_budget.h"
#include "abi/handle.h"
#include "engine/spawn.h"

/* ---- opening */

static void *
open_nursery(const Visit *visit, const NurseryOptions *options)
{
    int error;
    Nursery **opened = current_opened(visit);
    Nursery *nursery = nursery_open(&visit->runtime->scheduler, visit->task, options, &error);
    if (nursery == NULL) {
        return NULL;
    }
    if (visit->task == NULL) {
        nursery->outer = *opened;
        *opened = nursery;
    }
    return handle_of(HANDLE_NURSERY, &nursery->head);
}

void *
janus_nursery_open(const janus_nursery_options *options)
{
    if (options != NULL && (options->size < sizeof *options || !budget_valid(options->budget))) {
        return NULL;
    }
    NurseryOptions ours = {.budget = budget_in(options != NULL ? options->budget : NULL)};
    if (options != NULL) {
        ours.keep_going = options->keep_going;
        ours.hold = options->hold;
    }
    Visit visit = visit_begin_or_start();
    void *handle = visit.runtime != NULL ? open_nursery(&visit, &ours) : NULL;
    visit_end(&visit);
    return handle;
}

void *
janus_nursery_create(void)
{
    int error;
    Task *self = visit_task();
    if (self == NULL) {
        return janus_nursery_open(NULL);
    }
    Nursery *nursery =
        nursery_open(task_worker(self)->scheduler, self, NULL, &error); /* the most frequent case: without a visit */
    return nursery != NULL ? handle_of(HANDLE_NURSERY, &nursery->head) : NULL;
}

/* ---- spawning */

/* Adapters: the scheduler calls functions of one type; these call functions of the other types. */
static int64_t
through_noarg(void *task)
{
    return ((janus_task_noarg_fn)(void (*)(void))((Task *)task)->entry)();
}

static int64_t
through_i32(void *task)
{
    return ((janus_task_i32_fn)(void (*)(void))((Task *)task)->entry)(((Task *)task)->arg);
}

static int64_t
through_noarg_i32(void *task)
{
    return ((janus_task_noarg_i32_fn)(void (*)(void))((Task *)task)->entry)();
}

int
spawn_current(janus_task_fn fn, void *arg, int64_t (*through)(void *task))
{
    Visit visit = visit_begin();
    Nursery *nursery = visit.runtime != NULL ? *current_opened(&visit) : NULL;
    int error = ENGINE_INVALID;
    if (nursery != NULL) {
        TaskOptions options = {.entry = fn, .arg = arg, .through = through};
        error = nursery_spawn(nursery, load_u32(&nursery->head.generation, RELAXED), visit.task, &options, NULL);
    }
    visit_end(&visit);
    return error == ENGINE_OK ? 0 : -1;
}

int
janus_nursery_spawn_noarg(janus_task_noarg_fn fn)
{
    return spawn_current((janus_task_fn)(void (*)(void))fn, NULL, through_noarg);
}

int
janus_nursery_spawn_i32(janus_task_i32_fn fn, void *arg)
{
    return spawn_current((janus_task_fn)(void (*)(void))fn, arg, through_i32);
}

int
janus_nursery_spawn_noarg_i32(janus_task_noarg_i32_fn fn)
{
    return spawn_current((janus_task_fn)(void (*)(void))fn, NULL, through_noarg_i32);
}

int
janus_nursery_spawn_with(void *handle, janus_task_fn fn, void *arg, const janus_task_options *options, janus_task *task)
{
    _Static_assert(sizeof(janus_result) == sizeof(Ending), "the same fields in the same order");
    TaskOptions ours = {.entry = fn, .arg = arg};
    LawBudget budget, recharge;
    if (options != NULL) {
        if (options->size < sizeof *options || !budget_valid(options->budget) || !budget_valid(options->recharge)) {
            return JANUS_INVALID;
        }
        budget = budget_in(options->budget);
        recharge = budget_in(options->recharge);
        ours.name = options->name;
        ours.stack_bytes = options->stack_bytes;
        ours.budget = options->budget != NULL ? &budget : NULL;
        ours.recharge = options->recharge != NULL ? &recharge : NULL;
        ours.value_out = options->value_out;
        ours.done = (TaskDone)(void (*)(void))options->done;
        ours.done_arg = options->done_arg;
    }
    Visit visit = visit_begin();
    uint32_t generation;
    uint64_t child = 0;
    Nursery *nursery = handle_find(&visit, HANDLE_NURSERY, handle, &generation);
    int error = nursery == NULL ? JANUS_INVALID : nursery_spawn(nursery, generation, visit.task, &ours, &child);
    if (task != NULL) {
        *task = error != ENGINE_OK ? 0 : (janus_task)(uintptr_t)handle_from(HANDLE_TASK, child);
    }
    visit_end(&visit);
    return error;
}

int
janus_nursery_spawn_in(void *nursery, janus_task_fn fn, void *arg)
{
    return janus_nursery_spawn_with(nursery, fn, arg, NULL, NULL);
}

/* ---- awaiting */

static int64_t
code_of(const Ending *ending)
{
    switch (ending->kind) {
    case END_OK:
        return JANUS_OK;
    case END_CANCELLED:
        return JANUS_CANCELLED;
    case END_PANICKED:
        return JANUS_PANICKED;
    case END_BUDGET:
        return JANUS_BUDGET_EXCEEDED;
    case END_FAILED:
        return ending->code;
    default:
        return JANUS_PENDING;
    }
}

/* Await a nursery that the calling outside thread has opened, and take it off the thread's list. */
static int64_t
await_outside(const Visit *visit, Nursery *nursery, void (*await)(Nursery *nursery, Task *caller, Ending *ending))
{
    Ending ending;
    Nursery **link = current_opened(visit);
    while (*link != nursery) {
        link = &(*link)->outer;
    }
    *link = nursery->outer;
    await(nursery, NULL, &ending);
    note_awaited(&ending);
    return code_of(&ending);
}

int64_t
janus_nursery_await_all(void)
{
    Task *self = visit_task();
    if (self != NULL) { /* the engine keeps a task's list */
        if (self->opened == NULL) {
            return JANUS_PENDING;
        }
        nursery_await_and_free(self->opened, self, &self->awaited);
        return code_of(&self->awaited);
    }
    Visit visit = visit_begin();
    Nursery *nursery = visit.runtime != NULL ? *current_opened(&visit) : NULL;
    int64_t code = nursery != NULL ? await_outside(&visit, nursery, nursery_await_and_free) : JANUS_PENDING;
    visit_end(&visit);
    return code;
}

/* Whether the caller has opened this nursery and not awaited it. */
static bool
is_own(const Visit *visit, const Nursery *nursery)
{
    const Nursery *opened = *current_opened(visit);
    while (opened != NULL && opened != nursery) {
        opened = opened->outer;
    }
    return opened != NULL;
}

int64_t
janus_nursery_await(void *handle)
{
    Visit visit = visit_begin();
    uint32_t generation;
    Nursery *nursery = handle_find(&visit, HANDLE_NURSERY, handle, &generation);
    int64_t code = JANUS_INVALID;
    if (nursery != NULL && is_own(&visit, nursery)) {
        if (visit.task != NULL) {
            nursery_await(nursery, visit.task, &visit.task->awaited);
            code = code_of(&visit.task->awaited);
        } else {
            code = await_outside(&visit, nursery, nursery_await);
        }
    }
    visit_end(&visit);
    return code;
}

int
janus_nursery_destroy(void *handle)
{
    Visit visit = visit_begin();
    uint32_t generation;
    Nursery *nursery = handle_find(&visit, HANDLE_NURSERY, handle, &generation);
    int error = nursery == NULL ? JANUS_INVALID : nursery_free_if(nursery, generation);
    visit_end(&visit);
    return error;
}

int
janus_nursery_result(janus_result *out)
{
    Visit visit = visit_begin();
    Ending ending = last_awaited(&visit);
    visit_end(&visit);
    if (out == NULL) {
        return JANUS_INVALID;
    }
    *out = (janus_result){.kind = (janus_kind)ending.kind, .task_id = ending.task_id, .code = ending.code};
    return JANUS_OK;
}

/* ---- inspecting and cancelling */

int32_t
janus_nursery_task_count(void)
{
    Visit visit = visit_begin();
    Nursery *nursery = visit.runtime != NULL ? *current_opened(&visit) : NULL;
    int64_t count = 0;
    if (nursery != NULL) {
        count = load_i64(&nursery->live, RELAXED) - NURSERY_BIAS + (int64_t)(nursery->spawned - nursery->ended);
    }
    visit_end(&visit);
    return count > INT32_MAX ? INT32_MAX : (int32_t)count;
}

bool
janus_nursery_is_cancelled(void)
{
    Visit visit = visit_begin();
    Nursery *nursery = visit.runtime != NULL ? *current_opened(&visit) : NULL;
    bool cancelled = nursery == NULL || nursery_cancelled(nursery);
    visit_end(&visit);
    return cancelled;
}

void
janus_nursery_cancel(void)
{
    Visit visit = visit_begin();
    Nursery *nursery = visit.runtime != NULL ? *current_opened(&visit) : NULL;
    if (nursery != NULL) {
        nursery_cancel(nursery, LAW_CANCEL_USER);
    }
    visit_end(&visit);
}

int
janus_nursery_cancel_in(void *handle)
{
    Visit visit = visit_begin();
    uint32_t generation;
    Nursery *nursery = handle_find(&visit, HANDLE_NURSERY, handle, &generation);
    int error = nursery == NULL ? JANUS_INVALID : nursery_cancel_if(nursery, generation, LAW_CANCEL_USER);
    visit_end(&visit);
    return error;
}

int
janus_nursery_state(void *handle)
{
    Visit visit = visit_begin();
    uint32_t generation;
    Nursery *nursery = handle_find(&visit, HANDLE_NURSERY, handle, &generation);
    int state = nursery == NULL ? JANUS_INVALID : (int)nursery_state(nursery);
    visit_end(&visit);
    return state;
}
