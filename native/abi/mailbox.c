/* Fiber calls and their mailbox: see mailbox.h. */
#include "abi/mailbox.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/convert_budget.h"
#include "abi/visit.h"
#include "engine/lender.h"
#include "engine/spawn.h"
#include "engine/task_requests.h"

struct FiberMailbox {
    Lock lock;              /* taken last: no other lock is taken while this one is held */
    LawQueue pending_calls; /* calls with a message that was not taken */
    uint64_t calls;         /* calls whose last message was not taken */
    int fd;
    bool written; /* the file was written since the list was empty (MAILBOX-2) */
};

struct FiberCall {
    Lender lender;
    FiberMailbox *mailbox;
    uint64_t key;
    Slab *tasks;
    uint64_t child; /* index | generation << 32 of its task */
    /* The rest is under the mailbox's lock. */
    LawLink link; /* in `pending_calls` */
    bool ended;
    bool shortage_due; /* a message about `lacks` is due */
    bool pause_due;    /* a message about a pause is due */
    bool waits_itself; /* the call itself waits for budget, not only a task below it */
    int32_t panic;
    int64_t pause;          /* the number of the last request to pause */
    int64_t reported_pause; /* the number of the last pause that was reported */
    Ending ending;
    int64_t lacks[LAW_COMPONENTS];
    char name[];
};

FiberMailbox *
bursar_mailbox_open(int fd)
{
    FiberMailbox *mailbox = malloc(sizeof *mailbox);
    if (mailbox != NULL) {
        *mailbox = (FiberMailbox){.fd = fd};
        lock_init(&mailbox->lock);
        law_queue_init(&mailbox->pending_calls);
    }
    return mailbox;
}

/* Add a call to the list of those with a message, and write to the file if need be. Under the lock. */
static void
post(FiberMailbox *mailbox, FiberCall *call)
{
    const uint64_t one = 1;
    if (!law_linked(&call->link)) {
        law_queue_append(&mailbox->pending_calls, &call->link);
    }
    if (!mailbox->written) {
        mailbox->written = true;
        ssize_t done = write(mailbox->fd, &one, sizeof one);
        (void)done; /* a full file is readable already */
    }
}

/* Write one message about a call that has not ended. The call stays in the list if another message is due. Under the
 * lock. */
static void
write_message(FiberMailbox *mailbox, FiberCall *call, FiberMessage *message)
{
    if (call->pause_due) {
        call->pause_due = false;
        *message = (FiberMessage){.key = call->key, .kind = MESSAGE_PAUSED, .code = call->reported_pause};
        if (call->shortage_due) {
            law_queue_append(&mailbox->pending_calls, &call->link);
        }
        return;
    }
    *message = (FiberMessage){.key = call->key, .kind = MESSAGE_SHORT, .code = call->waits_itself};
    memcpy(message->amounts, call->lacks, sizeof message->amounts);
    memset(call->lacks, 0, sizeof call->lacks);
    call->shortage_due = call->waits_itself = false;
}

/* Write one message about a call, and free the call if the message is its last one (MAILBOX-1). Under the lock. */
static void
write_next_message(FiberMailbox *mailbox, FiberCall *call, FiberMessage *message)
{
    if (!call->ended) {
        write_message(mailbox, call, message);
        return;
    }
    *message = (FiberMessage){.key = call->key};
    message->kind = (int32_t)call->ending.kind;
    message->panic = call->panic;
    message->code = call->ending.code;
    memcpy(message->amounts, call->lender.spent, sizeof message->amounts);
    mailbox->calls -= 1;
    free(call);
}

size_t
bursar_mailbox_take(FiberMailbox *mailbox, FiberMessage *messages, size_t n)
{
    size_t taken = 0;
    lock_take(&mailbox->lock);
    for (LawLink *link; taken < n && (link = law_queue_take_oldest(&mailbox->pending_calls)) != NULL; taken++) {
        write_next_message(mailbox, LAW_RECORD(link, FiberCall, link), &messages[taken]);
    }
    mailbox->written = law_queue_oldest(&mailbox->pending_calls) != NULL;
    lock_give(&mailbox->lock);
    return taken;
}

