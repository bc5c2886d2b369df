/* What spawn.c and task_end.c have beyond records.h, and pool.c and ledger.c for them. */

#pragma once

#include "python/law/records.h"

int k_settle_uses(Kernel *k);                                 /* tell the registry what was counted here */
int k_book(Task *task, const LawCost *cost);                  /* -1 only if `more` had to be made and could not */
int k_unbook(Task *task, unsigned component, int64_t amount); /* likewise */
int cost_of_row(PyObject *row, LawCost *cost);
int pools_close(PyObject *pools, PyObject *parents);
PyObject *pools_derive(State *st, PyObject *parents, PyObject *budget);
void pools_refund(PyObject *pools, const LawCost *cost);
PyObject *ledger_bill(Kernel *k, PyObject *const *args, Py_ssize_t n);
PyObject *ledger_book(Kernel *k, PyObject *const *args, Py_ssize_t n);
PyObject *ledger_unbook(Kernel *k, PyObject *const *args, Py_ssize_t n);
PyObject *kernel_advance(Kernel *k, PyObject *const *args, Py_ssize_t n);
PyObject *kernel_fire(Kernel *k, PyObject *timer);
