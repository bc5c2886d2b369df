/* Fiber calls: messages about every kind of end, budget in portions, children on a lent budget, cancelling, pausing,
 * and a shutdown of the runtime. LENDER-1 to LENDER-3, MAILBOX-1 to MAILBOX-4. */
#include "rt.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>

#include "abi/mailbox.h"
#include "abi/visit.h"
#include "engine/lender.h"
#include "engine/task_requests.h"

static const janus_budget plenty = {1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30};

static int bell;
static FiberMailbox *mailbox;

static FiberCall *
spawn(uint64_t key, janus_task_fn fn, void *arg, const janus_budget *budget)
{
    intptr_t call = bursar_fiber_call_spawn(mailbox, key, fn, arg, "call", 0, budget);
    CHECK(call > 0);
    return (FiberCall *)call;
}

/* Wait for the next message. */
static FiberMessage
next(void)
{
    FiberMessage message = {0};
    while (bursar_mailbox_take(mailbox, &message, 1) == 0) {
        uint64_t rings;
        struct pollfd waits = {.fd = bell, .events = POLLIN};
        CHECK(poll(&waits, 1, -1) == 1);
        CHECK(read(bell, &rings, sizeof rings) == sizeof rings);
    }
    return message;
}

static int64_t
echo(void *arg)
{
    return (int64_t)(intptr_t)arg;
}

static int64_t
panics(void *arg)
{
    return janus_panic((int32_t)(intptr_t)arg);
}

static int64_t
ticks(void *arg)
{
    janus_ticks *mine = janus_ticks_get();
    for (int64_t i = 0; i < (int64_t)(intptr_t)arg; i++) {
        int code = janus_tick(mine);
        if (code != JANUS_OK) {
            return code;
        }
    }
    return 0;
}

static int64_t
parks(void *arg)
{
    (void)arg;
    return janus_sleep_ns(INT64_MAX);
}

static int64_t
family(void *arg)
{
    void *nursery = janus_nursery_create();
    for (int i = 0; i < 10; i++) {
        MUST(janus_nursery_spawn(ticks, arg) == 0);
    }
    return nursery == NULL ? -100 : janus_nursery_await_all();
}

static void
ends(void)
{
    const struct {
        janus_task_fn fn;
        intptr_t arg;
        janus_kind kind;
        int64_t code;
    } cases[] = {
        {echo, 7, JANUS_KIND_OK, 7},
        {echo, -7, JANUS_KIND_FAILED, -7},
        {panics, 5, JANUS_KIND_PANICKED, 5},
        {ticks, 3000, JANUS_KIND_OK, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)spawn(i, cases[i].fn, (void *)cases[i].arg, &plenty);
        FiberMessage message = next();
        CHECK_EQUAL(message.key, i);
        CHECK_EQUAL(message.kind, cases[i].kind);
        CHECK_EQUAL(message.code, cases[i].code);
        CHECK_EQUAL(message.panic, cases[i].fn == panics);
        CHECK_EQUAL(message.amounts[0], cases[i].fn == ticks ? 3000 : 0);
    }
}

/* LENDER-1, LENDER-3: it asks once and goes on, and the reported spending is exact. */
static void
portions(void)
{
    const janus_budget little = {100, 0, 0, 0, 0}, more = {150, 0, 0, 0, 0};
    FiberCall *call = spawn(1, ticks, (void *)1000, &little);
    int asked = 0;
    FiberMessage message = next();
    for (; message.kind == MESSAGE_SHORT; message = next()) {
        CHECK_EQUAL(message.amounts[0], 1);
        CHECK_EQUAL(bursar_fiber_call_fill(call, &more), JANUS_OK);
        asked += 1;
    }
    CHECK_EQUAL(asked, 6);
    CHECK_EQUAL(message.kind, JANUS_KIND_OK);
    CHECK_EQUAL(message.amounts[0], 1000);
}

static void
refused(void)
{
    const janus_budget little = {100, 0, 0, 0, 0};
    FiberCall *call = spawn(1, ticks, (void *)1000, &little);
    CHECK_EQUAL(next().kind, MESSAGE_SHORT);
    bursar_fiber_call_refuse(call);
    FiberMessage message = next();
    CHECK_EQUAL(message.kind, JANUS_KIND_BUDGET);
    CHECK_EQUAL(message.amounts[0], 100);
}

