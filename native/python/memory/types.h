/* The types of the memory meter as Python sees them: `MemoryAccountSet` and `MemoryAccount` (types.c). */

#pragma once

#include "python/memory/meter.h"

/* What `MemoryAccount.enter` and `.leave` do, for a driver in C: 0, or -1 with an exception set. `account` is one. */
int meter_face_enter(PyObject *account, int64_t left_bytes);
int meter_face_leave(PyObject *account);
MeterAccount *meter_face_account(PyObject *account); /* borrowed */
bool meter_face_quiet(PyObject *account);            /* nobody else has freed anything of any account of its book */

/* For module.c: adds MemoryAccountSet, MemoryAccount and the functions below (types.c). 0, or -1 with an error set. */
int meter_exec(PyObject *module);
extern PyMethodDef meter_methods[];
