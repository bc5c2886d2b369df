/* The newest records of a run, in memory (ring.c). After trace/ring.py. Only module.c needs the type. */

#pragma once

#include "python/trace/writer.h"

extern PyType_Spec trace_ring_spec; /* st->Shelf, derived from st->Pen */