/* LENDER-2: ten children share the lent budget, hold together, and all go on. */
static void
families(void)
{
    const janus_budget little = {500, 0, 10, 0, 0}, more = {700, 0, 0, 0, 0};
    FiberCall *call = spawn(1, family, (void *)1000, &little);
    FiberMessage message = next();
    for (; message.kind == MESSAGE_SHORT; message = next()) {
        CHECK_EQUAL(bursar_fiber_call_fill(call, &more), JANUS_OK);
    }
    CHECK_EQUAL(message.kind, JANUS_KIND_OK);
    CHECK_EQUAL(message.amounts[0], 10 * 1000 + 11); /* and ten spawns and a nursery */
    CHECK_EQUAL(message.amounts[2], 10);
    call = spawn(2, family, (void *)1000, &little);
    CHECK_EQUAL(next().kind, MESSAGE_SHORT);
    bursar_fiber_call_refuse(call);
    message = next();
    CHECK(message.kind == JANUS_KIND_FAILED || message.kind == JANUS_KIND_BUDGET);
}

static void
cancelled(void)
{
    const janus_budget little = {100, 0, 0, 0, 0};
    bursar_fiber_call_cancel(spawn(1, parks, NULL, &plenty));
    CHECK_EQUAL(next().kind, JANUS_KIND_CANCELLED);
    FiberCall *call = spawn(1, ticks, (void *)1000, &little);
    CHECK_EQUAL(next().kind, MESSAGE_SHORT);
    bursar_fiber_call_cancel(call);
    CHECK_EQUAL(next().kind, JANUS_KIND_CANCELLED);
}

/* ---- MAILBOX-4: pausing */

typedef struct {
    atomic_int rounds, end, has_child;
    void *channel;
} Place;

static int64_t
rounds_by_ticks(void *arg)
{
    Place *place = arg;
    janus_ticks *mine = janus_ticks_get();
    while (atomic_load(&place->end) == 0) {
        int code = janus_tick(mine);
        if (code != JANUS_OK) {
            return code;
        }
        atomic_fetch_add(&place->rounds, 1);
    }
    return 7;
}

static int64_t
rounds_by_yields(void *arg)
{
    Place *place = arg;
    while (atomic_load(&place->end) == 0) {
        int code = janus_yield();
        if (code != JANUS_OK) {
            return code;
        }
        atomic_fetch_add(&place->rounds, 1);
    }
    return 7;
}

/* Waits in a channel, which the test closes. */
static int64_t
receives(void *arg)
{
    Place *place = arg;
    int64_t item;
    int code = janus_channel_receive(place->channel, &item);
    atomic_fetch_add(&place->rounds, 1);
    return code == JANUS_CLOSED ? 7 : code;
}

static int64_t
selects(void *arg)
{
    Place *place = arg;
    void *select = janus_select_create();
    (void)janus_select_add_recv(select, place->channel);
    int which = janus_select_wait(select);
    janus_select_destroy(select);
    atomic_fetch_add(&place->rounds, 1);
    return which == JANUS_CLOSED ? 7 : which;
}

static int64_t
awaits(void *arg)
{
    Place *place = arg;
    void *nursery = janus_nursery_create();
    MUST(nursery != NULL && janus_nursery_spawn(receives, place) == 0);
    atomic_store(&place->has_child, 1);
    int64_t result_of_message = janus_nursery_await_all();
    atomic_fetch_add(&place->rounds, 1);
    return result_of_message == 0 || result_of_message == 7 ? 7 : result_of_message;
}

static void
has_begun(const Place *place)
{
    while (atomic_load(&place->rounds) == 0) {
        sched_yield();
    }
}

/* It makes no round between the message and its resume, and goes on afterwards; again and again. */
static void
pauses(janus_task_fn fn)
{
    Place place = {0};
    FiberCall *call = spawn(3, fn, &place, &plenty);
    has_begun(&place);
    for (int64_t number = 1; number <= 50; number++) {
        bursar_fiber_call_pause(call, number);
        FiberMessage message = next();
        CHECK(message.kind == MESSAGE_PAUSED && message.key == 3);
        CHECK_EQUAL(message.code, number);
        int before = atomic_load(&place.rounds);
        CHECK_EQUAL(rt_run(echo, NULL), JANUS_OK); /* others go on */
        CHECK_EQUAL(atomic_load(&place.rounds), before);
        bursar_fiber_call_resume(call);
        while (atomic_load(&place.rounds) == before) {
            sched_yield();
        }
    }
    atomic_store(&place.end, 1);
    FiberMessage message = next();
    CHECK_EQUAL(message.kind, JANUS_KIND_OK);
    CHECK_EQUAL(message.code, 7);
}

