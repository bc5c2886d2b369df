/* Allocates and frees records, and keeps freed records for reuse.
 *
 * Programs make and free tasks, handles and nurseries all the time. A bounded number of freed records of each type is kept
 * for reuse, in a list that is linked through the records. The lists are in the module's state, so each interpreter has its
 * own. A free-threaded build has none.
 *
 * A new record comes from Python's object allocator, like the memory of PyObject_GC_New, but the collector does not count it.
 * The collector runs when enough objects were counted, to find garbage cycles. Live records cannot be part of one (RECORD-4 in
 * records.h), so counting many new tasks would only make the collector run often and find nothing. This uses one layout that is
 * private to CPython: the place of the collector's two words. `free_try` tests it when the module is loaded. If the test
 * fails, PyObject_GC_New makes the records.
 *
 * Rejected: slabs of many records. With a memory meter, a whole slab would be charged to the task that happens to need it, and
 * a slab could not be freed while one of its records lives.
 */

#include "python/cpython/freelist.h"

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
    PyObject_GC_Del(
        record); /* also for an uncounted record without its list: the memory comes from the same allocator */
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
