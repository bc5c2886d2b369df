/* The record of one task as Python sees it (task_py.c): the type `Task`. Only module.c needs it. */

#pragma once

#include "python/law/records.h"

extern PyType_Spec task_spec;
