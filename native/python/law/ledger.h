/* The ledger (ledger.c): bills tasks. After law/ledger.py. ledger_fast.h has the fast path. */

#pragma once

#include "python/law/records.h"

typedef enum {
    BILL_ERROR = -1,
    BILL_PAID = LAW_BILL_PAID,
    BILL_SUSPENDED = LAW_BILL_SUSPENDED,
    BILL_CUT = LAW_BILL_CUT,
    BILL_REFUSED = LAW_BILLS
} BillResult;

/* Charge the running task for a request. SUSPENDED: the poll is over. CUT: the task overran its cleanup allowance.
 * REFUSED: *refusal is the error to raise in the task, a new reference. ERROR: an exception is set. `row` is the cost
 * as a row of Python's cost table; NULL: made if needed. */
BillResult k_bill(Kernel *k, Task *task, const LawCost *cost, PyObject *row, PyObject **refusal);
/* The same for a cost as a row of Python. */
BillResult k_bill_row(Kernel *k, Task *task, PyObject *row, PyObject **refusal);
int k_record_spent(Task *task, const LawCost *cost); /* -1 with MemoryError set, only if there is no TaskExtra yet */
int k_record_refund(Task *task, unsigned component, int64_t amount); /* the same */
int cost_of_row(PyObject *row, LawCost *cost);                       /* -1 with an exception set: `row` is no cost */

/* Methods of the type `Kernel`, for kernel_py.c. */
PyObject *ledger_bill(Kernel *k, PyObject *const *args, Py_ssize_t n);
PyObject *ledger_record_spent(Kernel *k, PyObject *const *args, Py_ssize_t n);
PyObject *ledger_record_refund(Kernel *k, PyObject *const *args, Py_ssize_t n);
