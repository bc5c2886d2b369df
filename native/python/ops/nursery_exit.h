/* The exit of `async with nursery()` (nursery_exit.c). After ops/nursery.py. nursery_block.c calls it. */

#pragma once

#include "python/ops/nursery_block.h"

extern const RequestVT leaving_vt;
static inline bool
nursery_block_is_left(const NurseryBlock *self)
{
    return self->request.vt == &leaving_vt;
}
/* The exit begins: from now on an `await` of the block waits for the children. `error`: the Cancelled that the body
 * ended in; NULL: it ended well. */
void leaving_begin(NurseryBlock *self, PyObject *error);
PySendResult leaving_send(NurseryBlock *self, PyObject *sent, PyObject **result);
PyObject *leaving_throw(NurseryBlock *self, PyObject *thrown); /* steals `thrown`; gives what `throw` gives */
PyObject *leaving_close(NurseryBlock *self);
