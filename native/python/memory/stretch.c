/* A stretch of a metered task's code: its account is entered before and left after. After drive/memory.py.
 *
 * Most stretches leave nothing behind that others have to hear of: the account is that of the task's last stretch, its
 * limit is what the pool has left, and its growth is paid out of that pool. This is here. The first stretch of a task,
 * releases by others that must be settled first, a refund that the pool below has to bear and the end of a task are
 * `MemoryMeter`'s, in Python.
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

/* The limit of a task that is about to run. */
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

/* Bring the pool to what the account says: charge the growth, as far as the pool goes, or refund it. */
static int
settle(Kernel *k, Task *task, MeterAccount *account, int64_t due)
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
    if (due == 0) { /* all of it is paid for, and so within the limit */
        return Py_NewRef(Py_None);
    }
    if (settle(self->kernel, task, account, due) < 0) {
        return NULL;
    }
    if (!meter_untold(account)) {
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
    PyObject *memory = task->extra->memory; /* entered: else its code would not have run */
    task->extra->memory = NULL;
    int left = meter_face_leave(memory); /* here: the rest may fail, and then nobody else is charged to it */
    Py_DECREF(memory);
    return left < 0 ? NULL : PyObject_CallMethod(self->meter, "ended", "OO", task, error ? error : Py_None);
}
