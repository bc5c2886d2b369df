/* What block.c and leaving.c have in common. */

#ifndef BURSAR_PYTHON_BLOCK_H
#define BURSAR_PYTHON_BLOCK_H

#include "core.h"

typedef struct NurseryBlock {
    Request request;
    PyObject *name;         /* str, or NULL */
    PyObject *budget;
    PyObject *capabilities; /* tuple, or NULL: those of the owner */
    PyObject *handle;       /* once it was entered */
    Kernel *kernel;
    Nursery *record;
    bool hold;
    bool cancel_on_failure;
} NurseryBlock;

extern PyType_Spec nursery_block_spec, leaving_spec;
/* nursery(): without keywords the block is made here, else by the function in nursery.py. */
PyObject *nursery_opened(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* What waits for the children of a block that ended well or, if it is not NULL, in the cancellation `error`. New
 * reference, or NULL with MemoryError set. */
PyObject *leaving_new(NurseryBlock *block, PyObject *error);

#endif
