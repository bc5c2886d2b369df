/* What the collector has in front of an object that it may follow: two words, which are private to CPython. Their place
 * is tried out when the module is loaded (freelist.c), and nobody else knows of them.
 */

#pragma once

#include <Python.h>

#include <stdint.h>

#include "python/cpython/compat.h"

/* The neighbours in the list that the object is in. Both are zero while it is in none, flags apart. */
typedef struct GcHead {
    uintptr_t next;
    uintptr_t previous; /* and in its low bits two flags */
} GcHead;

enum { HEAD_FLAGS = 3 };

#if BURSAR_PRIVATE_LAYOUTS
static inline GcHead *
head_of(PyObject *record)
{
    return (GcHead *)(void *)record - 1;
}
#endif
