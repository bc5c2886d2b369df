/* The choice of the ticket that is admitted next: after `Gate.admit_waiting` in law/admission/gate.py.
 *
 * C looks at the first ticket of each class, admits the first in the order that fits, and repeats this until no ticket
 * fits. A ticket that has waited for `reserve_after` holds a reservation. In the other cases C admits nothing, and the
 * method in Python decides: a queue with limits, RETURNING tickets, a first ticket that is not plain or whose effective
 * priority does not fit 64 bits, an observer, more than CLASSES_MAX classes.
 *
 *   ADMIT-1  no program code runs between the look at the waiting tickets and the admission of one: no observer, no
 *       method, and no collection, which noting a shortage could start
 */

#include "python/law/admission/gate_decide.h"
#include "python/fast_paths.h"
#include "python/law/admission/gate.h"
#include "python/law/admission/gate_record.h"
#include "python/law/admission/queues.h"
#include "python/law/admission/resources.h"
#include "python/law/admission/ticket.h"
#include "python/memory/accounts.h"

#include "law/admission/aging.h"

enum { CLASSES_MAX = 32 }; /* the order is an insertion sort on the stack: more classes are left to Python */

int
gate_take(GateCore *gate, Ticket *ticket)
{
    return PyDict_SetItem(gate->held, (PyObject *)ticket, Py_None) < 0 ? -1 : resources_take(gate, ticket->demand, 1);
}

int
gate_admit(Kernel *k, GateCore *gate, Ticket *ticket, int64_t effective)
{
    gate->totals->admitted += 1;
    law_ticket_move(&ticket->state, LAW_TICKET_ADMITTED);
    return k_admit(k, (Task *)ticket->task, ticket->priority, effective);
}

/* The first ticket of a class, and its effective priority. */
typedef struct First {
    Ticket *ticket;
    int64_t effective;
} First;

/* Whether `one` goes before `other`: higher effective priority, then the ticket that has waited longer. */
static bool
goes_before(const First *one, const First *other)
{
    return one->effective != other->effective ? one->effective > other->effective
                                              : one->ticket->place < other->ticket->place;
}

/* Whether the newest wait reason of a ticket is a shortage. */
static bool
had_shortage(ModuleState *st, const Ticket *ticket)
{
    PyObject *reasons = ticket->reasons;
    if (ticket->shortage != NULL) {
        return true;
    }
    Py_ssize_t n = reasons != NULL && PyList_CheckExact(reasons) ? PyList_GET_SIZE(reasons) : 0;
    return n > 0 && Py_IS_TYPE(PyList_GET_ITEM(reasons, n - 1), (PyTypeObject *)st->ShortageRecord);
}

/* Whether C can look at the first ticket of a class: it is plain, and its newest wait reason, if any, is a shortage. */
static bool
is_plain_pass(ModuleState *st, const GateCore *gate, const Ticket *one)
{
    bool plain =
        FAST_PATHS && one->gate == gate && one->rare == NULL && one->task != NULL && Py_TYPE(one->task) == st->Task;
    return plain && (one->reasons == NULL || had_shortage(st, one));
}

/* Put the first ticket of each class into `into`, in order. Returns how many there are; -1: Python must decide. */
static int
firsts(const Kernel *k, const GateCore *gate, First *into)
{
    int n = 0;
    Py_ssize_t at = 0;
    PyObject *wait_class;
    if (PyDict_GET_SIZE(gate->queues->classes) > CLASSES_MAX) {
        return -1;
    }
    while (PyDict_Next(gate->queues->classes, &at, NULL, &wait_class)) {
        First one = {.ticket = wait_class_first((WaitClass *)wait_class)};
        if (!is_plain_pass(k->st, gate, one.ticket) ||
            !law_effective_priority(one.ticket->priority, k->now_ns - one.ticket->ready_ns, gate->queues->interval_ns,
                                    gate->queues->boost, &one.effective)) {
            return -1;
        }
        int place = n++;
        for (; place > 0 && goes_before(&one, &into[place - 1]); place--) {
            into[place] = into[place - 1];
        }
        into[place] = one;
    }
    return n;
}

