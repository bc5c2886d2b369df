/* The methods of the kernel with which Python cancels. Each checks its arguments and calls the function in cancel.c,
 * cancel_request.c or cleanup.c. Method, then function in src/bursar/law/cancel.py and cleanup.py:
 *
 *     cancel_request(scope, reason)    request           begin_cleanup(task)       begin_cleanup
 *     cancel_nursery(nursery, reason)  request_nursery   pause_cleanup(task)       pause_cleanup
 *     leave_scope(block)               leave             resume_cleanup(task)      resume_cleanup
 *     leave_all(task)                  leave_all         end_cleanup(task)         end_cleanup
 *     deliver_cancel(task)             deliver           require_innermost(block)  require_innermost
 *     look_scope(task)                 look              move_scope(scope, phase)  move
 *
 * All are METH_FASTCALL. `self` is a Kernel, or of a type derived from it.
 *
 * Python code may pass anything, for example a record of the Python kernel. An argument of the wrong type raises
 * TypeError before anything changes.
 */

#include "python/law/cancel.h"
#include "python/law/cancel_request.h"
#include "python/law/cleanup.h"
#include "python/law/observer.h"
#include "python/law/task.h"

/* Refuse another number of arguments. 0, or -1 with TypeError set. */
static int
require_count(const char *name, Py_ssize_t n, Py_ssize_t wanted)
{
    if (n != wanted) {
        PyErr_Format(PyExc_TypeError, "%s() takes %zd arguments, not %zd", name, wanted, n);
        return -1;
    }
    return 0;
}

/* Refuse an object of another type. 0, or -1 with TypeError set. */
static int
require_type(const char *name, PyObject *object, PyTypeObject *type)
{
    if (!PyObject_TypeCheck(object, type)) {
        PyErr_Format(PyExc_TypeError, "%s() needs a record of type %s of the C kernel, not one of type %s", name,
                     type->tp_name, Py_TYPE(object)->tp_name);
        return -1;
    }
    return 0;
}

/* Refuse an object that is neither a cancel scope nor a task. 0, or -1 with TypeError set. */
static int
require_scope(ModuleState *st, const char *name, PyObject *object)
{
    return is_task(object) ? 0 : require_type(name, object, st->CancelScope);
}

/* None, or NULL if `result` says that an exception is set. */
static PyObject *
none_if(int result)
{
    return result < 0 ? NULL : NOTHING;
}

/* A method with one argument of the given type that returns None. */
#define ONE_ARGUMENT(method, Type, call)                                                              \
    static PyObject *method(Kernel *self, PyObject *const *args, Py_ssize_t n)                        \
    {                                                                                                 \
        if (require_count(#method, n, 1) < 0 || require_type(#method, args[0], self->st->Type) < 0) { \
            return NULL;                                                                              \
        }                                                                                             \
        return none_if(call(self, (Type *)args[0]));                                                  \
    }

ONE_ARGUMENT(leave_scope, CancelScope, cancel_leave)
ONE_ARGUMENT(require_innermost, CancelScope, cancel_require_innermost)
ONE_ARGUMENT(leave_all, Task, cancel_leave_all)
ONE_ARGUMENT(begin_cleanup, Task, cancel_begin_cleanup)
ONE_ARGUMENT(pause_cleanup, Task, cancel_pause_cleanup)
ONE_ARGUMENT(resume_cleanup, Task, cancel_resume_cleanup)
ONE_ARGUMENT(end_cleanup, Task, cancel_end_cleanup)

static int
look(Kernel *k, Task *task)
{
    cancel_look(k->st, task);
    return 0;
}

ONE_ARGUMENT(look_scope, Task, look)

static PyObject *
request_scope(Kernel *self, PyObject *const *args, Py_ssize_t n)
{
    if (require_count("cancel_request", n, 2) < 0 || require_scope(self->st, "cancel_request", args[0]) < 0) {
        return NULL;
    }
    return none_if(cancel_request(self, args[0], args[1]));
}

static PyObject *
cancel_nursery(Kernel *self, PyObject *const *args, Py_ssize_t n)
{
    if (require_count("cancel_nursery", n, 2) < 0 || require_type("cancel_nursery", args[0], self->st->Nursery) < 0) {
        return NULL;
    }
    return none_if(cancel_request_nursery(self, (Nursery *)args[0], args[1]));
}

static PyObject *
deliver_cancel(Kernel *self, PyObject *const *args, Py_ssize_t n)
{
    if (require_count("deliver_cancel", n, 1) < 0 || require_type("deliver_cancel", args[0], self->st->Task) < 0) {
        return NULL;
    }
    PyObject *error;
    if (cancel_deliver(self, (Task *)args[0], &error) < 0) {
        return NULL;
    }
    return error != NULL ? error : NOTHING;
}

static PyObject *
move_scope(Kernel *self, PyObject *const *args, Py_ssize_t n)
{
    ModuleState *st = self->st;
    if (require_count("move_scope", n, 2) < 0 || require_scope(st, "move_scope", args[0]) < 0) {
        return NULL;
    }
    for (int phase = LAW_PHASE_IDLE; phase <= LAW_PHASE_FINALIZED; phase++) {
        if (args[1] == st->phases[phase]) {
            return none_if(cancel_move(st, args[0], (LawCancelPhase)phase));
        }
    }
    PyErr_Format(PyExc_TypeError, "move_scope() needs a CancelPhase, not %R", args[1]);
    return NULL;
}

#define METHOD(name, function, doc) {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, doc}

PyMethodDef cancel_methods[] = {
    METHOD("cancel_request", request_scope, "Ask a scope and everything that it owns to stop."),
    METHOD("cancel_nursery", cancel_nursery, "Cancel a nursery: its children, and the body of its block."),
    METHOD("leave_scope", leave_scope, "Close the innermost block."),
    METHOD("leave_all", leave_all, "The task has ended: close the blocks that it did not leave."),
    METHOD("deliver_cancel", deliver_cancel,
           "The `Cancelled` to throw into the task now, or None. Starts the cleanup of the task."),
    METHOD("begin_cleanup", begin_cleanup, "Start the cleanup of a task: from now on its cleanup allowance counts."),
    METHOD("pause_cleanup", pause_cleanup, "Stop the cleanup time of a task that only waits for cancelled children."),
    METHOD("resume_cleanup", resume_cleanup, "Let the cleanup time of a task run again."),
    METHOD("end_cleanup", end_cleanup, "The task left the cancelled block in time: its cleanup is over."),
    METHOD("require_innermost", require_innermost, "Raise unless the running task may leave the block now."),
    METHOD("look_scope", look_scope, "Note whether the innermost scope of the task can see a request."),
    METHOD("move_scope", move_scope, "Change the phase of a scope, forward only."),
    {NULL, NULL, 0, NULL},
};