int
bursar_mailbox_close(FiberMailbox *mailbox)
{
    lock_take(&mailbox->lock);
    bool empty = mailbox->calls == 0;
    lock_give(&mailbox->lock);
    if (!empty) {
        return JANUS_AGAIN;
    }
    free(mailbox);
    return JANUS_OK;
}

/* ---- on workers */

static void
on_shortage(Lender *lender, const Task *holder, unsigned component, int64_t amount)
{
    FiberCall *call = LAW_RECORD(lender, FiberCall, lender);
    lock_take(&call->mailbox->lock);
    call->lacks[component] = amount;
    call->shortage_due = true;
    call->waits_itself |= holder->head.index == (uint32_t)call->child;
    post(call->mailbox, call);
    lock_give(&call->mailbox->lock);
}

static void
on_paused(Lender *lender, const Task *task)
{
    FiberCall *call = LAW_RECORD(lender, FiberCall, lender);
    lock_take(&call->mailbox->lock);
    if (task_paused(task) && call->reported_pause != call->pause) { /* MAILBOX-4; one message for each pause */
        call->pause_due = true;
        call->reported_pause = call->pause;
        post(call->mailbox, call);
    }
    lock_give(&call->mailbox->lock);
}

static void
on_end(void *arg, const Ending *ending)
{
    FiberCall *call = arg;
    FiberMailbox *mailbox = call->mailbox;
    uint32_t generation;
    const Task *task = slab_peek(call->tasks, (uint32_t)call->child, &generation);
    lock_take(&mailbox->lock);
    call->ended = true;
    call->ending = *ending;
    call->panic = ending->kind == END_PANICKED ? task->fiber.panic : 0;
    post(mailbox, call);
    lock_give(&mailbox->lock); /* from here on the call may be freed */
}

/* ---- on the thread of the other scheduler */

/* Find the nursery of all fiber calls, or open it. JANUS_OK, or why there is none. */
static int
find_nursery(Runtime *runtime, Nursery **nursery)
{
    static const NurseryOptions options = {.budget = {{LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN}},
                                           .keep_going = true};
    int error = ENGINE_OK;
    lock_take(&runtime->tokens_lock);
    if (runtime->fiber_calls == NULL) {
        runtime->fiber_calls = nursery_open(&runtime->scheduler, NULL, &options, &error);
    }
    *nursery = runtime->fiber_calls;
    lock_give(&runtime->tokens_lock);
    return *nursery != NULL ? ENGINE_OK : error;
}

static int
spawn(const Visit *visit, FiberCall *call, TaskOptions *options)
{
    Nursery *nursery;
    int error = visit->runtime == NULL                            ? ENGINE_STOPPING
                : visit->runtime->scheduler.options.deterministic ? ENGINE_CLOSED /* no thread would run it */
                                                                  : find_nursery(visit->runtime, &nursery);
    if (error != ENGINE_OK) {
        return error;
    }
    call->tasks = &visit->runtime->scheduler.tasks;
    return nursery_spawn(nursery, load_u32(&nursery->head.generation, RELAXED), NULL, options, &call->child);
}

