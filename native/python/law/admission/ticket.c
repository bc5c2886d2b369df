/* Tickets: how they are made and freed, and their attributes for Python. After law/admission/ticket.py. Nothing here
 * decides.
 *
 * The struct has the fields that every ticket uses. The fields that few tickets need (pauses, attempts, timers) are in
 * a dict, which is made when one of them is set; until then Python reads their defaults in the class. A shortage, which
 * nearly every queued ticket has, is kept in numbers, and becomes a ShortageRecord when Python reads it.
 *
 *   TICKET-1  the collector does not track a ticket made by `ticket_new` while its task holds it; the task visits what
 *       the ticket refers to, as the nursery does for the task (RECORD-4). So waiting tickets cost collections nothing.
 *       A ticket that outlives its task is tracked from then on
 *   TICKET-2  a ticket that is over refers to no gate, no task and no successor. If it has no wait reason but a
 *       shortage that Python has not read, nothing that it holds leads back to it
 *
 * Rejected: Python lists of successors. The collector would visit each list; it does not see an array.
 */

#include "python/law/admission/ticket.h"
#include "python/law/admission/gate_record.h"
#include "python/module/seam.h"

/* ---- making and freeing */

Ticket *
ticket_new(ModuleState *st, GateCore *gate, int64_t priority, PyObject *demand, PyObject *needs)
{
    Ticket *self = (Ticket *)free_make(&st->free_tickets, st->Ticket);
    if (self == NULL) {
        return NULL;
    }
    self->gate = (GateCore *)Py_NewRef((PyObject *)gate);
    self->demand = Py_NewRef(demand);
    self->needs = Py_XNewRef(needs);
    self->priority = priority;
    return self; /* TICKET-1 */
}

static PyObject *
ticket_make(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kwargs))
{
    ModuleState *st = state_of(type);
    PyObject *self = st == NULL ? NULL : free_make(&st->free_tickets, type);
    if (self != NULL) {
        PyObject_GC_Track(self);
    }
    return self;
}

/* Ticket(gate, priority, demand, needs=NOTHING, state=TicketState.WAITING) */
static int
ticket_init(Ticket *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"gate", "priority", "demand", "needs", "state", NULL};
    ModuleState *st = state_of(Py_TYPE(self));
    PyObject *gate, *demand, *needs = NULL;
    long long priority;
    int state = LAW_TICKET_WAITING;
    if (st == NULL || !PyArg_ParseTupleAndKeywords(args, kwargs, "O!LO!|Oi:Ticket", names, st->GateCore, &gate,
                                                   &priority, &PyTuple_Type, &demand, &needs, &state)) {
        return -1;
    }
    if (state < 0 || state >= LAW_TICKETS) {
        PyErr_SetString(PyExc_ValueError, "not the number of a TicketState");
        return -1;
    }
    Py_XSETREF(self->gate, (GateCore *)Py_NewRef(gate));
    Py_XSETREF(self->demand, Py_NewRef(demand));
    Py_XSETREF(self->needs, Py_XNewRef(needs));
    self->priority = priority;
    self->state = (uint8_t)state;
    return 0;
}

/* Visit what the ticket refers to, for the ticket itself or for its task (TICKET-1). */
static int
visit_fields(Ticket *self, visitproc visit, void *arg)
{
    Py_VISIT(self->gate);
    Py_VISIT(self->task);
    Py_VISIT(self->demand);
    Py_VISIT(self->needs);
    Py_VISIT(self->reasons);
    Py_VISIT(self->rare);
    if (self->shortage != NULL) {
        Py_VISIT(self->shortage->resources);
    }
    for (int32_t i = 0; i < self->successors.n; i++) {
        Py_VISIT((PyObject *)self->successors.tickets[i]);
    }
    return 0;
}

static int
ticket_traverse(Ticket *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return visit_fields(self, visit, arg);
}

static void ticket_dealloc(Ticket *self);

/* Whether the object is a Ticket that the collector does not track. */
static bool
is_untracked(PyObject *ticket)
{
    return Py_TYPE(ticket)->tp_dealloc == (destructor)ticket_dealloc && !PyObject_GC_IsTracked(ticket);
}