/* A task that waits pauses where it is, and gets what came meanwhile when it is resumed. */
static void
pauses_while_waiting(janus_task_fn fn)
{
    Place place = {.channel = janus_channel_create(sizeof(int64_t), 0)};
    FiberCall *call = spawn(4, fn, &place, &plenty);
    while (atomic_load(&place.has_child) == 0 && fn == awaits) { /* it could also pause before it has a child */
        sched_yield();
    }
    for (int64_t number = 1; number <= 20; number++) {
        bursar_fiber_call_pause(call, number);
        CHECK_EQUAL(next().code, number);
        bursar_fiber_call_resume(call);
    }
    bursar_fiber_call_pause(call, 21);
    CHECK_EQUAL(next().kind, MESSAGE_PAUSED);
    CHECK_EQUAL(janus_channel_close(place.channel), JANUS_OK);
    while (atomic_load(&place.rounds) == 0 && fn == awaits) { /* its child was not asked to pause */
        sched_yield();
    }
    FiberMessage message;
    for (int i = 0; i < 20; i++) {
        CHECK_EQUAL(rt_run(echo, NULL), JANUS_OK);
        CHECK(atomic_load(&place.rounds) == (fn == awaits) && bursar_mailbox_take(mailbox, &message, 1) == 0);
    }
    bursar_fiber_call_resume(call);
    message = next();
    CHECK_EQUAL(message.kind, JANUS_KIND_OK);
    CHECK_EQUAL(message.code, 7);
    CHECK_EQUAL(janus_channel_destroy(place.channel), JANUS_OK);
}

/* A cancel request ends the pause; and a task with a cancel request cannot be paused any more. */
static void
cancelled_while_paused(void)
{
    Place place = {0};
    FiberCall *call = spawn(5, rounds_by_ticks, &place, &plenty);
    has_begun(&place);
    bursar_fiber_call_pause(call, 1);
    CHECK_EQUAL(next().kind, MESSAGE_PAUSED);
    int before = atomic_load(&place.rounds);
    bursar_fiber_call_cancel(call);
    bursar_fiber_call_pause(call, 2);
    CHECK_EQUAL(next().kind, JANUS_KIND_CANCELLED);
    CHECK_EQUAL(atomic_load(&place.rounds), before);
    call = spawn(5, parks, NULL, &plenty);
    bursar_fiber_call_pause(call, 1);
    CHECK_EQUAL(next().kind, MESSAGE_PAUSED);
    bursar_fiber_call_cancel(call);
    CHECK_EQUAL(next().kind, JANUS_KIND_CANCELLED);
}

/* Paused and resumed before it could pause, by a function that ends: the messages are about pauses that happened, then
 * about its end. */
static void
pauses_or_ends(void)
{
    for (uint64_t i = 0; i < 200; i++) {
        FiberCall *call = spawn(i, ticks, (void *)2000, &plenty);
        for (int64_t number = 1; number <= 3; number++) {
            bursar_fiber_call_pause(call, number);
            bursar_fiber_call_resume(call);
        }
        FiberMessage message = next();
        for (int64_t last = 0; message.kind == MESSAGE_PAUSED; message = next()) {
            CHECK(message.code > last && message.code <= 3);
            last = message.code;
        }
        CHECK_EQUAL(message.kind, JANUS_KIND_OK);
        CHECK_EQUAL(message.amounts[0], 2000);
    }
}

/* It is short of budget as well: two messages, and it goes on after a fill and a resume. */
static void
pauses_and_lacks_budget(void)
{
    const janus_budget little = {100, 0, 0, 0, 0}, enough = {2000, 0, 0, 0, 0};
    FiberCall *call = spawn(6, ticks, (void *)1000, &little);
    FiberMessage message = next();
    CHECK(message.kind == MESSAGE_SHORT && message.code == 1);
    bursar_fiber_call_pause(call, 1);
    CHECK_EQUAL(bursar_fiber_call_fill(call, &enough), JANUS_OK);
    CHECK_EQUAL(next().kind, MESSAGE_PAUSED);
    bursar_fiber_call_resume(call);
    message = next();
    CHECK(message.kind == JANUS_KIND_OK && message.amounts[0] == 1000);
}

static atomic_int said;

static void
count(Lender *lender, const Task *task)
{
    (void)lender;
    (void)task;
    atomic_fetch_add(&said, 1);
}

/* Resumes its owner, which waits for it by now and has reported that it is paused. */
static int64_t
resumes(void *arg)
{
    Task *owner = arg;
    while (task_state(owner) != LAW_STATE_BLOCKED) {
        MUST(janus_yield() == JANUS_OK);
    }
    MUST(atomic_load(&said) == 1);
    uint32_t generation = load_u32(&owner->head.generation, RELAXED);
    return task_resume(&the_runtime.scheduler, task_worker(visit_task()), owner, generation);
}

/* A pause is noted without its wake, as if the wake had been merged with the wake of the operation before. */
static int64_t
awaits_unwoken(void *arg)
{
    Task *self = visit_task();
    uint32_t generation = load_u32(&self->head.generation, RELAXED);
    (void)arg;
    lender_of(self)->on_paused = count;
    MUST(janus_nursery_create() != NULL);
    MUST(janus_nursery_spawn(resumes, self) == 0);
    MUST(janus_yield() == JANUS_OK); /* it has begun, and is not called above its owner */
    MUST(task_note_request(self, generation, generation + 1));
    return janus_nursery_await_all();
}

