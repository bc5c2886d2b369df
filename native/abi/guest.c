/* Guests: see guest.h. */
#include "abi/guest.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/abi.h"
#include "engine/lender.h"
#include "engine/pause.h"
#include "engine/spawn.h"

struct Mailbox {
    Lock lock;               /* the last one to be taken: nothing else is, under it */
    LawQueue pending_guests; /* guests there are letters about */
    uint64_t guests;
    int fd;
    bool rung; /* GUEST-2 */
};

struct Guest {
    Lender lender;
    Mailbox *mailbox;
    uint64_t key;
    Slab *tasks;
    uint64_t child; /* index | generation << 32 of its task */
    /* under the mailbox's lock */
    LawLink link; /* in `pending_guests` */
    bool ended;
    bool lacking; /* there is a letter to write about `lacks`, */
    bool stands;  /* and one about this */
    bool holds;   /* it is the guest itself that lacks something */
    int32_t panic;
    int64_t pause; /* the number of the last one, */
    int64_t stood; /* and of the one of which it said that it stands */
    Ending ending;
    int64_t lacks[LAW_COMPONENTS];
    char name[];
};

Mailbox *
bursar_mailbox_open(int fd)
{
    Mailbox *mailbox = malloc(sizeof *mailbox);
    if (mailbox != NULL) {
        *mailbox = (Mailbox){.fd = fd};
        lock_init(&mailbox->lock);
        law_queue_init(&mailbox->pending_guests);
    }
    return mailbox;
}

/* There is something new about a guest. Under the lock. */
static void
post(Mailbox *mailbox, Guest *guest)
{
    const uint64_t one = 1;
    if (!law_linked(&guest->link)) {
        law_queue_append(&mailbox->pending_guests, &guest->link);
    }
    if (!mailbox->rung) {
        mailbox->rung = true;
        ssize_t written = write(mailbox->fd, &one, sizeof one);
        (void)written; /* full: then it can be read already */
    }
}

/* One letter about a guest that lives; if there is more to say, it stays in the list. Under the lock. */
static void
write_message(Mailbox *mailbox, Guest *guest, BursarMessage *message)
{
    if (guest->stands) {
        guest->stands = false;
        *message = (BursarMessage){.key = guest->key, .kind = GUEST_PAUSED, .code = guest->stood};
        if (guest->lacking) {
            law_queue_append(&mailbox->pending_guests, &guest->link);
        }
        return;
    }
    *message = (BursarMessage){.key = guest->key, .kind = GUEST_SHORT, .code = guest->holds};
    memcpy(message->amounts, guest->lacks, sizeof message->amounts);
    memset(guest->lacks, 0, sizeof guest->lacks);
    guest->lacking = guest->holds = false;
}

/* One letter about a guest, who is freed if it is the last one (GUEST-1). Under the lock. */
static void
tell(Mailbox *mailbox, Guest *guest, BursarMessage *message)
{
    if (!guest->ended) {
        write_message(mailbox, guest, message);
        return;
    }
    *message = (BursarMessage){.key = guest->key};
    message->kind = (int32_t)guest->ending.kind;
    message->panic = guest->panic;
    message->code = guest->ending.code;
    memcpy(message->amounts, guest->lender.spent, sizeof message->amounts);
    mailbox->guests -= 1;
    free(guest);
}

size_t
bursar_mailbox_take(Mailbox *mailbox, BursarMessage *messages, size_t n)
{
    size_t taken = 0;
    lock_take(&mailbox->lock);
    for (LawLink *link; taken < n && (link = law_queue_take_oldest(&mailbox->pending_guests)) != NULL; taken++) {
        tell(mailbox, LAW_RECORD(link, Guest, link), &messages[taken]);
    }
    mailbox->rung = law_queue_oldest(&mailbox->pending_guests) != NULL;
    lock_give(&mailbox->lock);
    return taken;
}

int
bursar_mailbox_close(Mailbox *mailbox)
{
    lock_take(&mailbox->lock);
    bool empty = mailbox->guests == 0;
    lock_give(&mailbox->lock);
    if (!empty) {
        return JANUS_AGAIN;
    }
    free(mailbox);
    return JANUS_OK;
}

/* ---- on workers */

static void
guest_asks(Lender *lender, const Task *holder, unsigned component, int64_t amount)
{
    Guest *guest = LAW_RECORD(lender, Guest, lender);
    lock_take(&guest->mailbox->lock);
    guest->lacks[component] = amount;
    guest->lacking = true;
    guest->holds |= holder->head.index == (uint32_t)guest->child;
    post(guest->mailbox, guest);
    lock_give(&guest->mailbox->lock);
}

static void
guest_stands(Lender *lender, const Task *task)
{
    Guest *guest = LAW_RECORD(lender, Guest, lender);
    lock_take(&guest->mailbox->lock);
    if (task_paused(task) && guest->stood != guest->pause) { /* GUEST-4; once for each */
        guest->stands = true;
        guest->stood = guest->pause;
        post(guest->mailbox, guest);
    }
    lock_give(&guest->mailbox->lock);
}

static void
guest_done(void *arg, const Ending *ending)
{
    Guest *guest = arg;
    Mailbox *mailbox = guest->mailbox;
    uint32_t generation;
    const Task *task = slab_peek(guest->tasks, (uint32_t)guest->child, &generation);
    lock_take(&mailbox->lock);
    guest->ended = true;
    guest->ending = *ending;
    guest->panic = ending->kind == END_PANICKED ? task->fiber.panic : 0;
    post(mailbox, guest);
    lock_give(&mailbox->lock); /* it may be gone from here on */
}

/* ---- on the thread of the other scheduler */

