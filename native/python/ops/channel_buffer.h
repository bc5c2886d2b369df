/* The values in a channel, oldest first: a ring of owned references.
 *
 * The ring doubles when it is full, and frees its memory when it becomes empty, unless it is small. So a burst costs
 * memory only while it lasts, and a channel that is filled and emptied at every message never allocates.
 *
 * Rejected: collections.deque, whose methods C can call only by name; and a list, which moves all values at each take.
 *
 * Only a thread that holds the GIL may use it. Only `channel_buffer_clear` may run code in Python, after the ring is
 * empty.
 */

#pragma once

#include <Python.h>

enum {
    BUFFER_ROOM_MIN = 8,   /* slots of the first allocation: a cache line */
    BUFFER_ROOM_KEPT = 64, /* slots that an empty ring may keep: 512 bytes, as small as the channel itself */
};

/* All zero is an empty ring. */
typedef struct {
    PyObject **slots;
    size_t room; /* a power of two, or 0 */
    size_t first;
    size_t length;
} ChannelBuffer;

/* The value in place `i`, counted from the oldest one; borrowed. */
static inline PyObject *
channel_buffer_get(const ChannelBuffer *ring, size_t i)
{
    return ring->slots[(ring->first + i) & (ring->room - 1)];
}

/* Make room for one more value. 0, or -1 with MemoryError set and nothing changed. */
static inline int
channel_buffer_reserve(ChannelBuffer *ring)
{
    if (ring->length < ring->room) {
        return 0;
    }
    size_t room = ring->room == 0 ? BUFFER_ROOM_MIN : 2 * ring->room;
    PyObject **slots = room <= (size_t)PY_SSIZE_T_MAX / sizeof(PyObject *) ? PyMem_Malloc(room * sizeof *slots) : NULL;
    if (slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < ring->length; i++) {
        slots[i] = channel_buffer_get(ring, i);
    }
    PyMem_Free(ring->slots);
    *ring = (ChannelBuffer){.slots = slots, .room = room, .length = ring->length};
    return 0;
}

/* Put a value at the end, after `channel_buffer_reserve`. The ring takes a reference of its own. */
static inline void
channel_buffer_append(ChannelBuffer *ring, PyObject *value)
{
    assert(ring->length < ring->room);
    ring->slots[(ring->first + ring->length) & (ring->room - 1)] = Py_NewRef(value);
    ring->length += 1;
}

/* Take the oldest value out of a ring that is not empty: the ring's reference becomes the caller's. */
static inline PyObject *
channel_buffer_take(ChannelBuffer *ring)
{
    assert(ring->length > 0);
    PyObject *value = channel_buffer_get(ring, 0);
    ring->first = (ring->first + 1) & (ring->room - 1);
    ring->length -= 1;
    if (ring->length == 0 && ring->room > BUFFER_ROOM_KEPT) {
        PyMem_Free(ring->slots);
        *ring = (ChannelBuffer){.slots = NULL};
    }
    return value;
}

/* Drop everything. */
static inline void
channel_buffer_clear(ChannelBuffer *ring)
{
    ChannelBuffer old = *ring;
    *ring = (ChannelBuffer){.slots = NULL};
    for (size_t i = 0; i < old.length; i++) {
        Py_DECREF(channel_buffer_get(&old, i));
    }
    PyMem_Free(old.slots);
}

/* For tp_traverse. */
static inline int
channel_buffer_traverse(const ChannelBuffer *ring, visitproc visit, void *arg)
{
    for (size_t i = 0; i < ring->length; i++) {
        Py_VISIT(channel_buffer_get(ring, i));
    }
    return 0;
}
