/* What nursery_block.c and nursery_exit.c have in common. */

#pragma once

#include "python/ops/request.h"

/* What it asks for is in its table: to open its nursery, and later, `leaving_vt`, to wait for the children. */
typedef struct NurseryBlock {
    Request request;
    PyObject *name; /* str, or NULL */
    PyObject *budget;
    PyObject *capabilities; /* tuple, or NULL: those of the owner */
    PyObject *handle;       /* once it was entered */
    Kernel *kernel;
    Nursery *record;
    PyObject *error;   /* once it is left: the Cancelled that it ended in; NULL: it ended well */
    PyObject *passing; /* a Cancelled that is meant for something further out; or NULL */
    PyObject *rest;    /* the coroutine that took over; or NULL */
    bool hold;
    bool cancel_on_failure;
    bool over; /* the way out of it came to its end, or was given up */
} NurseryBlock;

extern PyType_Spec nursery_block_spec;
/* nursery(): without keywords the block is made here, else by the function in nursery.py. */
PyObject *nursery_opened(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* ---- nursery_exit.c: the end of the block, as it is awaited */
extern const RequestVT leaving_vt;
static inline bool
block_is_left(const NurseryBlock *self)
{
    return self->request.vt == &leaving_vt;
}
/* From now on an `await` of the block is that. It ended well or, if it is not NULL, in the cancellation `error`. */
void leaving_begin(NurseryBlock *self, PyObject *error);
PySendResult leaving_send(NurseryBlock *self, PyObject *sent, PyObject **result);
PyObject *leaving_throw(NurseryBlock *self, PyObject *thrown); /* which is given away; as an iteration */
PyObject *leaving_close(NurseryBlock *self);