int
ticket_visit(PyObject *ticket, visitproc visit, void *arg)
{
    if (ticket != NULL && is_untracked(ticket)) {
        return visit_fields((Ticket *)ticket, visit, arg);
    }
    Py_VISIT(ticket);
    return 0;
}

void
ticket_release(PyObject *ticket)
{
    if (ticket != NULL && Py_REFCNT(ticket) > 1 && is_untracked(ticket)) {
        PyObject_GC_Track(ticket); /* TICKET-1 */
    }
    Py_XDECREF(ticket);
}

bool
ticket_is_done(PyObject *ticket)
{
    const Ticket *self = (Ticket *)ticket;
    return is_untracked(ticket) && self->state == LAW_TICKET_DONE && self->gate == NULL && self->rare == NULL &&
           self->reasons == NULL && self->task == NULL;
}

void
successors_drop(Successors *successors)
{
    Successors gone = *successors;
    *successors = (Successors){NULL, 0};
    for (int32_t i = 0; i < gone.n; i++) {
        Py_DECREF((PyObject *)gone.tickets[i]);
    }
    PyMem_Free(gone.tickets);
}

int
successors_add(Successors *successors, Ticket *ticket)
{
    int32_t n = successors->n;
    if ((n & (n - 1)) == 0) { /* the array is full: its size is a power of two */
        size_t room = n == 0 ? 1 : 2 * (size_t)n;
        Ticket **tickets = room > INT32_MAX ? NULL : PyMem_Realloc(successors->tickets, sizeof(Ticket *) * room);
        if (tickets == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        successors->tickets = tickets;
    }
    successors->tickets[successors->n++] = (Ticket *)Py_NewRef((PyObject *)ticket);
    return 0;
}

static void
drop_shortage(Ticket *self)
{
    Shortage *shortage = self->shortage;
    self->shortage = NULL;
    if (shortage != NULL) {
        Py_DECREF(shortage->resources);
        Py_XDECREF(shortage->kept_for);
        PyMem_Free(shortage);
    }
}

static int
ticket_clear(Ticket *self)
{
    Py_CLEAR(self->gate);
    Py_CLEAR(self->task);
    Py_CLEAR(self->demand);
    Py_CLEAR(self->needs);
    Py_CLEAR(self->reasons);
    Py_CLEAR(self->rare);
    drop_shortage(self);
    successors_drop(&self->successors);
    return 0;
}

/* A ticket holds its successors, which hold their own. The trashcan frees such a chain without recursion. */
static void
ticket_dealloc(Ticket *self)
{
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, ticket_dealloc) ModuleState *st = state_left(Py_TYPE(self));
    ticket_clear(self);
    free_drop(st ? &st->free_tickets : NULL, (PyObject *)self);
    Py_TRASHCAN_END
}

/* ---- shortages */

int
ticket_note_shortage(Ticket *self, int64_t now_ns, PyObject *resources, PyObject *taken, PyObject *kept_for)
{
    Py_ssize_t n = PyList_GET_SIZE(taken);
    Shortage *shortage = PyMem_Malloc(sizeof(Shortage) + sizeof(int64_t) * (size_t)n);
    if (shortage == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        shortage->taken[i] = PyLong_AsLongLong(PyList_GET_ITEM(taken, i));
    }
    if (PyErr_Occurred()) {
        PyMem_Free(shortage);
        return -1;
    }
    shortage->since_ns = now_ns;
    shortage->n = n;
    shortage->resources = Py_NewRef(resources);
    shortage->kept_for = Py_XNewRef(kept_for);
    self->shortage = shortage;
    return 0;
}

