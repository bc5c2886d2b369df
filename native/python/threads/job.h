/* What job.c offers to module.c. */

#pragma once

#include "python/law/records.h"

extern PyType_Spec thread_job_spec, on_thread_spec;
