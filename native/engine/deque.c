/* The work-stealing deque: growth and theft. The owner's hot path and the invariants are in deque.h. */
#include "engine/deque.h"

#include "law/rule.h"

/* The bytes of a buffer. */
static size_t
buffer_bytes(int64_t capacity)
{
    return sizeof(DequeBuffer) + (size_t)capacity * sizeof(atomic_ptr);
}

/* Make a buffer with empty slots. Returns NULL if there is no memory or `capacity` exceeds DEQUE_CAPACITY_MAX. */
static DequeBuffer *
buffer_make(const EngineAllocator *memory, int64_t capacity, DequeBuffer *older)
{
    if (capacity > DEQUE_CAPACITY_MAX) {
        return NULL;
    }
    DequeBuffer *buffer = memory->allocate(memory->context, buffer_bytes(capacity));
    if (buffer == NULL) {
        return NULL;
    }
    buffer->older = older;
    buffer->mask = capacity - 1;
    for (int64_t i = 0; i < capacity; i++) {
        init_ptr(&buffer->slots[i], NULL);
    }
    return buffer;
}

bool
deque_init(Deque *deque, size_t capacity, const EngineAllocator *memory)
{
    if (capacity == 0 || capacity > (size_t)DEQUE_CAPACITY_MAX) {
        return false;
    }
    int64_t rounded = 1;
    while (rounded < (int64_t)capacity) {
        rounded *= 2;
    }
    DequeBuffer *buffer = buffer_make(memory, rounded, NULL);
    if (buffer == NULL) {
        return false;
    }
    init_i64(&deque->top, 0);
    init_i64(&deque->bottom, 0);
    init_ptr(&deque->buffer, buffer);
    deque->top_seen = 0;
    deque->memory = memory;
    deque->single_threaded = false;
    return true;
}

void
deque_destroy(Deque *deque)
{
    DequeBuffer *buffer = load_ptr(&deque->buffer, RELAXED);
    while (buffer != NULL) {
        DequeBuffer *older = buffer->older;
        deque->memory->release(deque->memory->context, buffer, buffer_bytes(buffer->mask + 1));
        buffer = older;
    }
    init_ptr(&deque->buffer, NULL);
}

/* Copy the items to a new buffer of at least `capacity` slots and publish it. Returns false, with nothing changed, if
 * there is no memory. A thief that reads an old buffer is safe (DEQUE-6). A thief that sees, in bottom, a push after
 * the growth also sees the new buffer, because the owner stored the buffer first. */
static bool
grow(Deque *deque, int64_t top, int64_t bottom, int64_t capacity)
{
    DequeBuffer *old = load_ptr(&deque->buffer, RELAXED);
    int64_t doubled = old->mask + 1;
    while (doubled < capacity) {
        doubled *= 2;
    }
    DequeBuffer *buffer = buffer_make(deque->memory, doubled, old);
    if (buffer == NULL) {
        return false;
    }
    for (int64_t i = top; i < bottom; i++) {
        store_ptr(deque_slot(buffer, i), load_ptr(deque_slot(old, i), RELAXED), RELAXED);
    }
    store_ptr(&deque->buffer, buffer, RELEASE); /* publishes the slots, the mask and the link */
    return true;
}

size_t
deque_reserve(Deque *deque, size_t count)
{
    int64_t bottom = load_i64(&deque->bottom, RELAXED);
    /* ACQUIRE: the owner may write a slot below top again only after the thief that moved top has read it. The thief
     * reads the slot, then moves top with RELEASE; the owner sees that move, then writes. */
    int64_t top = load_i64(&deque->top, ACQUIRE);
    deque->top_seen = top;
    DequeBuffer *buffer = load_ptr(&deque->buffer, RELAXED);
    size_t room = (size_t)(buffer->mask + 1 - (bottom - top));
    if (room >= count) {
        return count;
    }
    if (count > (size_t)DEQUE_CAPACITY_MAX || !grow(deque, top, bottom, bottom - top + (int64_t)count)) {
        return room;
    }
    return count;
}

/* Take index `top`, if it is still there. `*length` becomes the number of items that the thief saw. Since the caller
 * read top, or moved it there, it has fenced (DEQUE-3). */
static StealResult
steal_at(Deque *victim, int64_t top, void **item, int64_t *length)
{
    int64_t bottom = load_i64(&victim->bottom, ACQUIRE); /* receives what the pushes up to bottom published */
    *length = bottom - top;
    if (*length <= 0) {
        return STEAL_EMPTY;
    }
    DequeBuffer *buffer =
        load_ptr(&victim->buffer, ACQUIRE); /* receives the mask and the copied slots of a new buffer */
    /* If top has moved on, this may be a later item in the same slot; then the compare-and-swap below fails. */
    void *oldest = load_ptr(deque_slot(buffer, top), RELAXED);
    /* RELEASE: the load above stays before it, see deque_reserve. ACQUIRE: as the load of top in deque_steal, for the
     * next item of a batch. */
    if (!cas_i64(&victim->top, &top, top + 1, ACQ_REL)) {
        return STEAL_LOST;
    }
    *item = oldest;
    return STEAL_DONE;
}

StealResult
deque_steal(Deque *victim, void **item)
{
    int64_t length;
    /* ACQUIRE: the thief that moved top here did so after its own fence; this thief must see at least what that thief
     * saw (DEQUE-3). */
    int64_t top = load_i64(&victim->top, ACQUIRE);
    fence_seq_cst(); /* the thief's fence of DEQUE-3 */
    return steal_at(victim, top, item, &length);
}

StealResult
deque_steal_batch(Deque *victim, void **items, size_t items_max, size_t *count)
{
    *count = 0;
    if (items_max == 0) {
        return STEAL_EMPTY;
    }
    int64_t length;
    int64_t top = load_i64(&victim->top, ACQUIRE);
    fence_seq_cst(); /* DEQUE-3, for the first item */
    StealResult result = steal_at(victim, top, &items[0], &length);
    if (result != STEAL_DONE) {
        return result;
    }
    size_t wanted = (size_t)(length + 1) / 2;
    wanted = wanted < items_max ? wanted : items_max;
    wanted = wanted < DEQUE_BATCH_MAX ? wanted : DEQUE_BATCH_MAX;
    size_t taken = 1;
    /* One compare-and-swap per item: the owner may take, without a compare-and-swap, items that a thief has only
     * counted. The batch ends at the first item that another thread takes as well. */
    while (taken < wanted) {
        fence_after_change(); /* DEQUE-3, for the next item: this thread itself moved top */
        if (steal_at(victim, top + (int64_t)taken, &items[taken], &length) != STEAL_DONE) {
            break;
        }
        taken++;
    }
    *count = taken;
    return STEAL_DONE;
}

StealResult
deque_steal_into(Deque *victim, Deque *thief, void **item, size_t *count)
{
    void *items[DEQUE_BATCH_MAX];
    size_t room = deque_reserve(thief, DEQUE_BATCH_MAX - 1); /* first, so that every stolen item has a place */
    StealResult result = deque_steal_batch(victim, items, room + 1, count);
    if (result == STEAL_DONE) {
        *item = items[0];
        for (size_t i = 1; i < *count; i++) {
            bool kept = deque_push(thief, items[i]);
            LAW_RULE(kept, "DEQUE-7");
        }
    }
    return result;
}
