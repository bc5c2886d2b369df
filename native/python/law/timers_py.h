/* The timers as Python sees them (timers_py.c): the type `Timers`, with the attributes of its namesake in law/timers.py. */

#pragma once

#include "python/law/records.h"

extern PyType_Spec timers_spec;
