/* The injector: pushing and taking. The contract is in inject.h. */
#include "engine/inject.h"

void
inject_init(Injector *injector, int64_t limit)
{
    init_ptr(&injector->stub.next, NULL);
    init_ptr(&injector->head, &injector->stub);
    init_i64(&injector->count, 0);
    init_u32(&injector->taking, 0);
    injector->tail = &injector->stub;
    injector->limit = limit;
}

/* Put a link at the head. */
static void
link_in(Injector *injector, InjectLink *link)
{
    store_ptr(&link->next, NULL, RELAXED);
    /* RELEASE: this producer's NULL comes before the pointer that the next producer stores over it. ACQUIRE: the same,
     * from the view of the next producer. */
    InjectLink *before = swap_ptr(&injector->head, link, ACQ_REL);
    store_ptr(&before->next, link, RELEASE); /* publishes the task */
}

bool
inject_push(Injector *injector, InjectLink *link)
{
    /* Raised first (INJECT-3). RELAXED: it counts and publishes nothing. */
    if (add_i64(&injector->count, 1, RELAXED) >= injector->limit) {
        add_i64(&injector->count, -1, RELAXED);
        return false;
    }
    link_in(injector, link);
    return true;
}

/* Remove and return the oldest link. Returns NULL if there is none, or if its push or the next one is not complete.
 * Only for the thread that holds `taking`. A link is removed only when its successor is known: no thread writes to it
 * after that. */
static InjectLink *
unlink_oldest(Injector *injector)
{
    InjectLink *oldest = injector->tail;
    InjectLink *next = load_ptr(&oldest->next, ACQUIRE); /* receives the task that it points at */
    if (oldest == &injector->stub) {
        if (next == NULL) {
            return NULL;
        }
        injector->tail = oldest = next;
        next = load_ptr(&oldest->next, ACQUIRE);
    }
    if (next == NULL) {
        if (load_ptr(&injector->head, RELAXED) != oldest) {
            return NULL; /* a producer is between its two stores (INJECT-5) */
        }
        link_in(injector, &injector->stub); /* gives the last link a successor */
        next = load_ptr(&oldest->next, ACQUIRE);
        if (next == NULL) {
            return NULL; /* another producer came first and its push is not complete */
        }
    }
    injector->tail = next;
    return oldest;
}

size_t
inject_take(Injector *injector, InjectLink **links, size_t links_max)
{
    /* Read before writing: idle workers that only look must not compete for the cache line. */
    if (inject_length(injector) == 0 || load_u32(&injector->taking, RELAXED) != 0 ||
        swap_u32(&injector->taking, 1, ACQUIRE) != 0) { /* receives `tail` from the last taker */
        return 0;
    }
    size_t taken = 0;
    links_max = links_max < INJECT_BATCH_MAX ? links_max : INJECT_BATCH_MAX;
    while (taken < links_max) {
        InjectLink *link = unlink_oldest(injector);
        if (link == NULL) {
            break;
        }
        links[taken++] = link;
    }
    store_u32(&injector->taking, 0, RELEASE);
    if (taken != 0) {
        add_i64(&injector->count, -(int64_t)taken, RELAXED); /* lowered last (INJECT-3) */
    }
    return taken;
}
