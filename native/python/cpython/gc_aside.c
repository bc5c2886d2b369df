/* Records that the collector need not look at, because nothing that they are part of can be garbage.
 *
 * The collector looks for rings of objects that only hold each other. While somebody on the stack drives a kernel, and
 * so holds it, a ring through the kernel is no such ring; nor is one through a task that lives or a nursery that is
 * open, for the kernel holds these. So what a living task is made of (its handle, its coroutine, its nurseries and
 * their blocks) is taken out of the collector's lists and put in a ring of the kernel's own. A million of them then cost
 * the collector nothing, where it would go over all of them a dozen times to find that they live: that was more than
 * half of what they cost altogether.
 *
 *   ASIDE-1  a record is aside only while its kernel is held, and refers to nothing but the kernel, tasks and nurseries of
 *       it, and what is made for these alone
 *   ASIDE-2  as soon as one of those could be part of a garbage ring, everything that is aside is shown to the collector: a
 *       task ended with a result that may lead back to it, and somebody holds it (task_end.c); a nursery ended with more
 *       than its members (spawn.c); whoever drove the kernel leaves it (driver.c)
 *
 * To the collector an object aside is one of a generation older than all that it looks at. Showing is one splice,
 * however many there are: a program whose tasks all end so that they must be shown pays what it would pay without this.
 *
 * It relies on the words of gc_head.h, and on a collector that keeps its objects in rings through them: that of CPython
 * 3.11 to 3.13, and of 3.14 from 3.14.5 on. Elsewhere, without a GIL, and in a build without private layouts, everything is
 * tracked from its beginning.
 *
 * Rejected: untracking. An object that is in no list cannot be found again when it must be shown, and CPython unlinks a
 * coroutine without asking whether it is in a list.
 */

#include "python/cpython/gc_aside.h"
#include "python/cpython/compat.h"

#if BURSAR_PRIVATE_LAYOUTS

static inline GcHead *
at(uintptr_t word)
{
    return (GcHead *)(word & ~(uintptr_t)HEAD_FLAGS);
}

/* Make `after` follow `head`. */
static inline void
join(GcHead *head, GcHead *after)
{
    head->next = (uintptr_t)after;
    after->previous = (after->previous & HEAD_FLAGS) | (uintptr_t)head;
}

void
gc_aside_open(GcAside *gc_aside)
{
    join(&gc_aside->ring, &gc_aside->ring);
    gc_aside->open = true;
}

void
gc_aside_keep(GcAside *gc_aside, PyObject *record)
{
    if (!gc_aside->open) {
        PyObject_GC_Track(record);
        return;
    }
    GcHead *head = head_of(record);
#  if BURSAR_TRACKED_IS_COUNTED
    PyObject_GC_Track(record); /* counted once, as it will be when it leaves; the collector's ring it leaves unseen */
    join(at(head->previous), at(head->next));
#  endif
    join(at(gc_aside->ring.previous), head);
    join(head, &gc_aside->ring);
}

void
gc_aside_move(GcAside *gc_aside, PyObject *record)
{
    if (gc_aside->open) {
        PyObject_GC_UnTrack(record);
        gc_aside_keep(gc_aside, record);
    }
}

void
gc_aside_show(GcAside *gc_aside, PyObject *beside)
{
    if (!gc_aside->open || at(gc_aside->ring.next) == &gc_aside->ring) {
        return;
    }
    gc_aside_show_one(beside); /* now it is among the youngest, and so will these be */
    GcHead *head = head_of(beside), *after = at(head->next);
    GcHead *first = at(gc_aside->ring.next), *last = at(gc_aside->ring.previous);
    join(head, first);
    join(last, after);
    join(&gc_aside->ring, &gc_aside->ring);
}

void
gc_aside_close(GcAside *gc_aside, PyObject *beside)
{
    gc_aside_show(gc_aside, beside);
    gc_aside->open = false;
}

/* Keep a list aside, let CPython unlink another from the ring, and show the first. */
bool
gc_aside_try(void)
{
    bool works = false;
    if (!collector_has_rings()) {
        return false;
    }
    GcAside gc_aside = {{0, 0}, false};
    PyObject *one = PyList_New(0), *two = PyList_New(0), *beside = PyList_New(0);
    if (one != NULL && two != NULL && beside != NULL) {
        gc_aside_open(&gc_aside);
        gc_aside_move(&gc_aside, one);
        gc_aside_move(&gc_aside, two);
        works = at(gc_aside.ring.next) == head_of(one) && at(gc_aside.ring.previous) == head_of(two);
        Py_CLEAR(two);
        works = works && at(gc_aside.ring.previous) == head_of(one) && at(head_of(one)->next) == &gc_aside.ring;
        gc_aside_close(&gc_aside, beside);
        works = works && at(head_of(beside)->next) == head_of(one) && at(head_of(one)->previous) == head_of(beside);
    }
    Py_XDECREF(one);
    Py_XDECREF(two);
    Py_XDECREF(beside);
    PyErr_Clear();
    return works;
}

#else

bool
gc_aside_try(void)
{
    return false; /* so no aside is ever open */
}

void
gc_aside_open(GcAside *Py_UNUSED(gc_aside))
{
}

void
gc_aside_keep(GcAside *Py_UNUSED(gc_aside), PyObject *record)
{
    PyObject_GC_Track(record);
}

void
gc_aside_move(GcAside *Py_UNUSED(gc_aside), PyObject *Py_UNUSED(record))
{
}

void
gc_aside_show(GcAside *Py_UNUSED(gc_aside), PyObject *Py_UNUSED(beside))
{
}

void
gc_aside_close(GcAside *Py_UNUSED(gc_aside), PyObject *Py_UNUSED(beside))
{
}

#endif