/* The shortage as a ShortageRecord(since_ns, resources, demand, taken, kept_for). New reference. */
static PyObject *
shortage_record(ModuleState *st, const Ticket *self)
{
    const Shortage *shortage = self->shortage;
    PyObject *taken = PyTuple_New(shortage->n);
    for (Py_ssize_t i = 0; taken != NULL && i < shortage->n; i++) {
        PyObject *amount = PyLong_FromLongLong(shortage->taken[i]);
        if (amount == NULL) {
            Py_CLEAR(taken);
            break;
        }
        PyTuple_SET_ITEM(taken, i, amount);
    }
    PyObject *kept_for = taken == NULL                ? NULL
                         : shortage->kept_for != NULL ? Py_NewRef(shortage->kept_for)
                                                      : PyUnicode_New(0, 0);
    PyObject *fields = kept_for == NULL ? NULL
                                        : Py_BuildValue("((LOOOO))", (long long)shortage->since_ns, shortage->resources,
                                                        self->demand, taken, kept_for);
    PyObject *note = fields == NULL ? NULL : PyTuple_Type.tp_new((PyTypeObject *)st->ShortageRecord, fields, NULL);
    Py_XDECREF(taken);
    Py_XDECREF(kept_for);
    Py_XDECREF(fields);
    return note;
}

/* ---- the Python type */

static PyObject *
get_state(Ticket *self, void *Py_UNUSED(closure))
{
    ModuleState *st = state_of(Py_TYPE(self));
    return st == NULL ? NULL : Py_NewRef(st->ticket_states[self->state]);
}

/* Sets only the field: `move` in Python checks the table. */
static int
set_state(Ticket *self, PyObject *value, void *Py_UNUSED(closure))
{
    long state = value == NULL ? -1 : PyLong_AsLong(value);
    if (state < 0 || state >= LAW_TICKETS) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "not the number of a TicketState");
        }
        return -1;
    }
    self->state = (uint8_t)state;
    return 0;
}

static PyObject *
get_needs(Ticket *self, void *Py_UNUSED(closure))
{
    ModuleState *st = state_of(Py_TYPE(self));
    return st == NULL ? NULL : Py_XNewRef(self->needs != NULL ? self->needs : py_require(st, PY_NOTHING));
}

static int
set_needs(Ticket *self, PyObject *value, void *Py_UNUSED(closure))
{
    Py_XSETREF(self->needs, Py_XNewRef(value));
    return 0;
}

static int
set_demand(Ticket *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (value == NULL || !PyTuple_CheckExact(value)) {
        PyErr_SetString(PyExc_TypeError, "a demand is a tuple of pairs (resource, amount)");
        return -1;
    }
    Py_XSETREF(self->demand, Py_NewRef(value));
    return 0;
}

static PyObject *
get_demand(Ticket *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->demand != NULL ? self->demand : Py_None);
}

/* A new list, or None if there is no successor. */
static PyObject *
get_successors(Ticket *self, void *Py_UNUSED(closure))
{
    if (self->successors.n == 0) {
        Py_RETURN_NONE;
    }
    PyObject *list = PyList_New(self->successors.n);
    for (int32_t i = 0; list != NULL && i < self->successors.n; i++) {
        PyList_SET_ITEM(list, i, Py_NewRef((PyObject *)self->successors.tickets[i]));
    }
    return list;
}

static int
set_successors(Ticket *self, PyObject *value, void *Py_UNUSED(closure))
{
    ModuleState *st = state_of(Py_TYPE(self));
    Successors successors = {NULL, 0};
    Py_ssize_t n = value == NULL || value == Py_None ? 0 : PyList_CheckExact(value) ? PyList_GET_SIZE(value) : -1;
    int failed = st == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; failed == 0 && i < n; i++) {
        PyObject *one = PyList_GET_ITEM(value, i);
        n = Py_IS_TYPE(one, st->Ticket) ? n : -1;
        failed = n < 0 ? 0 : successors_add(&successors, (Ticket *)one);
    }
    if (n < 0) {
        PyErr_SetString(PyExc_TypeError, "successors is a list of tickets of the native kernel, or None");
        failed = -1;
    }
    Successors before = self->successors;
    if (failed == 0) {
        self->successors = successors;
        successors = before;
    }
    successors_drop(&successors);
    return failed;
}

