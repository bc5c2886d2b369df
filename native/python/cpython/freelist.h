/* Free lists (freelist.c): freed records are kept for the next records of their type. The files of the records take from the
 * lists and give to them; module.c opens and shuts them.
 */

#pragma once

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "python/cpython/compat.h"

enum { FREE_MAX = 1024 }; /* records of one type: enough for a large nursery, and a few hundred KiB at most */

/* The least size in bytes of small records that are numerous. Python's allocator groups objects by size, and most objects of
 * a program have 48 or 64 bytes: cells, lists, dicts, small instances. The collector follows links between these objects, and
 * is fast if they are close together. Many records of the same size between them would slow it down. */
enum { NUMEROUS_SIZE_MIN = 80 };

typedef struct FreeList {
    PyObject *first;
    int n, room;    /* room: FREE_MAX; 0 after the module was cleared, because the records' type may be gone */
    bool uncounted; /* the collector does not count its records as new objects */
} FreeList;

/* Whether the collector's words of an object are where `head_of` expects them. The collector tracks `tracked`. */
bool free_try(PyObject *tracked);
void free_open(FreeList *list, bool uncounted);
void free_shut(FreeList *list); /* free the records in it; from now on it accepts none */

/* The link to the next record of a list: the first word after the object's head. */
static inline PyObject **
free_next(PyObject *record)
{
    return (PyObject **)(void *)((char *)record + sizeof(PyObject));
}

/* A record that the collector does not track, its fields as they were left; NULL: the list is empty. */
static inline PyObject *
free_take(FreeList *list, PyTypeObject *type)
{
#if BURSAR_FREE_LISTS
    PyObject *record = list->first;
    if (record != NULL) {
        list->first = *free_next(record);
        list->n -= 1;
        Py_INCREF(type);
        _Py_NewReference(record); /* a count of one, as for a new object */
    }
    return record;
#else
    (void)list;
    (void)type;
    return NULL;
#endif
}

bool free_give(FreeList *list, PyObject *record); /* false: the list is full */

/* A new record, for a type whose records are all freed with `free_drop`. NULL with MemoryError set. */
PyObject *free_make_new(const FreeList *list, PyTypeObject *type);

/* A record from the list, or a new one. The collector does not track it; its fields are undefined. NULL with MemoryError
 * set. */
static inline PyObject *
free_make_bare(FreeList *list, PyTypeObject *type)
{
    PyObject *record = free_take(list, type);
    return LIKELY(record != NULL) ? record : free_make_new(list, type);
}

/* The same, with all fields zero. The size is read from the type: for a constant size the compiler would use an instruction
 * that is slow to start. */
static inline PyObject *
free_make(FreeList *list, PyTypeObject *type)
{
    PyObject *record = free_make_bare(list, type);
    if (record != NULL) {
        memset((char *)record + sizeof(PyObject), 0, (size_t)type->tp_basicsize - sizeof(PyObject));
    }
    return record;
}

/* The same for a constant size, cleared in steps that are small enough for plain stores. */
static inline PyObject *
free_make_sized(FreeList *list, PyTypeObject *type, size_t size)
{
    enum { STEP = 64, FIRST = sizeof(PyObject), SECOND = FIRST + STEP, THIRD = SECOND + STEP };
    char *record = (char *)free_make_bare(list, type);
    if (record != NULL) {
        memset(record + FIRST, 0, size < SECOND ? size - FIRST : STEP);
        memset(record + SECOND, 0, size < SECOND ? 0 : size < THIRD ? size - SECOND : STEP);
        memset(record + THIRD, 0, size < THIRD ? 0 : size - THIRD);
    }
    return (PyObject *)(void *)record;
}

/* Keep a record in the list, or free it, and release its type. The record holds no references, and the collector does not
 * track it. `list` NULL: the module was cleared. */
void free_drop(FreeList *list, PyObject *record);
