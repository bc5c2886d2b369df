/* The heap of timers. See timers.h for what it promises. */

#include "law/timers.h"

#include "law/rule.h"

enum {
    CHILDREN = 4,
    CAPACITY_MIN = 16, /* the first block: one page of slots would be wasted on most runs */
};

/* The order of HEAP-1. */
static bool
earlier(const LawTimerSlot *a, const LawTimerSlot *b)
{
    return a->deadline_ns < b->deadline_ns || (a->deadline_ns == b->deadline_ns && a->id < b->id);
}

/* Put `slot` at `place` and tell its entry (HEAP-2). Places are counted from 0 here. */
static void
settle(LawTimers *timers, size_t place, LawTimerSlot slot)
{
    timers->slots[place] = slot;
    slot.entry->place = place + 1;
}

/* Let `slot`, which belongs at `place` or above, rise to where HEAP-1 holds. */
static void
rise(LawTimers *timers, size_t place, LawTimerSlot slot)
{
    while (place > 0) {
        size_t parent = (place - 1) / CHILDREN;
        if (!earlier(&slot, &timers->slots[parent])) {
            break;
        }
        settle(timers, place, timers->slots[parent]);
        place = parent;
    }
    settle(timers, place, slot);
}

/* Let `slot`, which belongs at `place` or below, sink to where HEAP-1 holds. */
static void
sink(LawTimers *timers, size_t place, LawTimerSlot slot)
{
    for (;;) {
        size_t first = place * CHILDREN + 1;
        if (first >= timers->count) {
            break;
        }
        size_t end = timers->count - first < CHILDREN ? timers->count : first + CHILDREN, least = first;
        for (size_t child = first + 1; child < end; child++) {
            if (earlier(&timers->slots[child], &timers->slots[least])) {
                least = child;
            }
        }
        if (!earlier(&timers->slots[least], &slot)) {
            break;
        }
        settle(timers, place, timers->slots[least]);
        place = least;
    }
    settle(timers, place, slot);
}

/* Take the entry at `place` out; the last slot fills the gap. */
static LawTimer *
take(LawTimers *timers, size_t place)
{
    LawTimer *timer = timers->slots[place].entry;
    timer->place = 0;
    timers->count -= 1;
    if (place < timers->count) {
        LawTimerSlot last = timers->slots[timers->count];
        if (place > 0 && earlier(&last, &timers->slots[(place - 1) / CHILDREN])) {
            rise(timers, place, last);
        } else {
            sink(timers, place, last);
        }
    }
    return timer;
}

void
law_timers_init(LawTimers *timers, LawRealloc reallocate, void *context)
{
    *timers = (LawTimers){.reallocate = reallocate, .context = context};
}

void
law_timers_free(LawTimers *timers)
{
    for (size_t i = 0; i < timers->count; i++) {
        timers->slots[i].entry->place = 0;
    }
    if (timers->slots != NULL) {
        timers->reallocate(timers->context, timers->slots, 0);
    }
    timers->slots = NULL;
    timers->count = timers->capacity = 0;
}

bool
law_timers_reserve(LawTimers *timers, size_t count)
{
    if (count <= timers->capacity) {
        return true;
    }
    if (count > SIZE_MAX / sizeof(LawTimerSlot)) {
        return false;
    }
    LawTimerSlot *slots = timers->reallocate(timers->context, timers->slots, count * sizeof(LawTimerSlot));
    if (slots == NULL) {
        return false;
    }
    timers->slots = slots;
    timers->capacity = count;
    return true;
}

bool
law_timers_arm(LawTimers *timers, LawTimer *timer, int64_t deadline_ns, uint64_t id)
{
    LAW_RULE(!law_timer_armed(timer), "HEAP-2");
    if (timers->count == timers->capacity) {
        size_t more = timers->capacity < CAPACITY_MIN ? CAPACITY_MIN : timers->capacity;
        if (!law_timers_reserve(timers, timers->capacity + more)) {
            return false;
        }
    }
    timer->deadline_ns = deadline_ns;
    timer->id = id;
    timers->count += 1;
    rise(timers, timers->count - 1, (LawTimerSlot){deadline_ns, id, timer});
    return true;
}

void
law_timers_disarm(LawTimers *timers, LawTimer *timer)
{
    if (law_timer_armed(timer)) {
        LAW_RULE(timer->place <= timers->count && timers->slots[timer->place - 1].entry == timer, "HEAP-2");
        take(timers, timer->place - 1);
    }
}

LawTimer *
law_timers_pop_due(LawTimers *timers, int64_t now_ns)
{
    return law_timers_due(timers, now_ns) ? take(timers, 0) : NULL;
}
