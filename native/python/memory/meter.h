/* The memory meter: charges what a task allocates while it runs to the task's account. meter.c says how and why.
 *
 * A kernel uses it like this, with the GIL held:
 *
 *     meter_install()                                    once for each run with a meter
 *     set = account_set_make(make_error, context)
 *     account = meter_account_new(set, tag)               for each task
 *     meter_enter(account, left); …the task runs…; meter_leave(account);
 *     due = meter_due_bytes(account); pay it from the task's pool, or refund it; meter_paid(account, what was paid)
 *     if more is due than could be paid and meter_notify_once(account): raise MemoryBudgetExceeded at the await
 *     meter_end(account); charge or refund again         when the task has ended
 *     while (meter_changed(set, &account)) …             others freed blocks of these accounts: charge or refund again
 *     accounts_leave_all(set); account_set_free(set); meter_uninstall()
 *
 * Code of the kernel that runs during a stretch, and must not be refused memory, is between meter_pause and meter_resume.
 */

#pragma once

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#define METER_OPEN INT64_MAX                     /* what a pool without a limit has left */
#define METER_OVERDRAFT_BYTES (INT64_C(1) << 20) /* one arena of CPython: smaller amounts are not measured */

typedef struct MeterAccount MeterAccount;
typedef struct AccountSet AccountSet;

/* Returns the exception for the running task that is over its limit, a new reference. Py_None: it cannot be raised in the
 * current frame, so it is raised at the next await. NULL with an exception set: an error. */
typedef PyObject *(*MeterMakeError)(void *context, uint64_t tag);

int meter_install(void); /* install the hooks; 0, or -1 with an exception set */
void meter_uninstall(void);
bool meter_installed(void);