/* The nursery of all guests of this runtime: JANUS_OK, or why there is none. */
static int
find_nursery(Runtime *runtime, Nursery **nursery)
{
    static const NurseryOptions options = {.budget = {{LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN, LAW_OPEN}},
                                           .keep_going = true};
    int error = ENGINE_OK;
    lock_take(&runtime->tokens_lock);
    if (runtime->guests == NULL) {
        runtime->guests = nursery_open(&runtime->scheduler, NULL, &options, &error);
    }
    *nursery = runtime->guests;
    lock_give(&runtime->tokens_lock);
    return *nursery != NULL ? ENGINE_OK : error;
}

static int
spawn(const Visit *visit, Guest *guest, TaskOptions *options)
{
    Nursery *nursery;
    int error = visit->runtime == NULL                            ? ENGINE_STOPPING
                : visit->runtime->scheduler.options.deterministic ? ENGINE_CLOSED /* nobody would drive it */
                                                                  : find_nursery(visit->runtime, &nursery);
    if (error != ENGINE_OK) {
        return error;
    }
    guest->tasks = &visit->runtime->scheduler.tasks;
    return nursery_spawn(nursery, load_u32(&nursery->head.generation, RELAXED), NULL, options, &guest->child);
}

intptr_t
bursar_guest_spawn(Mailbox *mailbox, uint64_t key, janus_task_fn fn, void *arg, const char *name, size_t stack_bytes,
                   const janus_budget *budget)
{
    static const LawBudget plenty = {{LAW_UNITS_MAX, LAW_UNITS_MAX, LAW_UNITS_MAX, LAW_UNITS_MAX, LAW_UNITS_MAX}};
    size_t name_bytes = strlen(name) + 1;
    LawBudget law = budget != NULL ? budget_in(budget) : plenty;
    if (!budget_valid(budget) || law_budget_stated(&law) != LAW_COMPONENTS) {
        return JANUS_INVALID;
    }
    Guest *guest = malloc(sizeof *guest + name_bytes);
    if (guest == NULL) {
        return JANUS_NO_MEMORY;
    }
    *guest = (Guest){.mailbox = mailbox, .key = key};
    memcpy(guest->name, name, name_bytes);
    lender_init(&guest->lender, guest_asks, guest_stands);
    TaskOptions options = {
        .entry = fn,
        .arg = arg,
        .name = guest->name,
        .stack_bytes = stack_bytes,
        .budget = &law,
        .lender = &guest->lender,
        .done = guest_done,
        .done_arg = guest,
    };
    lock_take(&mailbox->lock);
    mailbox->guests += 1; /* it may end before this function does */
    lock_give(&mailbox->lock);
    Visit visit = visit_begin_or_start();
    int error = spawn(&visit, guest, &options);
    visit_end(&visit);
    if (error == ENGINE_OK) {
        return (intptr_t)guest; /* if it has not ended already, and even then: its letter cannot have been taken yet */
    }
    lock_take(&mailbox->lock);
    mailbox->guests -= 1;
    lock_give(&mailbox->lock);
    free(guest);
    return error;
}

static uint32_t
generation_of(const Guest *guest)
{
    return (uint32_t)(guest->child >> 32);
}

/* Whether the guest's task may live: then the runtime that is up is its own, and stays up while it is visited. */
static bool
may_live(const Visit *visit, Guest *guest)
{
    lock_take(&guest->mailbox->lock);
    bool lives = !guest->ended;
    lock_give(&guest->mailbox->lock);
    return lives && visit->runtime != NULL;
}

/* The guest's task, or NULL if that has ended. */
static Task *
task_of(const Visit *visit, Guest *guest)
{
    uint32_t now;
    Task *task = may_live(visit, guest) ? slab_peek(guest->tasks, (uint32_t)guest->child, &now) : NULL;
    return task != NULL && now == generation_of(guest) ? task : NULL;
}

void
bursar_guest_cancel(Guest *guest)
{
    Visit visit = visit_begin();
    Task *task = task_of(&visit, guest);
    if (task != NULL) {
        task_ask(&visit.runtime->scheduler, NULL, task, generation_of(guest));
    }
    visit_end(&visit);
}

void
bursar_guest_pause(Guest *guest, int64_t number)
{
    Visit visit = visit_begin();
    Task *task = task_of(&visit, guest);
    if (task != NULL) {
        lock_take(&guest->mailbox->lock); /* GUEST-4 */
        guest->pause = number;
        bool noted = task_note_request(task, generation_of(guest), generation_of(guest) + 1);
        lock_give(&guest->mailbox->lock);
        if (noted) {
            worker_wake(&visit.runtime->scheduler, NULL, task, TO_READY,
                        false); /* as task_pause, which would note it again */
        }
    }
    visit_end(&visit);
}

void
bursar_guest_resume(Guest *guest)
{
    Visit visit = visit_begin();
    Task *task = task_of(&visit, guest);
    if (task != NULL) {
        (void)task_resume(&visit.runtime->scheduler, NULL, task, generation_of(guest));
    }
    visit_end(&visit);
}

int
bursar_guest_fill(Guest *guest, const janus_budget *amount)
{
    LawBudget law = budget_in(amount);
    Visit visit = visit_begin();
    int error = may_live(&visit, guest) ? lender_fill(&guest->lender, &visit.runtime->scheduler, &law) : JANUS_INVALID;
    visit_end(&visit);
    return error;
}

void
bursar_guest_refuse(Guest *guest)
{
    Visit visit = visit_begin();
    if (may_live(&visit, guest)) {
        lender_refuse(&guest->lender, &visit.runtime->scheduler);
    }
    visit_end(&visit);
}
