/* Where records come from and go to.
 *
 * Tasks, their handles, nurseries and what belongs to them come and go all the time. Dead ones are kept for the next, a
 * bounded number of each type, linked through themselves; the lists are in the state of the module, so that each
 * interpreter has its own. A free-threaded build has none.
 *
 * What is not on a list comes from the allocator of Python's objects, as PyObject_GC_New would take it, but without
 * telling the collector, which runs whenever enough was made since the last time. It runs to find rings, and while
 * our records live it need not look at them (RECORD-4 in records.h): a crowd of tasks would have it go over all that is
 * young again and again, and over everything now and then, for nothing. Only the place of the collector's two words is
 * relied on, which is private to CPython: it is tried out when the module is loaded, and where they are not found the
 * memory is PyObject_GC_New's.
 *
 * Rejected: slabs of many records. A block that large is billed to the task that happens to need it, where memory is
 * metered, and is not given back while one record in it lives.
 */

#include "python/cpython/freelist.h"
#include "python/cpython/gc_head.h"

bool
free_try(PyObject *tracked)
{
#if BURSAR_FREE_LISTS
    GcHead *head = head_of(tracked), before = *head;
    PyObject_GC_UnTrack(tracked);
    bool found = before.next != 0 && before.previous != 0 && head->next == 0 && head->previous == 0;
    PyObject_GC_Track(tracked);
    return found && head->next != 0 && head->previous != 0;
#else
    (void)tracked;
    return false;
#endif
}

void
free_open(FreeList *list, bool uncounted)
{
    *list = (FreeList){.room = BURSAR_FREE_LISTS ? FREE_MAX : 0, .uncounted = uncounted};
}

bool
free_give(FreeList *list, PyObject *record)
{
    if (list->n >= list->room) {
        return false;
    }
    *free_next(record) = list->first;
    list->first = record;
    list->n += 1;
    return true;
}

PyObject *
free_make_new(const FreeList *list, PyTypeObject *type)
{
#if BURSAR_FREE_LISTS
    if (!list->uncounted) {
        return PyObject_GC_New(PyObject, type);
    }
    GcHead *head = PyObject_Malloc(sizeof(GcHead) + (size_t)type->tp_basicsize);
    if (head == NULL) {
        return PyErr_NoMemory();
    }
    *head = (GcHead){0, 0};
    return PyObject_Init((PyObject *)(void *)(head + 1), type);
#else
    (void)list;
    return PyObject_GC_New(PyObject, type);
#endif
}

static void
give_back(const FreeList *list, PyObject *record)
{
#if BURSAR_FREE_LISTS
    if (list != NULL && list->uncounted) {
        PyObject_Free(head_of(record));
        return;
    }
#else
    (void)list;
#endif
    PyObject_GC_Del(record); /* also if it is not known where it came from: the memory is the same */
}

void
free_drop(FreeList *list, PyObject *record)
{
    PyTypeObject *type = Py_TYPE(record);
    if (list == NULL || !free_give(list, record)) {
        give_back(list, record);
    }
    Py_DECREF(type);
}

void
free_shut(FreeList *list)
{
    list->room = 0;
    while (list->first != NULL) {
        PyObject *record = list->first;
        list->first = *free_next(record);
        give_back(list, record);
    }
    list->n = 0;
}
