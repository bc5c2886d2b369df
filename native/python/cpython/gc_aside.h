/* Gc aside (gc_aside.c): records that the collector does not look at while their kernel runs. The files of the records call
 * these functions; driver.c opens and closes a kernel's ring.
 */

#pragma once

#include <stdbool.h>

#include "python/cpython/compat.h"

/* The records of one kernel that are aside. All zero: closed. */
typedef struct GcAside {
    GcHead ring;
    bool open;
} GcAside;

bool gc_aside_try(void);               /* whether it works with the collector of this interpreter */
void gc_aside_open(GcAside *gc_aside); /* once; after that, the struct must not be moved in memory */
/* Put a record aside that the collector does not track. If closed, let the collector track it. */
void gc_aside_keep(GcAside *gc_aside, PyObject *record);
void gc_aside_move(GcAside *gc_aside, PyObject *record); /* put a record aside that the collector tracks */
/* Let the collector track all records that are aside. It tracks `beside`, whose place in a list they take. */
void gc_aside_show(GcAside *gc_aside, PyObject *beside);
void gc_aside_close(GcAside *gc_aside, PyObject *beside); /* the same, and put no record aside from now on */
/* Let the collector track one record, which is aside or already tracked. */
static inline void
gc_aside_show_one(PyObject *record)
{
    PyObject_GC_UnTrack(record);
    PyObject_GC_Track(record);
}
