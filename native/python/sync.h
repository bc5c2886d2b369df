/* Events in C (sync.c): what module.c needs to make the types. */

#ifndef BURSAR_PYTHON_SYNC_H
#define BURSAR_PYTHON_SYNC_H

#include "core.h"

extern PyType_Spec event_spec;      /* st->Event */
extern PyType_Spec event_wait_spec; /* st->EventWait, on top of st->Operation */

#endif
