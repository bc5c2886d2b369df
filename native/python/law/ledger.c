/* The ledger: bills tasks. After law/ledger.py.
 *
 * C pays a bill that the task's pools can pay during its turn: nearly every bill. If the turn is over, the cleanup
 * allowance is spent, the pools are short or the cost has a named counter, C charges nothing and calls `Ledger.bill` in
 * Python, which decides.
 */

#include "python/law/ledger.h"
#include "python/law/ledger_fast.h"
#include "python/law/task.h"
#include "python/module/seam.h"
#include "python/ops/request.h"
#include "python/trace/events.h"

/* Write down what was paid. The record saturates; the pools do not. */
int
k_record_spent(Task *task, const LawCost *cost)
{
    for (unsigned i = 0; i < cost->n; i++) {
        int64_t amount = cost->amount[i], *spent = &task->ops_spent;
        if (cost->component[i] != LAW_OPS) {
            TaskExtra *extra = task_extra(task);
            if (extra == NULL) {
                return -1;
            }
            spent = &extra->spent[cost->component[i]];
        } else if (task->state == LAW_STATE_RUNNING) {
            int64_t left = task->turn_left - amount;
            task->turn_left = left < INT32_MIN ? INT32_MIN : (int32_t)left;
        }
        *spent = amount > LAW_UNITS_MAX - *spent ? LAW_UNITS_MAX : *spent + amount;
    }
    return 0;
}

/* Write down what was refunded. A saturated record becomes inexact. */
int
k_record_refund(Task *task, unsigned component, int64_t amount)
{
    int64_t *spent = &task->ops_spent;
    if (component != LAW_OPS) {
        TaskExtra *extra = task_extra(task);
        if (extra == NULL) {
            return -1;
        }
        spent = &extra->spent[component];
    }
    *spent = amount < *spent ? *spent - amount : 0;
    return 0;
}

/* The bill by the method of the law in Python. */
static BillResult
bill_in_python(Kernel *k, Task *task, const LawCost *cost, PyObject *row, PyObject **refusal)
{
    PyObject *made = row != NULL ? Py_NewRef(row) : cost_row(cost);
    if (made == NULL) {
        return BILL_ERROR;
    }
    PyObject *args[] = {(PyObject *)k, (PyObject *)task, made};
    PyObject *bill = py_call(k->st, PY_bill, args, 3);
    Py_DECREF(made);
    if (bill == NULL) {
        return BILL_ERROR;
    }
    if (bill == k->st->bills[LAW_BILL_PAID] || bill == k->st->bills[LAW_BILL_SUSPENDED] ||
        bill == k->st->bills[LAW_BILL_CUT]) {
        BillResult result = bill == k->st->bills[LAW_BILL_PAID]  ? BILL_PAID
                            : bill == k->st->bills[LAW_BILL_CUT] ? BILL_CUT
                                                                 : BILL_SUSPENDED;
        Py_DECREF(bill);
        return result;
    }
    *refusal = bill;
    return BILL_REFUSED;
}

/* Whether a cost has named counters. Their pairs come last. */
static bool
row_has_names(PyObject *row)
{
    Py_ssize_t n = PyTuple_Check(row) ? PyTuple_GET_SIZE(row) : 0;
    PyObject *last = n > 0 ? PyTuple_GET_ITEM(row, n - 1) : NULL;
    return last != NULL && PyTuple_Check(last) && PyTuple_GET_SIZE(last) == 2 &&
           PyUnicode_Check(PyTuple_GET_ITEM(last, 0));
}

