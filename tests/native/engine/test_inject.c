/* The injector on one thread: order, the limit, batches, and links that are pushed again. */
#include "check.h"

#include "engine/inject.h"

enum { LINKS = 200 };

static InjectLink links[LINKS];

static void
test_order(void)
{
    Injector injector;
    InjectLink *got[LINKS];
    inject_init(&injector, INJECT_UNLIMITED);
    CHECK(inject_length(&injector) == 0);
    CHECK(inject_take(&injector, got, LINKS) == 0);
    for (int round = 0; round < 3; round++) { /* a link that was taken may be pushed again */
        for (int i = 0; i < LINKS; i++) {
            CHECK(inject_push(&injector, &links[i]));
            CHECK_EQUAL(inject_length(&injector), i + 1);
        }
        CHECK(inject_take(&injector, got, 0) == 0);
        int next = 0;
        while (next < LINKS) {
            size_t count = inject_take(&injector, got, LINKS);
            CHECK(count > 0 && count <= INJECT_BATCH_MAX);
            if (count == 0) {
                break;
            }
            for (size_t i = 0; i < count; i++) {
                CHECK(got[i] == &links[next++]);
            }
        }
        CHECK_EQUAL(inject_length(&injector), 0);
        CHECK(inject_take(&injector, got, LINKS) == 0);
    }
}

/* One in, one out: the stub moves around. */
static void
test_single(void)
{
    Injector injector;
    InjectLink *got;
    inject_init(&injector, INJECT_UNLIMITED);
    for (int i = 0; i < 3 * LINKS; i++) {
        CHECK(inject_push(&injector, &links[i % LINKS]));
        CHECK(inject_take(&injector, &got, 1) == 1 && got == &links[i % LINKS]);
        CHECK(inject_take(&injector, &got, 1) == 0);
    }
}

static void
test_limit(void)
{
    Injector injector;
    InjectLink *got[2];
    inject_init(&injector, 2);
    CHECK(inject_push(&injector, &links[0]));
    CHECK(inject_push(&injector, &links[1]));
    CHECK(!inject_push(&injector, &links[2]));
    CHECK(!inject_push(&injector, &links[2]));
    CHECK_EQUAL(inject_length(&injector), 2);
    CHECK(inject_take(&injector, got, 1) == 1 && got[0] == &links[0]);
    CHECK(inject_push(&injector, &links[2]));
    CHECK(inject_take(&injector, got, 2) == 2 && got[0] == &links[1] && got[1] == &links[2]);
}

/* A producer that stopped between its two stores hides later links until it goes on (INJECT-5). */
static void
test_unfinished_push(void)
{
    Injector injector;
    InjectLink *got[4];
    inject_init(&injector, INJECT_UNLIMITED);
    CHECK(inject_push(&injector, &links[0]));
    add_i64(&injector.count, 1, RELAXED);
    store_ptr(&links[1].next, NULL, RELAXED);
    InjectLink *before = swap_ptr(&injector.head, &links[1], ACQ_REL); /* here it is interrupted */
    CHECK(inject_push(&injector, &links[2]));
    CHECK(inject_take(&injector, got, 4) == 0);
    CHECK_EQUAL(inject_length(&injector), 3); /* so no worker goes to sleep */
    store_ptr(&before->next, &links[1], RELEASE);
    CHECK(inject_take(&injector, got, 4) == 3);
    CHECK(got[0] == &links[0] && got[1] == &links[1] && got[2] == &links[2]);
}

int
main(void)
{
    test_order();
    test_single();
    test_limit();
    test_unfinished_push();
    return finish();
}
