/* The type `TraceRing` (ring.c): the newest records of a run, in memory. Only module.c needs the type. */

#pragma once

#include "python/trace/writer.h"

extern PyType_Spec trace_ring_spec; /* derived from st->TraceWriter */
