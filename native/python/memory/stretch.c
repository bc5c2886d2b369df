/* A stretch: the code of a metered task between two waits. Its account is entered before and left after. The twin is
 * `MemoryMeter` in drive/memory.py.
 *
 * C handles the usual stretch: the task has an account, no other account has changed, and the task's own pool pays for the
 * growth or gets the refund. Python handles the rest: the first stretch of a task, changed accounts, a refund for which the
 * pool has spent too little, and the end of a task.
 */

#include "python/memory/stretch.h"
#include "python/cpython/context.h"
#include "python/drive/driver.h"
#include "python/law/deferred_error.h"
#include "python/law/ledger.h"
#include "python/law/ledger_fast.h"
#include "python/law/pool.h"
#include "python/law/task.h"
#include "python/memory/accounts.h"
#include "python/memory/meter.h"
#include "python/memory/types.h"

/* How many bytes a task may allocate in the stretch that begins. */
static int64_t
left_bytes(const Task *task)
{
    int64_t left = pool_of(task->terms->pools, LAW_MEMORY)->account.left;
    if (left == LAW_OPEN || task->cut || task->extra->credit_of != NULL) {
        return METER_OPEN;
    }
    return task->extra->cleanup_left >= 0 ? left + LAW_CLEANUP_BYTES : left;
}

int
metered_enter(Driver *self, Task *task)
{
    TaskExtra *extra = task->extra != NULL ? task->extra : task_extra(task);
    if (extra == NULL) {
        return -1;
    }
    if (extra->memory != NULL && meter_face_quiet(extra->memory)) {
        return meter_face_enter(extra->memory, left_bytes(task));
    }
    if (context_leave(self->kernel) < 0) { /* CONTEXT-3 */
        return -1;
    }
    PyObject *account = PyObject_CallMethod(self->meter, "enter", "O", task);
    if (account == NULL) {
        return -1;
    }
    Py_XSETREF(task->extra->memory, account);
    return 0;
}

/* Charge the pool for the growth of the account, as far as the pool has the bytes, or refund it. */
static int
charge_growth(Kernel *k, Task *task, MeterAccount *account, int64_t due)
{
    LawPool *pool = &pool_of(task->terms->pools, LAW_MEMORY)->account;
    bool open = pool->left == LAW_OPEN;
    int64_t amount = due;
    if (due > 0) {
        amount = open || due < pool->left ? due : pool->left;
        LawCost cost = {{amount}, {LAW_MEMORY}, 1};
        if (rule(pools_pay(task->terms->pools, &cost) == LAW_PAID, "BUDGET-3") < 0 || k_record_spent(task, &cost) < 0) {
            return -1;
        }
    } else if (pool->spent >= (uint64_t)-due && (open || pool->left <= LAW_UNITS_MAX + due)) {
        LawCost cost = {{-due}, {LAW_MEMORY}, 1};
        pools_refund(task->terms->pools, &cost);
        if (k_record_refund(task, LAW_MEMORY, -due) < 0) {
            return -1;
        }
    } else {
        PyObject *paid = context_leave(k) < 0 /* CONTEXT-3 */
                             ? NULL
                             : PyObject_CallMethod((PyObject *)k, "charge_memory_growth", "OL", task, (long long)due);
        amount = paid == NULL ? 0 : PyLong_AsLongLong(paid);
        Py_XDECREF(paid);
    }
    meter_paid(account, amount);
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *
metered_leave(Driver *self, Task *task)
{
    PyObject *memory = task->extra->memory;
    if (meter_face_leave(memory) < 0) {
        return NULL;
    }
    MeterAccount *account = meter_face_account(memory);
    int64_t due = meter_due_bytes(account);
    if (due == 0) { /* everything is paid, so the task is within its limit */
        return Py_NewRef(Py_None);
    }
    if (charge_growth(self->kernel, task, account, due) < 0) {
        return NULL;
    }
    if (!meter_notify_once(account)) {
        return Py_NewRef(Py_None);
    }
    if (context_leave(self->kernel) < 0) { /* CONTEXT-3 */
        return NULL;
    }
    return PyObject_CallMethod(self->meter, "shortage", "OL", task, (long long)meter_due_bytes(account));
}

PyObject *
metered_end(Driver *self, Task *task, PyObject *error)
{
    PyObject *memory = task->extra->memory; /* it is entered, because the task's code ran */
    task->extra->memory = NULL;
    int left =
        meter_face_leave(memory); /* before the call, which may fail: no other task's memory may be charged to it */
    Py_DECREF(memory);
    return left < 0 ? NULL : PyObject_CallMethod(self->meter, "ended", "OO", task, error ? error : Py_None);
}
