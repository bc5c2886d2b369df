/* Guests: letters about every kind of end, money in portions, a family on borrowed money, cancelling, strays. LENDER-1
 * to LENDER-3, GUEST-1 to GUEST-3. */
#include "rt.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>

#include "abi/abi.h"
#include "abi/guest.h"
#include "engine/lender.h"
#include "engine/pause.h"

static const janus_budget plenty = {1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30};

static int bell;
static Mailbox *mailbox;

static Guest *
spawn(uint64_t key, janus_task_fn fn, void *arg, const janus_budget *budget)
{
    intptr_t guest = bursar_guest_spawn(mailbox, key, fn, arg, "guest", 0, budget);
    CHECK(guest > 0);
    return (Guest *)guest;
}

/* The next letter, waited for. */
static BursarMessage
next(void)
{
    BursarMessage message = {0};
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
        int told = janus_tick(mine);
        if (told != JANUS_OK) {
            return told;
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
        BursarMessage message = next();
        CHECK_EQUAL(message.key, i);
        CHECK_EQUAL(message.kind, cases[i].kind);
        CHECK_EQUAL(message.code, cases[i].code);
        CHECK_EQUAL(message.panic, cases[i].fn == panics);
        CHECK_EQUAL(message.amounts[0], cases[i].fn == ticks ? 3000 : 0);
    }
}

