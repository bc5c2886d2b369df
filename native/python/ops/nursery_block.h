/* `async with nursery()`: the block (nursery_block.c). After ops/nursery.py. The end of the block is nursery_exit.h. */

#pragma once

#include "python/ops/request.h"

/* Its table says what it asks for: first to open its nursery, later (`leaving_vt`) to wait for the children. */
typedef struct NurseryBlock {
    Request request;
    PyObject *name; /* str, or NULL */
    PyObject *budget;
    PyObject *capabilities; /* tuple, or NULL: those of the owner */
    PyObject *handle;       /* NULL until the block is entered */
    Kernel *kernel;
    Nursery *record;
    PyObject *error;   /* from the exit on: the Cancelled that the body ended in; NULL: it ended well */
    PyObject *passing; /* a Cancelled that is meant for an outer scope; or NULL */
    PyObject *rest;    /* the Python coroutine that took over the exit; or NULL */
    bool hold;
    int8_t sealed; /* -1: as the root nursery says */
    bool cancel_on_failure;
    bool over; /* the exit ended, or was given up */
} NurseryBlock;

extern PyType_Spec nursery_block_spec;
PyObject *nursery_block_next(PyObject *self); /* its `__next__`; `is_request` in request.h compares it */
/* nursery(): without keywords the block is made here, otherwise by the function in ops/nursery.py. */
PyObject *nursery_open(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names);
