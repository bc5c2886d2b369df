/* Plain functions on threads (job.c): the request of a task, and the job in the thread. After threads/job.py.
 *
 * Only module.c needs the types.
 */

#pragma once

#include "python/law/records.h"

extern PyType_Spec thread_job_spec, on_thread_spec;
