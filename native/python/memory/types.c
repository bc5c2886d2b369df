/* The Python types of the meter: `MemoryAccountSet` and `MemoryAccount`. drive/memory.py uses them.
 *
 * A set keeps the hooks installed until `close()`, and says which accounts have changed. An account belongs to one task, and
 * keeps its set alive.
 *
 * MEMORYTYPE-1  An account that is entered holds a reference to itself until it is left.
 * MEMORYTYPE-2  A closed set notifies no task. Its accounts can still be left and read.
 */

#define PY_SSIZE_T_CLEAN
#include "python/memory/types.h"
#include "python/memory/accounts.h"
#include "python/memory/meter.h"
#include "python/memory/owners.h"

typedef struct {
    PyObject_HEAD
    AccountSet *accounts;
    PyObject *make_error;
    bool open;
} MemoryAccountSetObject;

typedef struct {
    PyObject_HEAD
    MeterAccount *account;
    PyObject *accounts;
    bool entered;
} Account;

/* MeterMakeError: calls the function that Python gave. */
static PyObject *
make_error(void *context, uint64_t tag)
{
    MemoryAccountSetObject *accounts = context;
    if (!accounts->open) {
        return Py_NewRef(Py_None);
    }
    PyObject *number = PyLong_FromUnsignedLongLong(tag);
    PyObject *error = number == NULL ? NULL : PyObject_CallOneArg(accounts->make_error, number);
    Py_XDECREF(number);
    if (error != NULL && error != Py_None && !PyExceptionInstance_Check(error)) {
        PyErr_Format(PyExc_TypeError, "make_error() returned %R, which is not an exception", error);
        Py_CLEAR(error);
    }
    return error;
}

/* ---- MemoryAccountSet */

static PyObject *
account_set_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"make_error", NULL};
    PyObject *callable;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:MemoryAccountSet", names, &callable)) {
        return NULL;
    }
    if (meter_install() < 0) { /* first: if it refuses another interpreter, no object may have been made */
        return NULL;
    }
    MemoryAccountSetObject *self = (MemoryAccountSetObject *)type->tp_alloc(type, 0);
    if (self == NULL || accounts_prepare() < 0 || (self->accounts = account_set_make(make_error, self)) == NULL) {
        meter_uninstall();
        Py_XDECREF(self);
        return NULL;
    }
    self->open = true;
    self->make_error = Py_NewRef(callable);
    return (PyObject *)self;
}

static int
account_set_traverse(MemoryAccountSetObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->make_error);
    return 0;
}

/* Closes the set. */
static int
account_set_clear(MemoryAccountSetObject *self)
{
    if (self->open) {
        self->open = false;
        accounts_leave_all(self->accounts);
        meter_uninstall();
    }
    Py_CLEAR(self->make_error);
    return 0;
}

