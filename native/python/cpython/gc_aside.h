/* Records kept aside from the collector (gc_aside.c): it need not look at them while their kernel runs. The files of the
 * records call this; driver.c opens and closes a kernel's list.
 */

#pragma once

#include <stdbool.h>

#include "python/cpython/gc_head.h"

/* The records of one kernel that are kept aside. All zero is closed. */
typedef struct GcAside {
    GcHead ring;
    bool open;
} GcAside;

bool gc_aside_try(void);               /* whether this can be done with the collector of this interpreter */
void gc_aside_open(GcAside *gc_aside); /* once; it must not be moved from then on */
/* A record that the collector does not track is kept aside, or tracked if that is closed. */
void gc_aside_keep(GcAside *gc_aside, PyObject *record);
void gc_aside_move(GcAside *gc_aside, PyObject *record); /* the same for one that is tracked */
/* All that is there is given to the collector, beside an object that it tracks. */
void gc_aside_show(GcAside *gc_aside, PyObject *beside);
void gc_aside_close(GcAside *gc_aside, PyObject *beside); /* and nothing is kept any more */
/* Give one record to the collector that is kept aside, or perhaps tracked already. */
static inline void
gc_aside_show_one(PyObject *record)
{
    PyObject_GC_UnTrack(record);
    PyObject_GC_Track(record);
}
