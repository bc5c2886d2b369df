/* The resources of a gate: what is taken, and whether a demand fits. After `Resources` in law/admission/resources.py.
 *
 * C uses the lists and tuples of the Python object, so both languages change the same numbers. An amount is at most
 * 2**60 (`AMOUNT_MAX`), and what is taken exceeds a limit by at most one amount. So the sums here fit 64 bits.
 */

#include "python/law/admission/resources.h"
#include "python/law/admission/gate_record.h"
#include "python/law/deferred_error.h"

/* Read the i-th pair of a demand (the number of the resource, the amount), and what is taken of it. -1: error. */
static int
read_pair(PyObject *list, PyObject *demand, Py_ssize_t i, Py_ssize_t *number, int64_t *amount, int64_t *taken)
{
    PyObject *pair = PyTuple_GET_ITEM(demand, i);
    *number = PyLong_AsSsize_t(PyTuple_GET_ITEM(pair, 0));
    *amount = PyLong_AsLongLong(PyTuple_GET_ITEM(pair, 1));
    *taken = PyErr_Occurred() ? -1 : PyLong_AsLongLong(PyList_GET_ITEM(list, *number));
    return PyErr_Occurred() ? -1 : 0;
}

/* Read the limit of a resource, and whether the limit is soft. -1: error. */
static int
read_limit(const GateCore *gate, Py_ssize_t number, int64_t *most, bool *soft)
{
    PyObject *limit = PyTuple_GET_ITEM(gate->limits, number); /* (name, amount, soft) */
    *most = PyLong_AsLongLong(PyTuple_GET_ITEM(limit, 1));
    *soft = PyTuple_GET_ITEM(limit, 2) == Py_True;
    return *most == -1 && PyErr_Occurred() ? -1 : 0;
}

int
resources_fit(const GateCore *gate, PyObject *taken, PyObject *demand)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(demand); i++) {
        Py_ssize_t number;
        int64_t amount, before, most;
        bool soft;
        if (read_pair(taken, demand, i, &number, &amount, &before) < 0 || read_limit(gate, number, &most, &soft) < 0) {
            return -1;
        }
        if (before + amount > most && !(soft && before == 0)) { /* RESOURCES-1, RESOURCES-2 */
            return 0;
        }
    }
    return 1;
}

int
resources_break_reservation(const GateCore *gate, PyObject *demand, PyObject *reserved)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(demand) * PyTuple_GET_SIZE(reserved); i++) { /* each pair with each */
        Py_ssize_t number, other;
        int64_t amount, needed, taken, most;
        bool soft;
        if (read_pair(gate->taken, demand, i / PyTuple_GET_SIZE(reserved), &number, &amount, &taken) < 0 ||
            read_pair(gate->taken, reserved, i % PyTuple_GET_SIZE(reserved), &other, &needed, &taken) < 0 ||
            read_limit(gate, number, &most, &soft) < 0) {
            return -1;
        }
        if (number == other && taken + amount + needed > most) {
            return 1;
        }
    }
    return 0;
}

int
resources_take(GateCore *gate, PyObject *demand, int64_t sign)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(demand); i++) {
        Py_ssize_t number;
        int64_t amount, taken;
        if (read_pair(gate->taken, demand, i, &number, &amount, &taken) < 0) {
            return -1;
        }
        taken += sign * amount;
        if (rule(taken >= 0, "RESOURCES-1") < 0) {
            return -1;
        }
        int64_t peak = PyLong_AsLongLong(PyList_GET_ITEM(gate->peak, number));
        PyObject *sum = PyLong_FromLongLong(taken);
        if (sum == NULL || (taken > peak && PyList_SetItem(gate->peak, number, Py_NewRef(sum)) < 0) ||
            PyList_SetItem(gate->taken, number, sum) < 0) {
            return -1;
        }
    }
    return 0;
}
