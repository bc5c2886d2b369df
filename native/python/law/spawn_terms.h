/* Terms: what tasks of equal spawns share (spawn_terms.c). */

#pragma once

#include "python/law/records.h"

extern PyType_Spec spawn_terms_spec;

/* New terms. Borrows its arguments; `spawn_cap` may be NULL. New reference, or NULL with MemoryError set. */
SpawnTerms *spawn_terms_new(ModuleState *st, PyObject *pools, PyObject *capabilities, PyObject *spawn_cap);