BillResult
k_bill(Kernel *k, Task *task, const LawCost *cost, PyObject *row, PyObject **refusal)
{
    for (unsigned i = 0; task->extra == NULL && i < cost->n; i++) { /* what is paid must be recorded */
        if (cost->component[i] != LAW_OPS && task_extra(task) == NULL) {
            return BILL_ERROR;
        }
    }
    int64_t ops = law_cost_of(cost, LAW_OPS), left = task_cleanup_left(task);
    if (left >= 0 && task_extra(task) == NULL) {
        return BILL_ERROR;
    }
    if (task->turn_left <= 0 || (left >= 0 && ops > left) || pools_pay(task->terms->pools, cost) != LAW_PAID) {
        return bill_in_python(k, task, cost, row, refusal);
    }
    if (left >= 0) {
        task->extra->cleanup_left -= ops;
    }
    k_record_spent(task, cost);
    if (cost->n > 0 && NOTED(k, note_charged(k, task, cost, row)) < 0) {
        return BILL_ERROR;
    }
    return BILL_PAID;
}

BillResult
k_bill_row(Kernel *k, Task *task, PyObject *row, PyObject **refusal)
{
    LawCost cost;
    if (row_has_names(row)) {
        return task_extra(task) == NULL ? BILL_ERROR : bill_in_python(k, task, NULL, row, refusal);
    }
    return cost_of_row(row, &cost) < 0 ? BILL_ERROR : k_bill(k, task, &cost, row, refusal);
}

int
cost_of_row(PyObject *row, LawCost *cost)
{
    cost->n = 0;
    PyObject *pairs = PySequence_Fast(row, "a cost is a sequence of pairs (component, amount)");
    for (Py_ssize_t i = 0; pairs != NULL && i < PySequence_Fast_GET_SIZE(pairs); i++) {
        int component;
        long long amount;
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(pairs, i), "iL", &component, &amount)) {
            Py_DECREF(pairs);
            return -1;
        }
        if (component < 0 || !law_cost_add(cost, (unsigned)component, amount)) {
            PyErr_Format(PyExc_ValueError, "%R is not a cost", row);
            Py_DECREF(pairs);
            return -1;
        }
    }
    Py_XDECREF(pairs);
    return pairs == NULL ? -1 : 0;
}

/* kernel.bill(task, cost) */
PyObject *
ledger_bill(Kernel *k, PyObject *const *args, Py_ssize_t n)
{
    PyObject *refusal = NULL;
    if (n != 2 || !is_task(args[0])) {
        PyErr_SetString(PyExc_TypeError, "bill() takes a task and a cost");
        return NULL;
    }
    switch (k_bill_row(k, (Task *)args[0], args[1], &refusal)) {
    case BILL_PAID:
        return Py_NewRef(k->st->bills[LAW_BILL_PAID]);
    case BILL_SUSPENDED:
        return Py_NewRef(k->st->bills[LAW_BILL_SUSPENDED]);
    case BILL_CUT:
        return Py_NewRef(k->st->bills[LAW_BILL_CUT]);
    case BILL_REFUSED:
        return refusal;
    case BILL_ERROR:
    default:
        return NULL;
    }
}

/* kernel._record_refund(task, component, amount) */
PyObject *
ledger_record_refund(Kernel *Py_UNUSED(k), PyObject *const *args, Py_ssize_t n)
{
    long component = n == 3 && is_task(args[0]) ? PyLong_AsLong(args[1]) : -1;
    long long amount = n == 3 ? PyLong_AsLongLong(args[2]) : -1;
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (component < 0 || component >= LAW_COMPONENTS || amount < 0) {
        PyErr_SetString(PyExc_TypeError, "_record_refund() takes a task, a component and an amount");
        return NULL;
    }
    return k_record_refund((Task *)args[0], (unsigned)component, amount) < 0 ? NULL : Py_NewRef(Py_None);
}

/* kernel._record_spent(task, cost): for bills that Python handles */
PyObject *
ledger_record_spent(Kernel *Py_UNUSED(k), PyObject *const *args, Py_ssize_t n)
{
    LawCost cost;
    if (n != 2 || !is_task(args[0])) {
        PyErr_SetString(PyExc_TypeError, "_record_spent() takes a task and a cost");
        return NULL;
    }
    if (cost_of_row(args[1], &cost) < 0 || k_record_spent((Task *)args[0], &cost) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}
