/* Terms: what tasks that were spawned alike share (spawn_terms.c). Only spawn.c makes terms. */

#pragma once

#include "python/law/records.h"

extern PyType_Spec spawn_terms_spec;

/* New terms; `spawn_cap` may be NULL. New reference, or NULL with MemoryError set. */
SpawnTerms *spawn_terms_new(ModuleState *st, PyObject *pools, PyObject *capabilities, PyObject *spawn_cap);
