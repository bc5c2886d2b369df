/* The type `Kernel` (kernel.c): its life, and its methods and attributes as Python sees them. Only module.c needs it. */

#pragma once

#include "python/law/records.h"

extern PyType_Spec kernel_spec;
