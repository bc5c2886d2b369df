/* `async with nursery()`: the block (nursery_block.c). After ops/nursery.py. The end of the block is nursery_exit.h. */

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
PyObject *nursery_block_next(PyObject *self); /* its `__next__`, which `is_request` in request.h knows */
/* nursery(): without keywords the block is made here, else by the function in nursery.py. */
PyObject *nursery_opened(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names);
