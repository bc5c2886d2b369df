/* What handle.c offers to the rest. */

#ifndef BURSAR_PYTHON_HANDLE_H
#define BURSAR_PYTHON_HANDLE_H

#include "core.h"

enum { NAME_MAX_LENGTH = 400 }; /* of a name that is repeated as it is: `TEXT_MAX` of errors.py */

extern PyType_Spec task_handle_spec, nursery_handle_spec;
extern PyType_Spec nursery_block_spec, leaving_spec; /* block.c */
PyObject *nursery_handle_new(Kernel *k, Nursery *nursery); /* a `bursar.Nursery`: new reference */
PyObject *task_handle_new(Kernel *k, Task *task); /* a `bursar.Task`: new reference */

#endif