static void
pauses_without_a_wake(void)
{
    janus_rt_shutdown();
    rt_up(1);
    (void)spawn(7, awaits_unwoken, NULL, &plenty);
    FiberMessage message = next();
    CHECK_EQUAL(message.kind, JANUS_KIND_OK);
    CHECK_EQUAL(message.code, 0);
    CHECK_EQUAL(atomic_load(&said), 1);
    janus_rt_shutdown();
}

static void
standing(void)
{
    pauses(rounds_by_ticks);
    pauses(rounds_by_yields);
    pauses_while_waiting(receives);
    pauses_while_waiting(selects);
    pauses_while_waiting(awaits);
    cancelled_while_paused();
    pauses_or_ends();
    pauses_and_lacks_budget();
    pauses_without_a_wake();
}

static void
many(void)
{
    enum { N = 5000 };
    FiberMessage messages[64];
    for (uint64_t i = 0; i < N; i++) {
        (void)spawn(i, i % 2 == 0 ? ticks : echo, (void *)(uintptr_t)i, &plenty);
    }
    uint64_t ended = 0, keys = 0;
    while (ended < N) {
        size_t n = bursar_mailbox_take(mailbox, messages, 64);
        for (size_t i = 0; i < n; i++) {
            keys += messages[i].key;
            CHECK_EQUAL(messages[i].kind, JANUS_KIND_OK);
        }
        ended += n;
    }
    CHECK_EQUAL(keys, (uint64_t)N * (N - 1) / 2);
}

/* The runtime is shut down while calls run: they end, and their messages can still be taken. */
static void
shut_down(void)
{
    for (uint64_t i = 0; i < 10; i++) {
        (void)spawn(i, parks, NULL, &plenty);
    }
    CHECK_EQUAL(bursar_mailbox_close(mailbox), JANUS_AGAIN);
    janus_rt_shutdown();
    for (int i = 0; i < 10; i++) {
        CHECK_EQUAL(next().kind, JANUS_KIND_CANCELLED);
    }
    (void)spawn(1, echo, (void *)1, &plenty); /* and it is up again */
    CHECK_EQUAL(next().code, 1);
}

/* MAILBOX-2: however many messages come, the file is written once until the list was emptied. */
static void
rings(void)
{
    FiberMessage messages[3];
    uint64_t writes = 0;
    (void)!read(bell, &writes, sizeof writes); /* earlier messages were taken without a look at the file */
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < 3; i++) {
            (void)spawn(i, parks, NULL, &plenty);
        }
        janus_rt_shutdown(); /* all three have ended */
        CHECK(read(bell, &writes, sizeof writes) == sizeof writes);
        CHECK_EQUAL(writes, 1);
        CHECK_EQUAL(bursar_mailbox_take(mailbox, messages, 2), 2);
        (void)spawn(3, parks, NULL, &plenty);
        janus_rt_shutdown();
        CHECK(read(bell, &writes, sizeof writes) == -1); /* one message was left in the list */
        CHECK_EQUAL(bursar_mailbox_take(mailbox, messages, 3), 2);
    }
}

static void
mistakes(void)
{
    const janus_budget partly = {1, JANUS_UNLIMITED, 1, 1, 1}, below = {1, -2, 1, 1, 1};
    CHECK_EQUAL(bursar_fiber_call_spawn(mailbox, 1, echo, NULL, "call", 0, &partly), JANUS_INVALID);
    CHECK_EQUAL(bursar_fiber_call_spawn(mailbox, 1, echo, NULL, "call", 0, &below), JANUS_INVALID);
    CHECK_EQUAL(bursar_fiber_call_spawn(mailbox, 1, NULL, NULL, "call", 0, &plenty), JANUS_INVALID);
    CHECK_EQUAL(bursar_fiber_call_spawn(mailbox, 1, echo, NULL, "call", SIZE_MAX, &plenty), JANUS_INVALID);
    janus_rt_shutdown();
    janus_rt_options options = {.size = sizeof options, .deterministic = true};
    CHECK_EQUAL(janus_rt_init_with(&options), JANUS_OK);
    CHECK_EQUAL(bursar_fiber_call_spawn(mailbox, 1, echo, NULL, "call", 0, &plenty), JANUS_CLOSED);
    janus_rt_shutdown();
}

int
main(void)
{
    bell = eventfd(0, EFD_NONBLOCK);
    mailbox = bursar_mailbox_open(bell);
    CHECK(mailbox != NULL);
    ends();
    portions();
    refused();
    families();
    cancelled();
    standing();
    many();
    shut_down();
    rings();
    mistakes();
    CHECK_EQUAL(bursar_mailbox_close(mailbox), JANUS_OK);
    janus_rt_shutdown();
    close(bell);
    return finish();
}
