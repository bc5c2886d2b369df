/* What job.c offers to module.c. */

#ifndef BURSAR_PYTHON_JOB_H
#define BURSAR_PYTHON_JOB_H

#include "core.h"

extern PyType_Spec job_spec, on_thread_spec;

#endif