static PyObject *
ticket_precede(Ticket *self, PyObject *other)
{
    ModuleState *st = state_of(Py_TYPE(self));
    if (st == NULL || !Py_IS_TYPE(other, st->Ticket)) {
        PyErr_SetString(PyExc_TypeError, "precede() takes a ticket of the native kernel");
        return NULL;
    }
    return successors_add(&self->successors, (Ticket *)other) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
get_reasons(Ticket *self, void *Py_UNUSED(closure))
{
    ModuleState *st = self->shortage == NULL ? NULL : state_of(Py_TYPE(self));
    if (st != NULL) { /* make the list of wait reasons, with the shortage as the first */
        PyObject *note = shortage_record(st, self), *list = note == NULL ? NULL : PyList_New(1);
        if (list == NULL) {
            Py_XDECREF(note);
            return NULL;
        }
        PyList_SET_ITEM(list, 0, note);
        Py_XSETREF(self->reasons, list);
        drop_shortage(self);
        if (self->state == LAW_TICKET_DONE && is_untracked((PyObject *)self)) {
            PyObject_GC_Track((PyObject *)self); /* the list could lead back to the ticket (TICKET-2) */
        }
    }
    return Py_NewRef(self->reasons != NULL ? self->reasons : Py_None);
}

static int
set_reasons(Ticket *self, PyObject *value, void *Py_UNUSED(closure))
{
    drop_shortage(self);
    Py_XSETREF(self->reasons, value == NULL || value == Py_None ? NULL : Py_NewRef(value));
    return 0;
}

static PyObject *
get_gate(Ticket *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->gate != NULL ? (PyObject *)self->gate : Py_None);
}

/* Only to None, when the task has ended. */
static int
set_gate(Ticket *self, PyObject *value, void *Py_UNUSED(closure))
{
    if (value != Py_None) {
        PyErr_SetString(PyExc_AttributeError, "the gate of a ticket can only be set to None");
        return -1;
    }
    Py_CLEAR(self->gate);
    return 0;
}

static PyGetSetDef ticket_getset[] = {
    {"state", (getter)get_state, (setter)set_state, NULL, NULL},
    {"needs", (getter)get_needs, (setter)set_needs, NULL, NULL},
    {"demand", (getter)get_demand, (setter)set_demand, NULL, NULL},
    {"successors", (getter)get_successors, (setter)set_successors, NULL, NULL},
    {"reasons", (getter)get_reasons, (setter)set_reasons, NULL, NULL},
    {"gate", (getter)get_gate, (setter)set_gate, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef ticket_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(Ticket, rare), READONLY, NULL},
    {"task", T_OBJECT, offsetof(Ticket, task), 0, NULL},
    {"priority", T_LONGLONG, offsetof(Ticket, priority), 0, NULL},
    {"entered_ns", T_LONGLONG, offsetof(Ticket, entered_ns), 0, NULL},
    {"ready_ns", T_LONGLONG, offsetof(Ticket, ready_ns), 0, NULL},
    {"waited_ns", T_LONGLONG, offsetof(Ticket, waited_ns), 0, NULL},
    {"starved_ns", T_LONGLONG, offsetof(Ticket, starved_ns), 0, NULL},
    {"place", T_LONGLONG, offsetof(Ticket, place), 0, NULL},
    {"dependency_count", T_INT, offsetof(Ticket, dependency_count), 0, NULL},
    {"unmet", T_INT, offsetof(Ticket, unmet), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef ticket_methods[] = {
    {"precede", (PyCFunction)ticket_precede, METH_O, "Note that the ticket `other` follows this one."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot ticket_slots[] = {
    {Py_tp_doc, "What a gate knows of one task, from its spawn to its end."},
    {Py_tp_new, ticket_make},
    {Py_tp_init, ticket_init},
    {Py_tp_traverse, ticket_traverse},
    {Py_tp_clear, ticket_clear},
    {Py_tp_dealloc, ticket_dealloc},
    {Py_tp_methods, ticket_methods},
    {Py_tp_getset, ticket_getset},
    {Py_tp_members, ticket_members},
    {0, NULL},
};

PyType_Spec ticket_spec = {
    .name = "bursar._native.Ticket",
    .basicsize = sizeof(Ticket),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = ticket_slots,
};