intptr_t
bursar_fiber_call_spawn(FiberMailbox *mailbox, uint64_t key, janus_task_fn fn, void *arg, const char *name,
                        size_t stack_bytes, const janus_budget *budget)
{
    static const LawBudget plenty = {{LAW_UNITS_MAX, LAW_UNITS_MAX, LAW_UNITS_MAX, LAW_UNITS_MAX, LAW_UNITS_MAX}};
    size_t name_bytes = strlen(name) + 1;
    LawBudget law = budget != NULL ? budget_in(budget) : plenty;
    if (!budget_valid(budget) || law_budget_stated(&law) != LAW_COMPONENTS) {
        return JANUS_INVALID;
    }
    FiberCall *call = malloc(sizeof *call + name_bytes);
    if (call == NULL) {
        return JANUS_NO_MEMORY;
    }
    *call = (FiberCall){.mailbox = mailbox, .key = key};
    memcpy(call->name, name, name_bytes);
    lender_init(&call->lender, on_shortage, on_paused);
    TaskOptions options = {
        .entry = fn,
        .arg = arg,
        .name = call->name,
        .stack_bytes = stack_bytes,
        .budget = &law,
        .lender = &call->lender,
        .done = on_end,
        .done_arg = call,
    };
    lock_take(&mailbox->lock);
    mailbox->calls += 1; /* before the spawn: the call may end before this function does */
    lock_give(&mailbox->lock);
    Visit visit = visit_begin_or_start();
    int error = spawn(&visit, call, &options);
    visit_end(&visit);
    if (error == ENGINE_OK) {
        return (intptr_t)call; /* valid even if the call has ended: its last message was not taken yet */
    }
    lock_take(&mailbox->lock);
    mailbox->calls -= 1;
    lock_give(&mailbox->lock);
    free(call);
    return error;
}

static uint32_t
generation_of(const FiberCall *call)
{
    return (uint32_t)(call->child >> 32);
}

/* Whether the call's task may live. If so, the running runtime is the call's own, and runs until the visit ends. */
static bool
may_live(const Visit *visit, FiberCall *call)
{
    lock_take(&call->mailbox->lock);
    bool lives = !call->ended;
    lock_give(&call->mailbox->lock);
    return lives && visit->runtime != NULL;
}

/* The call's task, or NULL if the task has ended. */
static Task *
task_of(const Visit *visit, FiberCall *call)
{
    uint32_t now;
    Task *task = may_live(visit, call) ? slab_peek(call->tasks, (uint32_t)call->child, &now) : NULL;
    return task != NULL && now == generation_of(call) ? task : NULL;
}

void
bursar_fiber_call_cancel(FiberCall *call)
{
    Visit visit = visit_begin();
    Task *task = task_of(&visit, call);
    if (task != NULL) {
        task_request_cancel(&visit.runtime->scheduler, NULL, task, generation_of(call));
    }
    visit_end(&visit);
}

void
bursar_fiber_call_pause(FiberCall *call, int64_t number)
{
    Visit visit = visit_begin();
    Task *task = task_of(&visit, call);
    if (task != NULL) {
        lock_take(&call->mailbox->lock); /* MAILBOX-4 */
        call->pause = number;
        bool noted = task_note_request(task, generation_of(call), generation_of(call) + 1);
        lock_give(&call->mailbox->lock);
        if (noted) {
            worker_wake(&visit.runtime->scheduler, NULL, task, TO_READY,
                        false); /* task_pause would note the request again */
        }
    }
    visit_end(&visit);
}

void
bursar_fiber_call_resume(FiberCall *call)
{
    Visit visit = visit_begin();
    Task *task = task_of(&visit, call);
    if (task != NULL) {
        (void)task_resume(&visit.runtime->scheduler, NULL, task, generation_of(call));
    }
    visit_end(&visit);
}

int
bursar_fiber_call_fill(FiberCall *call, const janus_budget *amount)
{
    LawBudget law = budget_in(amount);
    Visit visit = visit_begin();
    int error = may_live(&visit, call) ? lender_fill(&call->lender, &visit.runtime->scheduler, &law) : JANUS_INVALID;
    visit_end(&visit);
    return error;
}

void
bursar_fiber_call_refuse(FiberCall *call)
{
    Visit visit = visit_begin();
    if (may_live(&visit, call)) {
        lender_refuse(&call->lender, &visit.runtime->scheduler);
    }
    visit_end(&visit);
}
