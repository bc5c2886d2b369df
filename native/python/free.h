/* Where records come from and go to: what free.c offers to the types. */

#ifndef BURSAR_PYTHON_FREE_H
#define BURSAR_PYTHON_FREE_H

#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "compat.h"

enum { FREE_MAX = 1024 }; /* records of one type kept for the next one: a large family, and some hundred KiB at most */

typedef struct FreeList {
    PyObject *first;
    int n, room;    /* room: FREE_MAX; 0 once the module is taken apart, and with it perhaps the type of the records */
    bool uncounted; /* its records are made without the collector's counting them */
} FreeList;

/* Whether the collector's words of `tracked`, which it tracks, are where free.c looks for them. */
bool free_try(PyObject *tracked);
void free_open(FreeList *list, bool uncounted);
void free_shut(FreeList *list); /* what is in it is freed, and it takes in no more */

PyObject *free_take(FreeList *list, PyTypeObject *type); /* a record, tracked by nobody, its fields as they were; or NULL */
bool free_give(FreeList *list, PyObject *record);        /* false: the list is full */

/* The same for a type all of whose records come from its list, new ones included. */
/* A record of `size` bytes, all zero, tracked by nobody. NULL with MemoryError set. */
PyObject *free_make(FreeList *list, PyTypeObject *type, size_t size);
/* A record that holds nothing any more and is tracked by nobody is kept, or freed, and its type let go. NULL: there is no
 * list any more. */
void free_drop(FreeList *list, PyObject *record);

#endif
