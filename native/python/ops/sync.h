/* Events (sync.c). After ops/sync.py. Only module.c needs the types. */

#pragma once

#include "python/law/records.h"

extern PyType_Spec event_spec;      /* st->Event */
extern PyType_Spec event_wait_spec; /* st->EventWait, on top of st->Operation */
