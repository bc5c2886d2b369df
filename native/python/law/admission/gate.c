/* The gate: asking, being let in, ending. After law/admission/gate.py and law/admission/graph.py.
 *
 * What nearly every task does is here: it asks, counts down those whom it follows, is let in because it fits and nobody
 * waits, or queues, ends well, and counts down those who follow it; gate_decide.c has the choice among those who queue.
 * Everything else is the methods of `Gate`: a queue that is limited; a task that is not plain (see ticket.c), that failed,
 * that was asked to stop; an observer who is to hear what a task asked for. So there is one account of it, and C hands over
 * before it has changed anything.
 */

#include "python/law/admission/gate.h"
#include "python/law/admission/gate_decide.h"
#include "python/law/admission/gate_record.h"
#include "python/law/admission/queues.h"
#include "python/law/admission/resources.h"
#include "python/law/admission/ticket.h"
#include "python/law/deferred_error.h"
#include "python/law/dispatch.h"
#include "python/law/observer.h"
#include "python/law/task.h"
#include "python/trace/events.h"

/* Call a method of the gate with the kernel and perhaps one thing more. Whether it returned something true; -1: error. */
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

/* It has everything but permission. If nobody else waits and it fits, it has that too: it would come next; else it queues.
 * 1: the gate must be settled; 0: it need not be; -1: error. */
static int
ready(Kernel *k, Ticket *ticket)
{
    GateCore *gate = ticket->gate;
    int room = somebody_waits(gate) ? 0 : resources_fit(gate, gate->taken, ticket->demand);
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

/* Enter the edge from `other` to `ticket`, unless there is nothing to wait for. 0, or -1 with an exception set. */
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

/* The same by the method, which tells the observer. */
static int
enter_observed(Kernel *k, Ticket *ticket, Ticket *const *after, Py_ssize_t n)
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
        return enter_observed(k, ticket, after, n);
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

/* Whether C can let these in that are free now: all plain, all of this gate, and of one priority, so that their order is
 * the one that they are in. *free: how many they are. */
static bool
usual(ModuleState *st, const GateCore *gate, const Successors *successors, int32_t *free)
{
    const Ticket *first = NULL;
    bool all = true;
    *free = 0;
    for (int32_t i = 0; i < successors->n; i++) {
        const Ticket *one = successors->those[i];
        if (one->unmet == 0 && one->state == LAW_TICKET_WAITING) {
            first = first != NULL ? first : one;
            *free += 1;
            all = all && one->rare == NULL && one->gate == gate && one->priority == first->priority &&
                  one->task != NULL && Py_TYPE(one->task) == st->Task;
        }
    }
    return all;
}

/* They have nothing left to wait for but permission, all at once. */
static int
let_free(Kernel *k, GateCore *gate, const Successors *successors)
{
    int32_t n;
    int failed = 0;
    bool plain = usual(k->st, gate, successors, &n);
    PyObject *list = plain || n == 0 ? NULL : PyList_New(0);
    if (!plain && n > 0 && list == NULL) {
        return -1;
    }
    for (int32_t i = 0; n > 0 && failed == 0 && i < successors->n; i++) {
        Ticket *one = successors->those[i];
        if (one->unmet != 0 || one->state != LAW_TICKET_WAITING) {
            continue;
        }
        if (list != NULL) {
            failed = PyList_Append(list, (PyObject *)one);
        } else if (((Task *)one->task)->state == LAW_STATE_PENDING) { /* else it stands still */
            failed = ready(k, one) < 0 ? -1 : 0;                      /* all of them first; then the gate is settled */
        }
    }
    if (list != NULL && failed == 0) {
        failed = gate_in_python(gate, "_free", k, list);
    }
    Py_XDECREF(list);
    return failed;
}

/* A plain task that was held has succeeded. */
static int
ended_well(Kernel *k, GateCore *gate, Ticket *ticket)
{
    if (resources_take(gate, ticket->demand, -1) < 0 || PyDict_DelItem(gate->held, (PyObject *)ticket) < 0) {
        return -1;
    }
    Successors successors = ticket->successors;
    ticket->successors = (Successors){NULL, 0};
    law_ticket_move(&ticket->state, LAW_TICKET_DONE);
    Py_CLEAR(ticket->task); /* TICKET-2; not the last reference: it ends right now, */
    Py_CLEAR(ticket->gate); /* and the caller has one */
    for (int32_t i = 0; i < successors.n; i++) {
        successors.those[i]->unmet -= 1;
    }
    int failed = successors.n > 0 ? let_free(k, gate, &successors) : 0;
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
        failed = ended_well(k, gate, ticket);
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
