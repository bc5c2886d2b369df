/* What there is, what is taken, and what fits (resources.c). After law/admission/resources.py. The gate asks.
 *
 * All functions return 1 for yes, 0 for no, or -1 with an exception set.
 */

#pragma once

#include "python/law/admission/gate_record.h"

int resources_fit(const GateCore *gate, PyObject *taken, PyObject *demand); /* if so much were taken: Resources.fits */
int resources_spoil(const GateCore *gate, PyObject *demand, PyObject *reserved);
int resources_take(GateCore *gate, PyObject *demand, int64_t sign); /* take it (1), or give it back (-1) */
