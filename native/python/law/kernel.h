/* The kernel: its making and its end (kernel.c). After law/kernel.py. These are slots of the type, for kernel_py.c. */

#pragma once

#include "python/law/records.h"

/* An empty kernel. New reference, or NULL with an exception set: the seam is not filled yet, or there is no memory. */
PyObject *kernel_make(PyTypeObject *type, PyObject *args, PyObject *kwargs);
/* Fill it, once. 0, or -1 with an exception set. */
int kernel_init(Kernel *k, PyObject *args, PyObject *kwargs);
int kernel_traverse(Kernel *k, visitproc visit, void *arg);
int kernel_clear(Kernel *k);
void kernel_dealloc(Kernel *k);