/* Note what the ticket is short of. Keep only numbers, because the text is rarely needed. */
static int
note_shortage(Kernel *k, GateCore *gate, Ticket *ticket)
{
    PyObject *other = gate->reserved == (PyObject *)ticket ? NULL : gate->reserved; /* the first of another class */
    PyObject *kept_for = other == NULL ? NULL : ((Task *)((Ticket *)other)->task)->name;
    return ticket_note_shortage(ticket, k->now_ns, gate->resources, gate->taken, kept_for);
}

/* The first ticket of a class may not start. Note its shortage, once. */
static int
pass_over(Kernel *k, GateCore *gate, Ticket *ticket)
{
    gate->totals->passed_over += 1;
    return had_shortage(k->st, ticket) ? 0 : note_shortage(k, gate, ticket);
}

/* *found: which of `candidates` is admitted now; NULL if none may be. 0, or -1 with an exception set. */
static int
choose(Kernel *k, GateCore *gate, const First *candidates, int n, const First **found)
{
    PyObject *reserved = NULL; /* a demand */
    *found = NULL;
    for (int i = 0; i < n; i++) {
        Ticket *one = candidates[i].ticket;
        int room = resources_fit(gate, gate->taken, one->demand);
        if (room > 0) {
            int breaks = reserved == NULL ? 0 : resources_break_reservation(gate, one->demand, reserved);
            if (breaks <= 0) {
                *found = &candidates[i];
                return breaks;
            }
        } else if (room == 0 && reserved == NULL && k->now_ns - one->ready_ns >= gate->reserve_after_ns) {
            room = resources_fit(gate, gate->kept, one->demand); /* Resources.drains */
            if (room > 0) {
                Py_XSETREF(gate->reserved, Py_NewRef((PyObject *)one));
                reserved = one->demand;
            }
        }
        if (room < 0 || pass_over(k, gate, one) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Add a duration to a sum, and update the maximum. */
static void
add_duration(int64_t ns, int64_t *sum, int64_t *most)
{
    *sum += ns;
    *most = ns > *most ? ns : *most;
}

/* Give a queued ticket its demand, take it out of the queue and admit it. What can run out of memory comes first. */
static int
admit_queued(Kernel *k, GateCore *gate, Ticket *ticket, int64_t effective)
{
    GateTotalsCore *totals = gate->totals;
    int64_t waited = k->now_ns - ticket->ready_ns, starved = waited != 0 ? queues_starved_ns(ticket, k->now_ns) : 0;
    if (queues_let_in(gate->queues, ticket, k->now_ns) < 0 || gate_take(gate, ticket) < 0 ||
        queues_leave(gate->queues, ticket) < 0) {
        return -1;
    }
    ticket->waited_ns = waited;
    ticket->starved_ns = starved;
    add_duration(waited, &totals->wait_ns, &totals->wait_max_ns);
    add_duration(starved, &totals->starved_ns, &totals->starved_max_ns);
    totals->starved += starved != 0;
    return gate_admit(k, gate, ticket, effective);
}

/* Admit one ticket. 1: done; 0: no ticket may be admitted; 2: Python must decide; -1: error. */
static int
admit_next(Kernel *k, GateCore *gate)
{
    First candidates[CLASSES_MAX];
    const First *found;
    Py_CLEAR(gate->reserved); /* before the look at the tickets: freeing one may run code (ADMIT-1) */
    int n = PyDict_GET_SIZE(gate->returning) > 0 ? -1 : firsts(k, gate, candidates);
    if (n < 0) {
        return 2;
    }
    if (choose(k, gate, candidates, n, &found) < 0) {
        return -1;
    }
    return found == NULL ? 0 : admit_queued(k, gate, found->ticket, found->effective) < 0 ? -1 : 1;
}

/* One pass: admit tickets until none may be admitted. 0: done; 2: Python must go on; -1: error. */
static int
admit_all(Kernel *k, GateCore *gate)
{
    int done, collects = PyGC_Disable(); /* ADMIT-1 */
    gate->last_pass_ns = k->now_ns;
    while ((done = admit_next(k, gate)) == 1) {
    }
    if (collects) {
        PyGC_Enable();
    }
    return done;
}

int
gate_admit_waiting(Kernel *k, GateCore *gate)
{
    if (!has_waiting_tickets(gate)) {
        return 0;
    }
    bool here = k->observer == NULL && !gate->drops && !gate->admitting;
    int done = here ? admit_all(k, gate) : 2;
    return done == 2 ? gate_in_python(gate, "admit_waiting", k, NULL) : done;
}
