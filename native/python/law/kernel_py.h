/* The kernel as Python sees it (kernel_py.c): the type `Kernel`. Only module.c needs it. */

#pragma once

#include "python/law/records.h"

extern PyType_Spec kernel_spec;
