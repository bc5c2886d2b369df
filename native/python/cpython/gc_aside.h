/* Records that the collector need not look at: what gc_aside.c offers to the types. */

#pragma once

#include <stdbool.h>

#include "python/cpython/gc_head.h"

/* The records of one kernel that are kept aside. All zero is closed. */
typedef struct Aside {
    GcHead ring;
    bool open;
} Aside;

bool aside_try(void);          /* whether this can be done with the collector of this interpreter */
void aside_open(Aside *aside); /* once; it must not be moved from then on */
/* A record that the collector does not track is kept aside, or tracked if that is closed. */
void aside_keep(Aside *aside, PyObject *record);
void aside_move(Aside *aside, PyObject *record); /* the same for one that is tracked */
/* All that is there is given to the collector, beside an object that it tracks. */
void aside_show(Aside *aside, PyObject *beside);
void aside_close(Aside *aside, PyObject *beside); /* and nothing is kept any more */
/* Give one record to the collector that is kept aside, or perhaps tracked already. */
static inline void
aside_show_one(PyObject *record)
{
    PyObject_GC_UnTrack(record);
    PyObject_GC_Track(record);
}
