/* The ring, from both ends and the middle, and which ready task is next. */
#include "check.h"

#include "law/lanes.h"

typedef struct {
    int number;
    LawLink link;
} Record;

enum { RECORDS = 5 };

static int
take(LawQueue *queue)
{
    LawLink *link = law_queue_take_oldest(queue);
    return link == NULL ? -1 : LAW_RECORD(link, Record, link)->number;
}

static void
fill(LawQueue *queue, Record records[RECORDS])
{
    law_queue_init(queue);
    for (int i = 0; i < RECORDS; i++) {
        records[i] = (Record){.number = i};
        law_queue_append(queue, &records[i].link);
    }
}

static void
test_oldest_first(void)
{
    LawQueue queue;
    Record records[RECORDS];
    fill(&queue, records);
    CHECK_EQUAL(queue.length, RECORDS);
    for (int i = 0; i < RECORDS; i++) {
        CHECK(law_queue_oldest(&queue) == &records[i].link);
        CHECK_EQUAL(take(&queue), i);
        CHECK(!law_linked(&records[i].link));
    }
    CHECK(law_queue_empty(&queue));
    CHECK_EQUAL(take(&queue), -1);
    CHECK(law_queue_oldest(&queue) == NULL);
}

static void
test_removal_from_anywhere(void)
{
    for (int gone = 0; gone < RECORDS; gone++) {
        LawQueue queue;
        Record records[RECORDS];
        fill(&queue, records);
        law_queue_remove(&queue, &records[gone].link);
        law_queue_discard(&queue, &records[gone].link); /* a second time: no effect */
        CHECK_EQUAL(queue.length, RECORDS - 1);
        law_queue_append(&queue, &records[gone].link); /* back again, as the newest */
        for (int i = 0; i < RECORDS; i++) {
            if (i != gone) {
                CHECK_EQUAL(take(&queue), i);
            }
        }
        CHECK_EQUAL(take(&queue), gone);
        CHECK_EQUAL(take(&queue), -1);
    }
}

static void
test_a_walk(void)
{
    LawQueue queue;
    Record records[RECORDS];
    fill(&queue, records);
    int expected = 0;
    for (LawLink *link = law_queue_oldest(&queue); link != NULL; link = law_queue_newer(&queue, link)) {
        CHECK_EQUAL(LAW_RECORD(link, Record, link)->number, expected++);
    }
    CHECK_EQUAL(expected, RECORDS);
}

static void
test_one_entry_per_record(void)
{
    LawQueue queue;
    Record records[RECORDS];
    fill(&queue, records);
    CHECK_BREAKS("LANES-1", law_queue_append(&queue, &records[2].link));
    law_queue_remove(&queue, &records[2].link);
    CHECK_BREAKS("LANES-1", law_queue_remove(&queue, &records[2].link));
}

static void
test_which_ready_task_is_next(void)
{
    CHECK_EQUAL(law_take_ready(1, false, true, true, 4, 7), LAW_TAKE_PINNED);
    CHECK_EQUAL(law_take_ready(1, false, true, true, 7, 4), LAW_TAKE_STEALABLE);
    CHECK_EQUAL(law_take_ready(1, true, true, false, 7, 0), LAW_TAKE_PINNED);
    CHECK_EQUAL(law_take_ready(1, true, false, true, 0, 4), LAW_TAKE_STEALABLE);
    CHECK_EQUAL(law_take_ready(1, true, false, false, 0, 0), LAW_TAKE_INJECTOR);
    CHECK_EQUAL(law_take_ready(61, true, true, true, 1, 2), LAW_TAKE_INJECTOR);
    CHECK_EQUAL(law_take_ready(61, false, true, true, 1, 2), LAW_TAKE_PINNED);
    CHECK_BREAKS("LANES-2", law_take_ready(1, false, false, false, 0, 0));
}

int
main(void)
{
    test_oldest_first();
    test_removal_from_anywhere();
    test_a_walk();
    test_one_entry_per_record();
    test_which_ready_task_is_next();
    return finish();
}
