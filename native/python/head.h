/* What the collector has in front of an object that it may follow: two words, which are private to CPython. Their place
 * is tried out when the module is loaded (free.c), and nobody else knows of them.
 */

#ifndef BURSAR_PYTHON_HEAD_H
#define BURSAR_PYTHON_HEAD_H

#include <Python.h>

#include <stdint.h>

/* The neighbours in the list that the object is in. Both are zero while it is in none, flags apart. */
typedef struct GcHead {
    uintptr_t next;
    uintptr_t previous; /* and in its low bits two flags */
} GcHead;

enum { HEAD_FLAGS = 3 };

static inline GcHead *
head_of(PyObject *record)
{
    return (GcHead *)(void *)record - 1;
}

#endif
