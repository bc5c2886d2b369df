/* Guests: letters about every kind of end, money in portions, a family on borrowed money, cancelling, strays. U1–U3, O1–O3. */
#include "rt.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "abi/guest.h"

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
static BursarLetter
next(void)
{
    BursarLetter letter = {0};
    while (bursar_mailbox_take(mailbox, &letter, 1) == 0) {
        uint64_t rings;
        struct pollfd waits = {.fd = bell, .events = POLLIN};
        CHECK(poll(&waits, 1, -1) == 1);
        CHECK(read(bell, &rings, sizeof rings) == sizeof rings);
    }
    return letter;
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
        BursarLetter letter = next();
        CHECK_EQUAL(letter.key, i);
        CHECK_EQUAL(letter.kind, cases[i].kind);
        CHECK_EQUAL(letter.code, cases[i].code);
        CHECK_EQUAL(letter.panic, cases[i].fn == panics);
        CHECK_EQUAL(letter.amounts[0], cases[i].fn == ticks ? 3000 : 0);
    }
}

/* U1, U3: asks once, goes on, and what it has spent is exact. */
static void
portions(void)
{
    const janus_budget little = {100, 0, 0, 0, 0}, more = {150, 0, 0, 0, 0};
    Guest *guest = spawn(1, ticks, (void *)1000, &little);
    int asked = 0;
    BursarLetter letter = next();
    for (; letter.kind == GUEST_SHORT; letter = next()) {
        CHECK_EQUAL(letter.amounts[0], 1);
        CHECK_EQUAL(bursar_guest_fill(guest, &more), JANUS_OK);
        asked += 1;
    }
    CHECK_EQUAL(asked, 6);
    CHECK_EQUAL(letter.kind, JANUS_KIND_OK);
    CHECK_EQUAL(letter.amounts[0], 1000);
}

static void
refused(void)
{
    const janus_budget little = {100, 0, 0, 0, 0};
    Guest *guest = spawn(1, ticks, (void *)1000, &little);
    CHECK_EQUAL(next().kind, GUEST_SHORT);
    bursar_guest_refuse(guest);
    BursarLetter letter = next();
    CHECK_EQUAL(letter.kind, JANUS_KIND_BUDGET);
    CHECK_EQUAL(letter.amounts[0], 100);
}

/* U2: ten children share what was lent, hold together, and all go on. */
static void
families(void)
{
    const janus_budget little = {500, 0, 10, 0, 0}, more = {700, 0, 0, 0, 0};
    Guest *guest = spawn(1, family, (void *)1000, &little);
    BursarLetter letter = next();
    for (; letter.kind == GUEST_SHORT; letter = next()) {
        CHECK_EQUAL(bursar_guest_fill(guest, &more), JANUS_OK);
    }
    CHECK_EQUAL(letter.kind, JANUS_KIND_OK);
    CHECK_EQUAL(letter.amounts[0], 10 * 1000 + 10); /* and ten spawns */
    CHECK_EQUAL(letter.amounts[2], 10);
    guest = spawn(2, family, (void *)1000, &little);
    CHECK_EQUAL(next().kind, GUEST_SHORT);
    bursar_guest_refuse(guest);
    letter = next();
    CHECK(letter.kind == JANUS_KIND_FAILED || letter.kind == JANUS_KIND_BUDGET);
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

static void
many(void)
{
    enum { N = 5000 };
    BursarLetter letters[64];
    for (uint64_t i = 0; i < N; i++) {
        (void)spawn(i, i % 2 == 0 ? ticks : echo, (void *)(uintptr_t)i, &plenty);
    }
    uint64_t ended = 0, keys = 0;
    while (ended < N) {
        size_t n = bursar_mailbox_take(mailbox, letters, 64);
        for (size_t i = 0; i < n; i++) {
            keys += letters[i].key;
            CHECK_EQUAL(letters[i].kind, JANUS_KIND_OK);
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
    many();
    shut_down();
    mistakes();
    CHECK_EQUAL(bursar_mailbox_close(mailbox), JANUS_OK);
    janus_rt_shutdown();
    close(bell);
    return finish();
}
