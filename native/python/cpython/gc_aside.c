/* Records that the collector does not look at, because they cannot be garbage while their kernel runs.
 *
 * The collector looks for cycles of objects that only hold each other. While a driver is on the stack, it holds its kernel,
 * and the kernel holds every live task and open nursery. So no cycle through these objects is garbage. The records of a live
 * task (its handle, its coroutine, its nurseries and their blocks) are taken out of the collector's lists, and put into a ring
 * of the kernel. A million tasks then cost the collector nothing. Before, it traversed all of them a dozen times, only to find
 * them alive: more than half of their whole cost.
 *
 *   ASIDE-1  a record is aside only while its kernel is held. It refers only to its kernel, to the kernel's tasks and
 *       nurseries, and to objects that only these use
 *   ASIDE-2  as soon as one of them could be part of a garbage cycle, all records are shown to the collector: a task ended
 *       with a result that may refer to it, and a handle is left (task_end.c); a nursery ended and holds more than its members
 *       (spawn.c); the driver leaves the kernel (driver.c)
 *
 * The collector treats an object that is aside like one of an older generation. To show all records is one splice of two
 * rings, however many records there are. So a program whose tasks all must be shown costs no more than without this file.
 *
 * It relies on the words of a `GcHead` (compat.h), and on a collector that keeps its objects in rings through them: that of CPython
 * 3.11 to 3.13, and of 3.14 from 3.14.5 on. Elsewhere, without a GIL, and in a build without private layouts, everything is
 * tracked from its beginning.
 *
 * Rejected: to untrack the records. An object in no list cannot be found again when it must be shown, and CPython unlinks a
 * coroutine without checking whether it is in a list.
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
    PyObject_GC_Track(record); /* so that it is counted; then unlink it from the collector's ring without a count */
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
    gc_aside_show_one(beside); /* now `beside` is in the youngest generation, and the records will be too */
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

/* Put two lists aside, let CPython unlink one from the ring by freeing it, and show the other. */
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
    return false; /* so no ring is ever opened */
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
