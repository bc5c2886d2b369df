/* Free lists (freelist.c): records that ended are kept for the next ones. The file of each record takes and gives; module.c
 * opens and shuts the lists.
 */

#pragma once

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "python/cpython/compat.h"

enum { FREE_MAX = 1024 }; /* records of one type kept for the next one: a large family, and some hundred KiB at most */

/* The bytes of what comes in crowds and is small, at least. Python's allocator keeps together what is of one size, and most
 * objects of a program are of 48 or 64 bytes: cells, lists, dicts, small instances. The collector goes over those by their
 * links, as fast as the next one is near, and a crowd of ours between them would put them far apart. */
enum { CROWD_SIZE = 80 };

typedef struct FreeList {
    PyObject *first;
    int n, room;    /* room: FREE_MAX; 0 once the module is taken apart, and with it perhaps the type of the records */
    bool uncounted; /* its records are made without the collector's counting them */
} FreeList;

/* Whether the collector's words of `tracked`, which it tracks, are where freelist.c looks for them. */
bool free_try(PyObject *tracked);
void free_open(FreeList *list, bool uncounted);
void free_shut(FreeList *list); /* what is in it is freed, and it takes in no more */

/* The next one on a list: in the word behind the object's head, which every record has. */
static inline PyObject **
free_next(PyObject *record)
{
    return (PyObject **)(void *)((char *)record + sizeof(PyObject));
}

/* A record, tracked by nobody, its fields as they were; or NULL. */
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

/* The same for a type all of whose records come from its list, new ones included. */
PyObject *free_make_new(const FreeList *list, PyTypeObject *type); /* one that no list has */

/* A record of that very type, tracked by nobody, its fields whatever they were. NULL with MemoryError set. */
static inline PyObject *
free_make_bare(FreeList *list, PyTypeObject *type)
{
    PyObject *record = free_take(list, type);
    return LIKELY(record != NULL) ? record : free_make_new(list, type);
}

/* The same, all zero. The size is asked of the type: if the compiler knew it, it would clear the record by an instruction
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

/* The same where the size is a constant: cleared in steps so small that the compiler writes each of them out. */
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

/* A record that holds nothing any more and is tracked by nobody is kept, or freed, and its type let go. NULL: there is no
 * list any more. */
void free_drop(FreeList *list, PyObject *record);