static void
account_set_dealloc(MemoryAccountSetObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    (void)account_set_clear(self);
    if (self->accounts != NULL) {
        account_set_free(self->accounts);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
account_set_close(MemoryAccountSetObject *self, PyObject *Py_UNUSED(args))
{
    (void)account_set_clear(self);
    Py_RETURN_NONE;
}

static PyObject *
account_set_changed(MemoryAccountSetObject *self, PyObject *Py_UNUSED(args))
{
    MeterAccount *account;
    PyObject *tags = PyList_New(0);
    while (tags != NULL && meter_changed(self->accounts, &account)) {
        PyObject *tag = PyLong_FromUnsignedLongLong(meter_tag(account));
        if (tag == NULL || PyList_Append(tags, tag) < 0) {
            Py_CLEAR(tags);
        }
        Py_XDECREF(tag);
    }
    return tags;
}

static PyMethodDef account_set_methods[] = {
    {"close", (PyCFunction)(void (*)(void))account_set_close, METH_NOARGS,
     "close()\n--\n\nThe run has ended. The last set to be closed removes the hooks."},
    {"changed", (PyCFunction)(void (*)(void))account_set_changed, METH_NOARGS,
     "changed()\n--\n\nThe tags of the accounts whose blocks were freed by others since the last call."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot account_set_slots[] = {
    {Py_tp_doc,
     "MemoryAccountSet(make_error)\n--\n\nThe memory accounts of one run. make_error(tag) returns the exception for a "
     "task that is over its limit, or None if it cannot be raised now."},
    {Py_tp_new, (void *)account_set_new},
    {Py_tp_dealloc, (void *)account_set_dealloc},
    {Py_tp_traverse, (void *)account_set_traverse},
    {Py_tp_clear, (void *)account_set_clear},
    {Py_tp_methods, account_set_methods},
    {0, NULL},
};

static PyType_Spec account_set_spec = {
    .name = "bursar._native.MemoryAccountSet",
    .basicsize = sizeof(MemoryAccountSetObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = account_set_slots,
};

/* ---- MemoryAccount */

static PyObject *
account_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"accounts", "tag", NULL};
    PyObject *accounts;
    unsigned long long tag;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OK:MemoryAccount", names, &accounts, &tag)) {
        return NULL;
    }
    if (PyType_GetSlot(Py_TYPE(accounts), Py_tp_new) != (void *)account_set_new) { /* no other type has this slot */
        return PyErr_Format(PyExc_TypeError, "%R is not a MemoryAccountSet", accounts);
    }
    Account *self = (Account *)type->tp_alloc(type, 0);
    if (self == NULL ||
        (self->account = meter_account_new(((MemoryAccountSetObject *)accounts)->accounts, tag)) == NULL) {
        Py_XDECREF(self);
        return NULL;
    }
    self->accounts = Py_NewRef(accounts);
    return (PyObject *)self;
}

static int
account_traverse(Account *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->accounts);
    return 0;
}

static void
account_dealloc(Account *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (self->account != NULL) {
        meter_account_free(self->account);
    }
    Py_XDECREF(self->accounts);
    type->tp_free(self);
    Py_DECREF(type);
}

MeterAccount *
meter_face_account(PyObject *account)
{
    return ((Account *)account)->account;
}

bool
meter_face_quiet(PyObject *account)
{
    return meter_quiet(((MemoryAccountSetObject *)((Account *)account)->accounts)->accounts);
}

int
meter_face_enter(PyObject *account, int64_t left_bytes)
{
    Account *self = (Account *)account;
    if (self->entered) {
        PyErr_Format(PyExc_RuntimeError, "account %llu is already entered",
                     (unsigned long long)meter_tag(self->account));
        return -1;
    }
    self->entered = true;
    Py_INCREF(self);
    meter_enter(self->account, left_bytes);
    return 0;
}

int
meter_face_leave(PyObject *account)
{
    Account *self = (Account *)account;
    if (!self->entered) {
        PyErr_Format(PyExc_RuntimeError, "account %llu is not entered", (unsigned long long)meter_tag(self->account));
        return -1;
    }
    self->entered = false;
    if (((MemoryAccountSetObject *)self->accounts)->open ||
        meter_entered(self->account)) { /* otherwise `close` has left it */
        meter_leave(self->account);
    }
    Py_DECREF(self); /* not the last one: the caller holds a reference too */
    return 0;
}

static PyObject *
account_enter(Account *self, PyObject *left)
{
    int64_t left_bytes = METER_OPEN;
    if (left != Py_None) {
        left_bytes = PyLong_AsLongLong(left);
        if (left_bytes < 0) {
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "enter(%R): not a number of bytes", left);
        }
    }
    return meter_face_enter((PyObject *)self, left_bytes) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
account_leave(Account *self, PyObject *Py_UNUSED(args))
{
    return meter_face_leave((PyObject *)self) < 0 ? NULL : PyLong_FromLongLong(meter_due_bytes(self->account));
}

static PyObject *
account_paid(Account *self, PyObject *amount)
{
    int64_t bytes = PyLong_AsLongLong(amount);
    if (bytes == -1 && PyErr_Occurred()) {
        return NULL;
    }
    meter_paid(self->account, bytes);
    Py_RETURN_NONE;
}

static PyObject *
account_end(Account *self, PyObject *Py_UNUSED(args))
{
    meter_end(self->account);
    return PyLong_FromLongLong(meter_due_bytes(self->account));
}

static PyObject *
account_notify_once(Account *self, PyObject *Py_UNUSED(args))
{
    return PyBool_FromLong(meter_notify_once(self->account));
}

static PyObject *
account_due(Account *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(meter_due_bytes(self->account));
}

static PyObject *
account_held(Account *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(meter_held_bytes(self->account));
}

static PyObject *
account_refused(Account *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(meter_refused_bytes(self->account));
}

static PyMethodDef account_methods[] = {
    {"enter", (PyCFunction)(void (*)(void))account_enter, METH_O,
     "enter(left)\n--\n\nCharge what this thread allocates from here on, up to `left` bytes; None: without limit."},
    {"leave", (PyCFunction)(void (*)(void))account_leave, METH_NOARGS,
     "leave()\n--\n\nEnd what enter() began. Returns what is due."},
    {"paid", (PyCFunction)(void (*)(void))account_paid, METH_O,
     "paid(bytes)\n--\n\nThe pool was charged for these bytes, or refunded if negative."},
    {"end", (PyCFunction)(void (*)(void))account_end, METH_NOARGS,
     "end()\n--\n\nThe task has ended: its first arena counts too. Returns what is due."},
    {"notify_once", (PyCFunction)(void (*)(void))account_notify_once, METH_NOARGS,
     "notify_once()\n--\n\nWhether the task is over its limit and was not notified. True once per excess."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef account_values[] = {
    {"due", (getter)(void (*)(void))account_due, NULL, "Bytes to be charged, or refunded if negative.", NULL},
    {"held", (getter)(void (*)(void))account_held, NULL, "Bytes of blocks and arenas that are alive.", NULL},
    {"refused", (getter)(void (*)(void))account_refused, NULL, "The last request that was refused; 0: none.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot account_slots[] = {
    {Py_tp_doc, "MemoryAccount(accounts, tag)\n--\n\nThe memory that one task holds."},
    {Py_tp_new, (void *)account_new},
    {Py_tp_dealloc, (void *)account_dealloc},
    {Py_tp_traverse, (void *)account_traverse},
    {Py_tp_methods, account_methods},
    {Py_tp_getset, account_values},
    {0, NULL},
};

static PyType_Spec account_spec = {
    .name = "bursar._native.MemoryAccount",
    .basicsize = sizeof(Account),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = account_slots,
};

/* ---- the module's part */

static PyObject *
memory_hooks(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    return Py_BuildValue("Nn", PyBool_FromLong(meter_installed()), (Py_ssize_t)owners_count());
}

PyMethodDef meter_methods[] = {
    {"memory_hooks", memory_hooks, METH_NOARGS,
     "memory_hooks()\n--\n\nWhether the hooks of the meter are installed, and how many blocks have an owner."},
    {NULL, NULL, 0, NULL},
};

int
meter_exec(PyObject *module)
{
    PyType_Spec *specs[] = {&account_set_spec, &account_spec};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        PyObject *type = PyType_FromModuleAndSpec(module, specs[i], NULL);
        int added = type == NULL ? -1 : PyModule_AddType(module, (PyTypeObject *)type);
        Py_XDECREF(type);
        if (added < 0) {
            return -1;
        }
    }
    return PyModule_AddFunctions(module, meter_methods);
}
