/* The memory meter: what a task allocates while it runs is charged to its account. See meter.c for how and why.
 *
 * A kernel uses it so, with the GIL held:
 *
 *     meter_install()                                    once for each runtime that meters
 *     book = account_set_make(tell, context)
 *     account = meter_account_new(book, tag)             for each task
 *     meter_enter(account, left); …the task runs…; meter_leave(account);
 *     due = meter_due_bytes(account); pay it from the task's pool, or refund it; meter_paid(account, what was paid)
 *     if due is more than could be paid and meter_untold(account): raise MemoryBudgetExceeded at the await point
 *     meter_end(account); settle once more               the task is over
 *     while (meter_changed(book, &account)) …            blocks of these accounts were freed by others: settle again
 *     account_set_close_all(book); account_set_free(book); meter_uninstall()
 *
 * Code of the kernel that the running task calls, and that must not be refused memory half way, stands between
 * meter_pause and meter_resume.
 */

#pragma once

#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#define METER_OPEN INT64_MAX                     /* what an open pool has left */
#define METER_OVERDRAFT_BYTES (INT64_C(1) << 20) /* one arena of CPython: nothing smaller can be told apart */

typedef struct MeterAccount MeterAccount;
typedef struct AccountSet AccountSet;

/* Makes the exception for the running task that went over its limit, as a new reference; Py_None if it cannot be
 * raised where the task stands now (it will be told at its await point); NULL with an exception set on failure. */
typedef PyObject *(*MeterTell)(void *context, uint64_t tag);

int meter_install(void); /* put the hooks in place; 0, or -1 with an exception set */
void meter_uninstall(void);
bool meter_installed(void);
