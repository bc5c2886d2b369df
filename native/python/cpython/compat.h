/* What differs between the CPythons that one source is built for, 3.11 to 3.14, in one place.
 *
 * Everything below is public API somewhere in that range; uses of private API are listed in HACKING.md with why.
 */

#pragma once

#include <Python.h>

#include <stdbool.h>

#include "hints.h"

#if PY_VERSION_HEX < 0x030B0000
#  error "Bursar needs CPython 3.11 or later"
#endif

/* Whether the build may use layouts that are private to CPython: the collector's words in front of an object, the mapping of
 * a context, and what makes a free record an object again. The CMake option BURSAR_PRIVATE_LAYOUTS says so. Without them the
 * documented API takes their place: the decisions are the same, at a higher cost. */
#ifndef BURSAR_PRIVATE_LAYOUTS
#  define BURSAR_PRIVATE_LAYOUTS 1
#endif

/* 3.12 has the normalized exception as one object; before, it is fetched in three parts. */
#if PY_VERSION_HEX < 0x030C0000
static inline PyObject *
PyErr_GetRaisedException(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL) {
        return NULL;
    }
    if (value == NULL || (PyObject *)Py_TYPE(value) != type) { /* else it is one object already: the usual case */
        PyErr_NormalizeException(&type, &value, &traceback);
    }
    if (traceback != NULL) {
        PyException_SetTraceback(value, traceback);
        Py_DECREF(traceback);
    }
    Py_DECREF(type);
    return value;
}

static inline void
PyErr_SetRaisedException(PyObject *error)
{
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(error)), error, PyException_GetTraceback(error));
}
#endif

/* What a call that failed has raised, taken from the thread's state: new reference. An interpreter that has no memory left
 * may fail without setting an exception, and that must not be taken for success. */
static inline PyObject *
taken_error(void)
{
    PyObject *error = PyErr_GetRaisedException();
    if (error == NULL) {
        PyErr_SetString(PyExc_SystemError,
                        "a call returned NULL without setting an exception; is there no memory left?");
        error = PyErr_GetRaisedException();
    }
    return error;
}

/* The thread state that holds the GIL in this thread, or NULL. 3.13 has it under a public name. */
#if PY_VERSION_HEX < 0x030D0000
#  define PyThreadState_GetUnchecked _PyThreadState_UncheckedGet
#endif

/* What a coroutine runs; a new reference. 3.12 says it of itself. */
static inline PyObject *
coroutine_code(PyObject *coroutine)
{
#if !BURSAR_PRIVATE_LAYOUTS
    return PyObject_GetAttrString(coroutine, "cr_code");
#elif PY_VERSION_HEX < 0x030C0000
    return Py_NewRef((PyObject *)((PyCoroObject *)coroutine)->cr_code);
#else
    return (PyObject *)PyGen_GetCode((PyGenObject *)coroutine);
#endif
}

/* Resume what is usually a coroutine: `PyIter_Send`, without asking how. */
static inline PySendResult
coroutine_send(PyObject *work, PyObject *sent, PyObject **result)
{
    return PyCoro_CheckExact(work) ? PyCoro_Type.tp_as_async->am_send(work, sent, result)
                                   : PyIter_Send(work, sent, result);
}

/* Call what is a function in Python: `PyObject_Vectorcall`, without asking how. */
static inline PyObject *
function_call(PyObject *function, PyObject *const *args, size_t n)
{
    return ((PyFunctionObject *)function)->vectorcall(function, args, n, NULL);
}

/* 3.13 names the result of a look-up that may find nothing. */
#if PY_VERSION_HEX < 0x030D0000
static inline int
PyDict_GetItemRef(PyObject *dict, PyObject *key, PyObject **result)
{
    PyObject *found = PyDict_GetItemWithError(dict, key);
    if (found == NULL) {
        *result = NULL;
        return PyErr_Occurred() ? -1 : 0;
    }
    *result = Py_NewRef(found);
    return 1;
}
#endif

/* Whether the collector has what it tracks in rings, one for each generation. Those of 3.14.0 to 3.14.4 collect in
 * increments and mark links with flags; a free-threaded one has no links. It is the running interpreter that is asked: one
 * build is for all of 3.14. Later ones are not known. */
static inline bool
collector_has_rings(void)
{
#ifdef Py_GIL_DISABLED
    return false;
#else
    return Py_Version < 0x030E0000 || (Py_Version >= 0x030E0500 && Py_Version < 0x030F0000);
#endif
}

/* 3.14 counts what is tracked where it enters and leaves a ring; before, only the links say so. */
#define BURSAR_TRACKED_IS_COUNTED (PY_VERSION_HEX >= 0x030E0000)

/* Free lists need `_Py_NewReference`, which is private. A free-threaded interpreter would share them among threads. Where
 * there are none, every record is made anew. */
#if defined(Py_GIL_DISABLED) || !BURSAR_PRIVATE_LAYOUTS
#  define BURSAR_FREE_LISTS 0
#else
#  define BURSAR_FREE_LISTS 1
#endif
