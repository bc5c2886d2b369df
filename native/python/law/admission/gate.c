/* The gate: a task asks, is admitted, and ends. After law/admission/gate.py and law/admission/graph.py.
 *
 * C does what nearly every task does. It asks, and waits for its dependencies. Then it is admitted if it fits and no
 * other ticket waits; otherwise it is queued, and gate_decide.c chooses. When it succeeds, it counts down its
 * successors. C calls the methods of `Gate` in Python for everything else: a queue with limits, a ticket that is not
 * plain (ticket.h), a task that failed or was asked to stop, a kernel with an observer.
 */

#include "python/law/admission/gate.h"
#include "python/law/admission/gate_decide.h"
#include "python/law/admission/gate_record.h"
#include "python/law/admission/queues.h"
#include "python/law/admission/resources.h"
#include "python/law/admission/ticket.h"
#include "python/law/admission/ticket_fast.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch.h"
#include "python/law/observer.h"
#include "python/law/task.h"
#include "python/trace/events.h"

int
gate_in_python(GateCore *gate, const char *method, Kernel *k, PyObject *with)
{
    PyObject *name = PyUnicode_InternFromString(method);
    PyObject *args[] = {(PyObject *)gate, (PyObject *)k, with};
    PyObject *answer = name == NULL ? NULL : PyObject_VectorcallMethod(name, args, with != NULL ? 3 : 2, NULL);
    int yes = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(name);
    Py_XDECREF(answer);
    return yes;
}

/* ---- asking */

int
k_admit(Kernel *k, Task *task, int64_t priority, int64_t effective)
{
    if (rule(task->state == LAW_STATE_PENDING, "only a PENDING task is admitted") < 0) {
        return -1;
    }
    k->chain = law_link(k->chain, task->id, task->nursery->id, LAW_LINK_ADMIT, 0, 0, 0, task->generation);
    if (NOTED(k, NOTE(k, "task_admitted", task, Py_BuildValue("LL", (long long)priority, (long long)effective))) < 0) {
        return -1;
    }
    return k_ready(k, task, false, 0);
}

/* The ticket waits for permission only. If no other ticket waits and it fits, admit it: it would be next. Otherwise
 * queue it. 1: the gate must make a pass (`gate_admit_waiting`); 0: it need not; -1: error. */
static int
ready(Kernel *k, Ticket *ticket)
{
    GateCore *gate = ticket->gate;
    int room = has_waiting_tickets(gate) ? 0 : resources_fit(gate, gate->taken, ticket->demand);
    if (room < 0) {
        return -1;
    }
    if (room == 0 && (gate->drops || k->observer != NULL)) {
        return gate_in_python(gate, "_ready", k, (PyObject *)ticket);
    }
    if (room == 0) {
        int first = queues_enter(k->st, gate->queues, ticket);
        if (first < 0) {
            return -1;
        }
        gate->waiting -= 1;
        ticket->ready_ns = k->now_ns;
        law_ticket_move(&ticket->state, LAW_TICKET_QUEUED);
        return first || gate->admitting || (gate->reserved != NULL && gate->reserved != Py_None);
    }
    if (gate_take(gate, ticket) < 0) {
        return -1;
    }
    gate->waiting -= 1;
    ticket->ready_ns = k->now_ns;
    return gate_admit(k, gate, ticket, ticket->priority);
}

/* Enter the edge from `other` to `ticket`, unless `other` is DONE. 0, or -1 with an exception set. */
static int
follow(Ticket *ticket, Ticket *other)
{
    if (other->state == LAW_TICKET_DONE) {
        return 0;
    }
    if (successors_add(&other->successors, ticket) < 0) {
        return -1;
    }
    ticket->unmet += 1;
    return 0;
}

/* `gate_enter` by the Python method, which gives the event to the observer. */
static int
enter_in_python(Kernel *k, Ticket *ticket, Ticket *const *after, Py_ssize_t n)
{
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list != NULL && i < n; i++) {
        PyList_SET_ITEM(list, i, Py_NewRef((PyObject *)after[i]));
    }
    PyObject *none =
        list == NULL ? NULL : PyObject_CallMethod((PyObject *)ticket->gate, "enter", "OOO", k, ticket, list);
    Py_XDECREF(list);
    Py_XDECREF(none);
    return none == NULL ? -1 : 0;
}

