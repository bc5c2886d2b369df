/* The Python types of the memory meter (types.c): `MemoryAccountSet` and `MemoryAccount`. */

#pragma once

#include "python/memory/meter.h"

/* `MemoryAccount.enter` and `.leave`, for the driver in C: 0, or -1 with an exception set. `account` is a MemoryAccount. */
int meter_face_enter(PyObject *account, int64_t left_bytes);
int meter_face_leave(PyObject *account);
MeterAccount *meter_face_account(PyObject *account); /* borrowed */
bool meter_face_quiet(PyObject *account);            /* no account of its set has changed (`meter_quiet`) */

/* For module.c: add the types and the functions below to the module. 0, or -1 with an exception set. */
int meter_exec(PyObject *module);
extern PyMethodDef meter_methods[];
