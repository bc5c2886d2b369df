/* Deferred errors: a failure inside a change that must complete is stored, and raised at the next step.
 *
 * Only the first error is kept: the others are most likely its consequences.
 */

#include "python/law/deferred_error.h"

int
k_defer_error(Kernel *k)
{
    PyObject *error = taken_error();
    if (k->deferred_error == NULL) {
        k->deferred_error = error;
    } else {
        Py_DECREF(error);
    }
    return 0;
}

int
k_raise_deferred(const Kernel *k)
{
    PyErr_SetRaisedException(Py_NewRef(k->deferred_error));
    return -1;
}

int
rule_broken(const char *name)
{
    PyErr_SetString(PyExc_AssertionError, name);
    return -1;
}
