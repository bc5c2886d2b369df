/* The observer: the function that gets every event of the kernel. Also the counters of rare events. After `note` in
 * law/dispatch.py.
 *
 * The kernel calls the observer in the middle of a change, which must complete. So an error of the observer is deferred
 * (deferred_error.c).
 */

#include "python/law/observer.h"
#include "python/law/deferred_error.h"

int
k_note(Kernel *k, const char *what, Task *task, PyObject *detail)
{
    PyObject *name = detail == NULL ? NULL : PyUnicode_InternFromString(what);
    if (name == NULL) {
        Py_XDECREF(detail);
        return k_defer_error(k);
    }
    PyObject *observer = Py_XNewRef(k->observer); /* RECORD-3; NULL: making the detail ran code that removed it */
    PyObject *args[] = {name, task ? (PyObject *)task : Py_None, detail};
    PyObject *result = observer == NULL ? NOTHING : PyObject_Vectorcall(observer, args, 3, NULL);
    Py_XDECREF(observer);
    Py_DECREF(name);
    Py_DECREF(detail);
    Py_XDECREF(result);
    return result == NULL ? k_defer_error(k) : 0;
}

int
k_count(Kernel *k, const char *counter)
{
    PyObject *name = PyUnicode_InternFromString(counter), *old = NULL, *one = NULL, *sum = NULL;
    int failed = -1;
    if (name != NULL && (old = PyObject_GetItem(k->counters, name)) != NULL && (one = PyLong_FromLong(1)) != NULL &&
        (sum = PyNumber_Add(old, one)) != NULL) {
        failed = PyObject_SetItem(k->counters, name, sum);
    }
    Py_XDECREF(name);
    Py_XDECREF(old);
    Py_XDECREF(one);
    Py_XDECREF(sum);
    return failed < 0 ? k_defer_error(k) : 0;
}
