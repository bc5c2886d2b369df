/* The resources of a gate: what is taken, and whether a demand fits (resources.c). After law/admission/resources.py. */

#pragma once

#include "python/law/admission/gate_record.h"

/* Whether the demand fits if `taken` is taken (`Resources.fits`). 1, 0, or -1 with an exception set. */
int resources_fit(const GateCore *gate, PyObject *taken, PyObject *demand);
/* Whether taking `demand` now would prevent or delay that `reserved` fits. 1, 0, or -1 with an exception set. */
int resources_break_reservation(const GateCore *gate, PyObject *demand, PyObject *reserved);
/* Take a demand (`sign` 1), or give it back (-1). 0, or -1 with an exception set. */
int resources_take(GateCore *gate, PyObject *demand, int64_t sign);
