/* How a kernel is made and freed (kernel.c). After law/kernel.py. These functions are slots of the type in
 * kernel_py.c. */

#pragma once

#include "python/law/records.h"

extern PyType_Spec kernel_spec;

/* An empty kernel. New reference, or NULL with an exception set: Python has not handed over the law, or no memory. */
PyObject *kernel_make(PyTypeObject *type, PyObject *args, PyObject *kwargs);
/* Fill the kernel, once. 0, or -1 with an exception set. */
int kernel_init(Kernel *k, PyObject *args, PyObject *kwargs);
/* Whether `__init__` has made the parts of the kernel. False with RuntimeError set: only `__new__` was called. */
bool kernel_is_whole(const Kernel *k);
int kernel_traverse(Kernel *k, visitproc visit, void *arg);
int kernel_clear(Kernel *k);
void kernel_dealloc(Kernel *k);
