/* The ledger (ledger.c): what a task pays. After law/ledger.py. The usual bill is in ledger_fast.h. */

#pragma once

#include "python/law/records.h"

typedef enum {
    BILL_ERROR = -1,
    BILL_PAID = LAW_BILL_PAID,
    BILL_SUSPENDED = LAW_BILL_SUSPENDED,
    BILL_CUT = LAW_BILL_CUT,
    BILL_REFUSED = LAW_BILLS
} BillResult;

/* Charge the running task for a request. SUSPENDED: the poll is over. CUT: the task is past its cleanup allowance.
 * REFUSED: *refusal is the error to raise, a new reference. ERROR: an exception is set. `row`: the cost as Python writes
 * it; NULL: made if need be. */
BillResult k_bill(Kernel *k, Task *task, const LawCost *cost, PyObject *row, PyObject **refusal);
int k_record_spent(Task *task, const LawCost *cost); /* -1 only if `extra` had to be made and could not */
int k_record_refund(Task *task, unsigned component, int64_t amount); /* likewise */
int cost_of_row(PyObject *row, LawCost *cost);                       /* -1 with an exception set: it is not a cost */

/* Methods of the kernel, for kernel.c. */
PyObject *ledger_bill(Kernel *k, PyObject *const *args, Py_ssize_t n);
PyObject *ledger_record_spent(Kernel *k, PyObject *const *args, Py_ssize_t n);
PyObject *ledger_record_refund(Kernel *k, PyObject *const *args, Py_ssize_t n);
