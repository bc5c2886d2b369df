/* The end of `async with nursery()`, as it is awaited (nursery_exit.c). After ops/nursery.py. For nursery_block.c. */

#pragma once

#include "python/ops/nursery_block.h"

extern const RequestVT leaving_vt;
static inline bool
nursery_block_is_left(const NurseryBlock *self)
{
    return self->request.vt == &leaving_vt;
}
/* From now on an `await` of the block is that. It ended well or, if it is not NULL, in the cancellation `error`. */
void leaving_begin(NurseryBlock *self, PyObject *error);
PySendResult leaving_send(NurseryBlock *self, PyObject *sent, PyObject **result);
PyObject *leaving_throw(NurseryBlock *self, PyObject *thrown); /* which is given away; as an iteration */
PyObject *leaving_close(NurseryBlock *self);
