/* The lanes of one worker: their queues, and which ready task is next. Mirrors src/bursar/law/lanes.py.
 *
 *     cancel   tasks that are asked to stop, and those that clean up          oldest first
 *     timed    tasks whose timer has fired                                    (deadline, task id): law/heap.h
 *     ready    pinned tasks and stealable tasks, together                     oldest first
 *     injector tasks that belong to no worker yet                             oldest first
 *
 * LANES-1  a task has an entry in exactly one lane while READY, and none otherwise
 * LANES-2  of a worker's own ready tasks the one that has waited longest is next, pinned or not
 * LANES-3  a worker takes the task at the head of the injector within INJECTOR_INTERVAL ready turns
 *
 * A queue is a ring through its own sentinel, and the links are inside the records. To append, to take the oldest and
 * to remove from the middle are a few stores each and allocate nothing. A queue is also the list of the waiters for one
 * thing (`WaitList` in wake.py). An initialized queue must not be moved: its records point at it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "law/generated/enums.h"
#include "law/generated/limits.h"
#include "law/rule.h"

/* The place of one record in one queue. All zero while it is in no queue. */
typedef struct LawLink {
    struct LawLink *newer;
    struct LawLink *older;
} LawLink;

/* A queue of links, oldest first. */
typedef struct {
    LawLink ring; /* ring.newer is the oldest record, ring.older the newest one */
    size_t length;
} LawQueue;

/* The record of type `type` whose member `member` is `link`. */
#define LAW_RECORD(link, type, member) ((type *)(void *)((char *)(link) - offsetof(type, member)))

/* Make a queue empty. For a link, all zero is enough. */
static inline void
law_queue_init(LawQueue *queue)
{
    queue->ring.newer = queue->ring.older = &queue->ring;
    queue->length = 0;
}

static inline bool
law_queue_empty(const LawQueue *queue)
{
    return queue->length == 0;
}

/* Whether a link is in a queue. */
static inline bool
law_linked(const LawLink *link)
{
    return link->newer != NULL;
}

/* Put a record at the end (LANES-1). */
static inline void
law_queue_append(LawQueue *queue, LawLink *link)
{
    LAW_RULE(!law_linked(link), "LANES-1");
    link->older = queue->ring.older;
    link->newer = &queue->ring;
    queue->ring.older->newer = link;
    queue->ring.older = link;
    queue->length += 1;
}

/* Take a record out of the queue that it is in, from anywhere. */
static inline void
law_queue_remove(LawQueue *queue, LawLink *link)
{
    LAW_RULE(law_linked(link), "LANES-1");
    link->older->newer = link->newer;
    link->newer->older = link->older;
    link->newer = link->older = NULL;
    queue->length -= 1;
}

/* Take a record out of the queue, if it is still in it. */
static inline void
law_queue_discard(LawQueue *queue, LawLink *link)
{
    if (law_linked(link)) {
        law_queue_remove(queue, link);
    }
}

/* The record that has been in the queue longest, left in it; NULL if the queue is empty. */
static inline LawLink *
law_queue_oldest(const LawQueue *queue)
{
    return queue->length == 0 ? NULL : queue->ring.newer;
}

/* The record that came after `link`; NULL after the newest. To walk a queue that does not change meanwhile. */
static inline LawLink *
law_queue_newer(const LawQueue *queue, const LawLink *link)
{
    return link->newer == &queue->ring ? NULL : link->newer;
}

/* Take the record that has been in the queue longest; NULL if the queue is empty. */
static inline LawLink *
law_queue_take_oldest(LawQueue *queue)
{
    LawLink *link = law_queue_oldest(queue);
    if (link != NULL) {
        law_queue_remove(queue, link);
    }
    return link;
}

/* Where a worker takes its next ready task from. */
typedef enum {
    LAW_TAKE_INJECTOR,
    LAW_TAKE_PINNED,
    LAW_TAKE_STEALABLE,
} LawTake;

/* Which queue the next ready task of a worker comes from (LANES-2, LANES-3). `ready_turns` includes this turn. The
 * three flags say which queues hold a task; at least one does. A stamp belongs to the oldest task of its queue, and is
 * read only if both of the worker's own queues hold a task. */
static inline LawTake
law_take_ready(uint64_t ready_turns, bool injector, bool pinned, bool stealable, uint64_t pinned_stamp,
               uint64_t stealable_stamp)
{
    bool own = pinned || stealable;
    LAW_RULE(own || injector, "LANES-2");
    if (injector && (!own || ready_turns % LAW_INJECTOR_INTERVAL == 0)) {
        return LAW_TAKE_INJECTOR;
    }
    if (!pinned) {
        return LAW_TAKE_STEALABLE;
    }
    if (!stealable) {
        return LAW_TAKE_PINNED;
    }
    return pinned_stamp < stealable_stamp ? LAW_TAKE_PINNED : LAW_TAKE_STEALABLE;
}
