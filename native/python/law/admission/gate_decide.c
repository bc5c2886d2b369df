/* Deciding who is let in: after `Gate.settle` and what it calls, in law/admission/gate.py.
 *
 * Here: the choice among the first of each class, one after the other until nobody fits, with the reservation that one who
 * has waited for long holds. To the methods of `Gate`, before anything has changed, goes a gate where a queue is limited or
 * somebody returns; a first that is not plain, or so old that its priority is no number of ours; an observer; and more
 * classes than are looked at here.
 *
 *   ADMIT-1  from the look at those who wait until one of them is let in no code of a program runs: no observer and no
 *       method, and the collector, which a note of what somebody is short of could set off, is held off
 */

#include "python/law/admission/gate_decide.h"
#include "python/fast_paths.h"
#include "python/law/admission/gate.h"
#include "python/law/admission/gate_record.h"
#include "python/law/admission/queues.h"
#include "python/law/admission/resources.h"
#include "python/law/admission/ticket.h"
#include "python/memory/accounts.h"

enum { ROWS_MAX = 32 }; /* classes that are put in order here */

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

/* The first of a class, and the priority that counts. */
typedef struct First {
    Ticket *ticket;
    int64_t effective;
} First;

/* Whether `one` comes before `other`: higher priorities first, then who has waited longer. */
static bool
goes_before(const First *one, const First *other)
{
    return one->effective != other->effective ? one->effective > other->effective
                                              : one->ticket->place < other->ticket->place;
}

/* Whether the newest note of a ticket says what it is short of. */
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

/* Whether the first of a class can be looked at here: it is plain, and has no notes but of what it was short of. */
static bool
is_plain_pass(ModuleState *st, const GateCore *gate, const Ticket *one)
{
    bool plain =
        FAST_PATHS && one->gate == gate && one->rare == NULL && one->task != NULL && Py_TYPE(one->task) == st->Task;
    return plain && (one->reasons == NULL || had_shortage(st, one));
}

/* The first of each class, in order, in `into`. How many they are; -1: it is not for here. */
static int
firsts(const Kernel *k, const GateCore *gate, First *into)
{
    int n = 0;
    Py_ssize_t at = 0;
    PyObject *wait_class;
    if (PyDict_GET_SIZE(gate->queues->classes) > ROWS_MAX) {
        return -1;
    }
    while (PyDict_Next(gate->queues->classes, &at, NULL, &wait_class)) {
        First one = {.ticket = wait_class_first((WaitClass *)wait_class)};
        if (!is_plain_pass(k->st, gate, one.ticket) ||
            !queues_effective(gate->queues, one.ticket, k->now_ns, &one.effective)) {
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

/* Write down what it is short of: in numbers, for hardly anybody asks. It is its first note. */
static int
note_shortage(Kernel *k, GateCore *gate, Ticket *ticket)
{
    PyObject *other = gate->reserved == (PyObject *)ticket ? NULL : gate->reserved; /* another one of the firsts */
    PyObject *kept_for = other == NULL ? NULL : ((Task *)((Ticket *)other)->task)->name;
    return ticket_note_shortage(ticket, k->now_ns, gate->resources, gate->taken, kept_for);
}

/* The first of its class may not start; what for is written down once. */
static int
pass_over(Kernel *k, GateCore *gate, Ticket *ticket)
{
    gate->totals->passed_over += 1;
    return had_shortage(k->st, ticket) ? 0 : note_shortage(k, gate, ticket);
}

/* Who of those is let in now: *found, or NULL. 0, or -1 with an exception set. */
static int
choose(Kernel *k, GateCore *gate, const First *those, int n, const First **found)
{
    PyObject *reserved = NULL; /* a demand */
    *found = NULL;
    for (int i = 0; i < n; i++) {
        Ticket *one = those[i].ticket;
        int room = resources_fit(gate, gate->taken, one->demand);
        if (room > 0) {
            int spoils = reserved == NULL ? 0 : resources_spoil(gate, one->demand, reserved);
            if (spoils <= 0) {
                *found = &those[i];
                return spoils;
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

static void
count(int64_t ns, int64_t *sum, int64_t *most)
{
    *sum += ns;
    *most = ns > *most ? ns : *most;
}

/* It leaves the queue for what it asked for. What may fail for want of memory comes first. */
static int
let_in(Kernel *k, GateCore *gate, Ticket *ticket, int64_t effective)
{
    GateTotalsCore *totals = gate->totals;
    int64_t waited = k->now_ns - ticket->ready_ns, starved = waited != 0 ? queues_starved_ns(ticket, k->now_ns) : 0;
    if (queues_let_in(gate->queues, ticket, k->now_ns) < 0 || gate_take(gate, ticket) < 0 ||
        queues_leave(gate->queues, ticket) < 0) {
        return -1;
    }
    ticket->waited_ns = waited;
    ticket->starved_ns = starved;
    count(waited, &totals->wait_ns, &totals->wait_max_ns);
    count(starved, &totals->starved_ns, &totals->starved_max_ns);
    totals->starved += starved != 0;
    return gate_admit(k, gate, ticket, effective);
}

/* Let in one. 1: so it was; 0: nobody may be; 2: it is not for here; -1: error. */
static int
let_in_next(Kernel *k, GateCore *gate)
{
    First those[ROWS_MAX];
    const First *found;
    Py_CLEAR(gate->reserved); /* first: whatever goes with it has gone when those are looked at */
    int n = PyDict_GET_SIZE(gate->returning) > 0 ? -1 : firsts(k, gate, those);
    if (n < 0) {
        return 2;
    }
    if (choose(k, gate, those, n, &found) < 0) {
        return -1;
    }
    return found == NULL ? 0 : let_in(k, gate, found->ticket, found->effective) < 0 ? -1 : 1;
}

/* The same until nobody may be let in. */
static int
let_in_all(Kernel *k, GateCore *gate)
{
    int done, collects = PyGC_Disable(); /* ADMIT-1 */
    gate->last_pass_ns = k->now_ns;
    while ((done = let_in_next(k, gate)) == 1) {
    }
    if (collects) {
        PyGC_Enable();
    }
    return done;
}

int
gate_admit_waiting(Kernel *k, GateCore *gate)
{
    if (!somebody_waits(gate)) {
        return 0;
    }
    bool here = k->observer == NULL && !gate->drops && !gate->admitting;
    int done = here ? let_in_all(k, gate) : 2;
    return done == 2 ? gate_in_python(gate, "admit_waiting", k, NULL) : done;
}