/* LENDER-1, LENDER-3: asks once, goes on, and what it has spent is exact. */
static void
portions(void)
{
    const janus_budget little = {100, 0, 0, 0, 0}, more = {150, 0, 0, 0, 0};
    Guest *guest = spawn(1, ticks, (void *)1000, &little);
    int asked = 0;
    BursarMessage message = next();
    for (; message.kind == GUEST_SHORT; message = next()) {
        CHECK_EQUAL(message.amounts[0], 1);
        CHECK_EQUAL(bursar_guest_fill(guest, &more), JANUS_OK);
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
    Guest *guest = spawn(1, ticks, (void *)1000, &little);
    CHECK_EQUAL(next().kind, GUEST_SHORT);
    bursar_guest_refuse(guest);
    BursarMessage message = next();
    CHECK_EQUAL(message.kind, JANUS_KIND_BUDGET);
    CHECK_EQUAL(message.amounts[0], 100);
}

/* LENDER-2: ten children share what was lent, hold together, and all go on. */
static void
families(void)
{
    const janus_budget little = {500, 0, 10, 0, 0}, more = {700, 0, 0, 0, 0};
    Guest *guest = spawn(1, family, (void *)1000, &little);
    BursarMessage message = next();
    for (; message.kind == GUEST_SHORT; message = next()) {
        CHECK_EQUAL(bursar_guest_fill(guest, &more), JANUS_OK);
    }
    CHECK_EQUAL(message.kind, JANUS_KIND_OK);
    CHECK_EQUAL(message.amounts[0], 10 * 1000 + 10); /* and ten spawns */
    CHECK_EQUAL(message.amounts[2], 10);
    guest = spawn(2, family, (void *)1000, &little);
    CHECK_EQUAL(next().kind, GUEST_SHORT);
    bursar_guest_refuse(guest);
    message = next();
    CHECK(message.kind == JANUS_KIND_FAILED || message.kind == JANUS_KIND_BUDGET);
}

static void
cancelled(void)
{
    const janus_budget little = {100, 0, 0, 0, 0};
    bursar_guest_cancel(spawn(1, parks, NULL, &plenty));
    CHECK_EQUAL(next().kind, JANUS_KIND_CANCELLED);
    Guest *guest = spawn(1, ticks, (void *)1000, &little);
    CHECK_EQUAL(next().kind, GUEST_SHORT);
    bursar_guest_cancel(guest);
    CHECK_EQUAL(next().kind, JANUS_KIND_CANCELLED);
}

/* ---- GUEST-4: standing still */

typedef struct {
    atomic_int rounds, end;
    void *channel;
} Place;

static int64_t
rounds_by_ticks(void *arg)
{
    Place *place = arg;
    janus_ticks *mine = janus_ticks_get();
    while (atomic_load(&place->end) == 0) {
        int told = janus_tick(mine);
        if (told != JANUS_OK) {
            return told;
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
        int told = janus_yield();
        if (told != JANUS_OK) {
            return told;
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
    int told = janus_channel_receive(place->channel, &item);
    atomic_fetch_add(&place->rounds, 1);
    return told == JANUS_CLOSED ? 7 : told;
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

/* It makes no round from the letter to its resumption, and does afterwards; again and again. */
static void
stands(janus_task_fn fn)
{
    Place place = {0};
    Guest *guest = spawn(3, fn, &place, &plenty);
    has_begun(&place);
    for (int64_t number = 1; number <= 50; number++) {
        bursar_guest_pause(guest, number);
        BursarMessage message = next();
        CHECK(message.kind == GUEST_PAUSED && message.key == 3);
        CHECK_EQUAL(message.code, number);
        int before = atomic_load(&place.rounds);
        CHECK_EQUAL(rt_run(echo, NULL), JANUS_OK); /* others go on */
        CHECK_EQUAL(atomic_load(&place.rounds), before);
        bursar_guest_resume(guest);
        while (atomic_load(&place.rounds) == before) {
            sched_yield();
        }
    }
    atomic_store(&place.end, 1);
    BursarMessage message = next();
    CHECK_EQUAL(message.kind, JANUS_KIND_OK);
    CHECK_EQUAL(message.code, 7);
}

/* One that waits stands where it does, and takes what came meanwhile when it may go on. */
static void
stands_waiting(janus_task_fn fn)
{
    Place place = {.channel = janus_channel_create(sizeof(int64_t), 0)};
    Guest *guest = spawn(4, fn, &place, &plenty);
    for (int64_t number = 1; number <= 20; number++) {
        bursar_guest_pause(guest, number);
        CHECK_EQUAL(next().code, number);
        bursar_guest_resume(guest);
    }
    bursar_guest_pause(guest, 21);
    CHECK_EQUAL(next().kind, GUEST_PAUSED);
    CHECK_EQUAL(janus_channel_close(place.channel), JANUS_OK);
    while (atomic_load(&place.rounds) == 0 && fn == awaits) { /* its child was not asked */
        sched_yield();
    }
    BursarMessage message;
    for (int i = 0; i < 20; i++) {
        CHECK_EQUAL(rt_run(echo, NULL), JANUS_OK);
        CHECK(atomic_load(&place.rounds) == (fn == awaits) && bursar_mailbox_take(mailbox, &message, 1) == 0);
    }
    bursar_guest_resume(guest);
    message = next();
    CHECK_EQUAL(message.kind, JANUS_KIND_OK);
    CHECK_EQUAL(message.code, 7);
    CHECK_EQUAL(janus_channel_destroy(place.channel), JANUS_OK);
}

/* A request to stop ends it where it stands; and whoever is asked to stop is not asked to stand any more. */
static void
stands_and_is_cancelled(void)
{
    Place place = {0};
    Guest *guest = spawn(5, rounds_by_ticks, &place, &plenty);
    has_begun(&place);
    bursar_guest_pause(guest, 1);
    CHECK_EQUAL(next().kind, GUEST_PAUSED);
    int before = atomic_load(&place.rounds);
    bursar_guest_cancel(guest);
    bursar_guest_pause(guest, 2);
    CHECK_EQUAL(next().kind, JANUS_KIND_CANCELLED);
    CHECK_EQUAL(atomic_load(&place.rounds), before);
    guest = spawn(5, parks, NULL, &plenty);
    bursar_guest_pause(guest, 1);
    CHECK_EQUAL(next().kind, GUEST_PAUSED);
    bursar_guest_cancel(guest);
    CHECK_EQUAL(next().kind, JANUS_KIND_CANCELLED);
}

/* Paused and resumed before it could stand, by a function that ends: the letters are about pauses that were, and then
 * its end. */
static void
stands_or_ends(void)
{
    for (uint64_t i = 0; i < 200; i++) {
        Guest *guest = spawn(i, ticks, (void *)2000, &plenty);
        for (int64_t number = 1; number <= 3; number++) {
            bursar_guest_pause(guest, number);
            bursar_guest_resume(guest);
        }
        BursarMessage message = next();
        for (int64_t last = 0; message.kind == GUEST_PAUSED; message = next()) {
            CHECK(message.code > last && message.code <= 3);
            last = message.code;
        }
        CHECK_EQUAL(message.kind, JANUS_KIND_OK);
        CHECK_EQUAL(message.amounts[0], 2000);
    }
}

/* It lacks money as well: two letters, and it goes on when it has both. */
static void
stands_and_lacks(void)
{
    const janus_budget little = {100, 0, 0, 0, 0}, enough = {2000, 0, 0, 0, 0};
    Guest *guest = spawn(6, ticks, (void *)1000, &little);
    BursarMessage message = next();
    CHECK(message.kind == GUEST_SHORT && message.code == 1);
    bursar_guest_pause(guest, 1);
    CHECK_EQUAL(bursar_guest_fill(guest, &enough), JANUS_OK);
    CHECK_EQUAL(next().kind, GUEST_PAUSED);
    bursar_guest_resume(guest);
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

/* Lets its owner go on, which waits for it by now, and has said that it stands. */
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

/* A pause is noted, and its wake is not: as if it had been taken together with the wake of the operation before. */
static int64_t
awaits_unwoken(void *arg)
{
    Task *self = visit_task();
    uint32_t generation = load_u32(&self->head.generation, RELAXED);
    (void)arg;
    lender_of(self)->stands = count;
    MUST(janus_nursery_create() != NULL);
    MUST(janus_nursery_spawn(resumes, self) == 0);
    MUST(janus_yield() == JANUS_OK); /* it has begun, and is not called above us */
    MUST(task_note_request(self, generation, generation + 1));
    return janus_nursery_await_all();
}

static void
stands_without_a_wake(void)
{
    janus_rt_shutdown();
    rt_up(1);
    (void)spawn(7, awaits_unwoken, NULL, &plenty);
    BursarMessage message = next();
    CHECK_EQUAL(message.kind, JANUS_KIND_OK);
    CHECK_EQUAL(message.code, 0);
    CHECK_EQUAL(atomic_load(&said), 1);
    janus_rt_shutdown();
}

static void
standing(void)
{
    stands(rounds_by_ticks);
    stands(rounds_by_yields);
    stands_waiting(receives);
    stands_waiting(selects);
    stands_waiting(awaits);
    stands_and_is_cancelled();
    stands_or_ends();
    stands_and_lacks();
    stands_without_a_wake();
}

static void
many(void)
{
    enum { N = 5000 };
    BursarMessage messages[64];
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

/* The runtime is shut down under its guests: they end, and the letters are still there. */
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

static void
mistakes(void)
{
    const janus_budget partly = {1, JANUS_UNLIMITED, 1, 1, 1}, below = {1, -2, 1, 1, 1};
    CHECK_EQUAL(bursar_guest_spawn(mailbox, 1, echo, NULL, "guest", 0, &partly), JANUS_INVALID);
    CHECK_EQUAL(bursar_guest_spawn(mailbox, 1, echo, NULL, "guest", 0, &below), JANUS_INVALID);
    CHECK_EQUAL(bursar_guest_spawn(mailbox, 1, NULL, NULL, "guest", 0, &plenty), JANUS_INVALID);
    CHECK_EQUAL(bursar_guest_spawn(mailbox, 1, echo, NULL, "guest", SIZE_MAX, &plenty), JANUS_INVALID);
    janus_rt_shutdown();
    janus_rt_options options = {.size = sizeof options, .deterministic = true};
    CHECK_EQUAL(janus_rt_init_with(&options), JANUS_OK);
    CHECK_EQUAL(bursar_guest_spawn(mailbox, 1, echo, NULL, "guest", 0, &plenty), JANUS_CLOSED);
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
    mistakes();
    CHECK_EQUAL(bursar_mailbox_close(mailbox), JANUS_OK);
    janus_rt_shutdown();
    close(bell);
    return finish();
}