int
gate_enter(Kernel *k, Ticket *ticket, Ticket *const *after, Py_ssize_t n)
{
    if (k->observer != NULL) {
        return enter_in_python(k, ticket, after, n);
    }
    GateCore *gate = ticket->gate;
    gate->totals->entered += 1;
    gate->waiting += 1;
    ticket->entered_ns = k->now_ns;
    for (Py_ssize_t i = 0; i < n; i++) {
        if (follow(ticket, after[i]) < 0) {
            return -1;
        }
    }
    ticket->dependency_count = ticket->unmet;
    if (ticket->unmet > 0) {
        return 0;
    }
    int changes = ready(k, ticket);
    return changes > 0 ? gate_admit_waiting(k, gate) : changes;
}

/* ---- ends */

/* Whether C can release the successors without unmet dependencies: all are plain, at this gate and of one priority, so
 * that they are in the right order. *free: how many there are. */
static bool
are_plain_successors(ModuleState *st, const GateCore *gate, const Successors *successors, int32_t *free)
{
    const Ticket *first = NULL;
    bool all = true;
    *free = 0;
    for (int32_t i = 0; i < successors->n; i++) {
        const Ticket *one = successors->tickets[i];
        if (one->unmet == 0 && one->state == LAW_TICKET_WAITING) {
            first = first != NULL ? first : one;
            *free += 1;
            all = all && one->rare == NULL && one->gate == gate && one->priority == first->priority &&
                  one->task != NULL && Py_TYPE(one->task) == st->Task;
        }
    }
    return all;
}

/* The successors without unmet dependencies now wait for permission only. 0, or -1 with an exception set. */
static int
release_successors(Kernel *k, GateCore *gate, const Successors *successors)
{
    int32_t n;
    int failed = 0;
    bool plain = are_plain_successors(k->st, gate, successors, &n);
    PyObject *list = plain || n == 0 ? NULL : PyList_New(0);
    if (!plain && n > 0 && list == NULL) {
        return -1;
    }
    for (int32_t i = 0; n > 0 && failed == 0 && i < successors->n; i++) {
        Ticket *one = successors->tickets[i];
        if (one->unmet != 0 || one->state != LAW_TICKET_WAITING) {
            continue;
        }
        if (list != NULL) {
            failed = PyList_Append(list, (PyObject *)one);
        } else if (((Task *)one->task)->state == LAW_STATE_PENDING) { /* otherwise it is paused */
            failed = ready(k, one) < 0 ? -1 : 0;                      /* the caller makes one pass for all of them */
        }
    }
    if (list != NULL && failed == 0) {
        failed = gate_in_python(gate, "_free", k, list);
    }
    Py_XDECREF(list);
    return failed;
}

/* A task with a plain ADMITTED ticket has succeeded. 0, or -1 with an exception set. */
static int
end_succeeded(Kernel *k, GateCore *gate, Ticket *ticket)
{
    if (resources_take(gate, ticket->demand, -1) < 0 || PyDict_DelItem(gate->held, (PyObject *)ticket) < 0) {
        return -1;
    }
    Successors successors = ticket->successors;
    ticket->successors = (Successors){NULL, 0};
    law_ticket_move(&ticket->state, LAW_TICKET_DONE);
    Py_CLEAR(ticket->task); /* TICKET-2; the caller holds references to the task */
    Py_CLEAR(ticket->gate); /* and to the gate */
    for (int32_t i = 0; i < successors.n; i++) {
        successors.tickets[i]->unmet -= 1;
    }
    int failed = successors.n > 0 ? release_successors(k, gate, &successors) : 0;
    successors_drop(&successors);
    return failed < 0 ? -1 : gate_admit_waiting(k, gate);
}

int
gate_ended(Kernel *k, Task *task)
{
    Ticket *ticket = plain_ticket(k->st, task);
    GateCore *gate = ticket == NULL ? NULL : as_gate_core(k->st, (PyObject *)ticket->gate);
    PyObject *held = Py_NewRef(task->extra->ticket); /* RECORD-3 */
    int failed;
    if (gate != NULL && task->kind == LAW_OUTCOME_OK && ticket->state == LAW_TICKET_ADMITTED &&
        ticket->task == (PyObject *)task && gate->reserved != (PyObject *)ticket) {
        Py_INCREF(gate);
        failed = end_succeeded(k, gate, ticket);
        Py_DECREF(gate);
    } else {
        PyObject *outcome = task_outcome(k->st, task);
        PyObject *none = outcome == NULL ? NULL : PyObject_CallMethod(held, "ended", "OO", (PyObject *)k, outcome);
        failed = none == NULL ? -1 : 0;
        Py_XDECREF(none);
        Py_XDECREF(outcome);
    }
    Py_DECREF(held);
    return failed;
}
