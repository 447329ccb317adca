/* The queue of events: see clock.py, whose Python code does the same. The heap is the same list of the same tuples
(time, priority, number, call), so that calls happen in one order whichever of the two puts and takes them. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

static PyTypeObject *environment_type, *timer_type, *line_type, *event_type;
static PyObject *deque_type, *step; /* SimPy's own step */
static Py_ssize_t timer_call, timer_env, timer_pending, line_calls, line_env, line_first; /* places of slots */
static PyObject *name_now, *name_eid, *name_queue, *name_cancelled, *name_append, *name_popleft, *normal;

#define SLOT(object, place) (*(PyObject **)((char *)(object) + (place)))

static void set_slot(PyObject *object, Py_ssize_t place, PyObject *value)
{
    PyObject *before = SLOT(object, place);
    Py_INCREF(value);
    SLOT(object, place) = value;
    Py_XDECREF(before);
}

/* The value of a slot, with a reference; an error if the slot is empty. */
static PyObject *slot(PyObject *object, Py_ssize_t place)
{
    PyObject *value = SLOT(object, place);
    if (value == NULL) {
        PyErr_SetString(PyExc_AttributeError, "an attribute is missing");
        return NULL;
    }
    return Py_NewRef(value);
}

/* 1 if one number is less than another, 0 if not, -1 for an error. */
static int is_less(PyObject *one, PyObject *other)
{
    if (PyFloat_CheckExact(one) && PyFloat_CheckExact(other))
        return PyFloat_AS_DOUBLE(one) < PyFloat_AS_DOUBLE(other);
    return PyObject_RichCompareBool(one, other, Py_LT);
}

/* The same for entries of the heap. */
static int is_before(PyObject *one, PyObject *other)
{
    if (PyTuple_CheckExact(one) && PyTuple_CheckExact(other) && PyTuple_GET_SIZE(one) == 4
        && PyTuple_GET_SIZE(other) == 4) {
        PyObject *time = PyTuple_GET_ITEM(one, 0), *later = PyTuple_GET_ITEM(other, 0);
        if (PyFloat_CheckExact(time) && PyFloat_CheckExact(later)) {
            double t = PyFloat_AS_DOUBLE(time), u = PyFloat_AS_DOUBLE(later);
            if (t < u)
                return 1;
            if (t > u)
                return 0;
            PyObject *number = PyTuple_GET_ITEM(one, 2), *next = PyTuple_GET_ITEM(other, 2);
            if (t == u && PyTuple_GET_ITEM(one, 1) == PyTuple_GET_ITEM(other, 1) && PyLong_CheckExact(number)
                && PyLong_CheckExact(next)) {
                int overflow;
                long long n = PyLong_AsLongLongAndOverflow(number, &overflow);
                if (!overflow) {
                    long long m = PyLong_AsLongLongAndOverflow(next, &overflow);
                    if (!overflow)
                        return n < m;
                }
            }
        }
    }
    return PyObject_RichCompareBool(one, other, Py_LT);
}

#define ENTRY(heap, i) PyList_GET_ITEM(heap, i)

/* Move the entry at `place` towards the root, at most to `top`. Comparing runs no code of Python that changes a heap. */
static int sift_up(PyObject *heap, Py_ssize_t top, Py_ssize_t place)
{
    PyObject *entry = ENTRY(heap, place);
    while (place > top) {
        Py_ssize_t above = (place - 1) >> 1;
        PyObject *other = ENTRY(heap, above);
        int less = is_before(entry, other);
        if (less < 0)
            return -1;
        if (!less)
            break;
        PyList_SET_ITEM(heap, place, other);
        PyList_SET_ITEM(heap, above, entry);
        place = above;
    }
    return 0;
}

static int push(PyObject *heap, PyObject *entry)
{
    return PyList_Append(heap, entry) < 0 ? -1 : sift_up(heap, 0, PyList_GET_SIZE(heap) - 1);
}

/* Remove and return the first entry of a heap that is not empty. */
static PyObject *pop(PyObject *heap)
{
    Py_ssize_t size = PyList_GET_SIZE(heap) - 1, place = 0, below;
    PyObject *last = Py_NewRef(ENTRY(heap, size));
    if (PyList_SetSlice(heap, size, size + 1, NULL) < 0) {
        Py_DECREF(last);
        return NULL;
    }
    if (!size)
        return last;
    PyObject *first = ENTRY(heap, 0);
    PyList_SET_ITEM(heap, 0, last);
    while ((below = 2 * place + 1) < size) {
        if (below + 1 < size) {
            int less = is_before(ENTRY(heap, below), ENTRY(heap, below + 1));
            if (less < 0)
                goto failed;
            below += !less;
        }
        PyObject *other = ENTRY(heap, below);
        PyList_SET_ITEM(heap, below, ENTRY(heap, place));
        PyList_SET_ITEM(heap, place, other);
        place = below;
    }
    if (sift_up(heap, 0, place) < 0)
        goto failed;
    return first;
failed:
    Py_DECREF(first);
    return NULL;
}

/* The heap of an environment, with a reference. */
static PyObject *heap_of(PyObject *env)
{
    PyObject *heap = PyObject_GetAttr(env, name_queue);
    if (heap != NULL && !PyList_CheckExact(heap)) {
        PyErr_SetString(PyExc_TypeError, "the heap is no list");
        Py_CLEAR(heap);
    }
    return heap;
}

/* `when`, or the present time of the environment if that is later; with a reference. */
static PyObject *not_past(PyObject *env, PyObject *when)
{
    PyObject *now = PyObject_GetAttr(env, name_now);
    if (now == NULL)
        return NULL;
    int is_later = is_less(now, when);
    if (is_later > 0) {
        Py_DECREF(now);
        return Py_NewRef(when);
    }
    if (is_later < 0)
        Py_CLEAR(now);
    return now;
}

/* The next number of an entry. */
static PyObject *next_number(PyObject *env)
{
    PyObject *numbers = PyObject_GetAttr(env, name_eid);
    if (numbers == NULL)
        return NULL;
    PyObject *number = PyIter_Next(numbers);
    Py_DECREF(numbers);
    if (number == NULL && !PyErr_Occurred())
        PyErr_SetNone(PyExc_StopIteration);
    return number;
}

static PyObject *entry_of(PyObject *when, PyObject *number, PyObject *call)
{
    return PyTuple_Pack(4, when, normal, number, call);
}

static int push_entry(PyObject *env, PyObject *when, PyObject *number, PyObject *call)
{
    PyObject *heap = heap_of(env), *entry = heap == NULL ? NULL : entry_of(when, number, call);
    int found = entry == NULL ? -1 : push(heap, entry);
    Py_XDECREF(entry);
    Py_XDECREF(heap);
    return found;
}

/* Push a call for `when`, or now if that is past. */
static int schedule(PyObject *env, PyObject *when, PyObject *call)
{
    PyObject *due = not_past(env, when), *number = due == NULL ? NULL : next_number(env);
    int found = number == NULL ? -1 : push_entry(env, due, number, call);
    Py_XDECREF(number);
    Py_XDECREF(due);
    return found;
}

/* Environment.put(when, call) */
static PyObject *put(PyObject *env, PyObject *const *given, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "put takes a time and a call");
        return NULL;
    }
    if (schedule(env, given[0], given[1]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Environment.at(when, call) */
static PyObject *at(PyObject *env, PyObject *const *given, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "at takes a time and a call");
        return NULL;
    }
    PyObject *when = given[0];
    int is_finite;
    if (PyFloat_CheckExact(when)) {
        is_finite = PyFloat_AS_DOUBLE(when) < Py_HUGE_VAL;
    } else {
        PyObject *infinite = PyFloat_FromDouble(Py_HUGE_VAL);
        is_finite = infinite == NULL ? -1 : is_less(when, infinite);
        Py_XDECREF(infinite);
        if (is_finite < 0)
            return NULL;
    }
    PyObject *timer = timer_type->tp_alloc(timer_type, 0);
    if (timer == NULL)
        return NULL;
    set_slot(timer, timer_env, env);
    set_slot(timer, timer_call, given[1]);
    set_slot(timer, timer_pending, is_finite ? Py_True : Py_False); /* else it is not in the heap */
    if (is_finite && schedule(env, when, timer) < 0)
        Py_CLEAR(timer);
    return timer;
}

/* Line.at(when, call) */
static PyObject *line_at(PyObject *line, PyObject *const *given, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "at takes a time and a call");
        return NULL;
    }
    PyObject *found = NULL, *env = slot(line, line_env), *first = slot(line, line_first), *calls = slot(line, line_calls);
    PyObject *due = NULL, *number = NULL, *entry = NULL, *now = NULL;
    if (env == NULL || first == NULL || calls == NULL || (now = PyObject_GetAttr(env, name_now)) == NULL)
        goto done;
    int is_past = is_less(given[0], now);
    if (is_past < 0)
        goto done;
    due = Py_NewRef(is_past ? now : given[0]);
    if ((number = next_number(env)) == NULL || (entry = entry_of(due, number, given[1])) == NULL)
        goto done;
    if (first == Py_None) {
        set_slot(line, line_first, entry);
        if (push_entry(env, due, number, line) == 0)
            found = Py_NewRef(Py_None);
        goto done;
    }
    Py_ssize_t behind = calls == Py_None ? 0 : PyObject_Size(calls);
    PyObject *last = behind < 0 ? NULL : behind ? PySequence_GetItem(calls, behind - 1) : Py_NewRef(first);
    if (last == NULL)
        goto done;
    int overtakes = PyTuple_CheckExact(last) ? is_less(due, PyTuple_GET_ITEM(last, 0)) : -1;
    Py_DECREF(last);
    if (overtakes < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "an entry is no tuple");
    } else if (overtakes) {
        if (push_entry(env, due, number, given[1]) == 0)
            found = Py_NewRef(Py_None);
    } else if (calls == Py_None) {
        PyObject *one = PyTuple_Pack(1, entry), *made = one == NULL ? NULL : PyObject_CallOneArg(deque_type, one);
        Py_XDECREF(one);
        if (made != NULL) {
            set_slot(line, line_calls, made);
            Py_DECREF(made);
            found = Py_NewRef(Py_None);
        }
    } else {
        found = PyObject_CallMethodOneArg(calls, name_append, entry);
    }
done:
    Py_XDECREF(env);
    Py_XDECREF(first);
    Py_XDECREF(calls);
    Py_XDECREF(now);
    Py_XDECREF(due);
    Py_XDECREF(number);
    Py_XDECREF(entry);
    return found;
}

/* Line.__call__() */
static PyObject *line_call(PyObject *line)
{
    PyObject *first = slot(line, line_first), *calls = slot(line, line_calls), *found = NULL;
    if (first == NULL || calls == NULL)
        goto done;
    if (!PyTuple_CheckExact(first)) {
        PyErr_SetString(PyExc_AssertionError, "a line without calls is called");
        goto done;
    }
    Py_ssize_t behind = calls == Py_None ? 0 : PyObject_Size(calls);
    if (behind < 0)
        goto done;
    if (behind) {
        PyObject *entry = PyObject_CallMethodNoArgs(calls, name_popleft);
        if (entry == NULL)
            goto done;
        set_slot(line, line_first, entry);
        PyObject *env = slot(line, line_env);
        int failed = env == NULL || !PyTuple_CheckExact(entry)
                     || push_entry(env, PyTuple_GET_ITEM(entry, 0), PyTuple_GET_ITEM(entry, 2), line) < 0;
        Py_XDECREF(env);
        Py_DECREF(entry);
        if (failed)
            goto done;
    } else {
        set_slot(line, line_first, Py_None);
        set_slot(line, line_calls, Py_None);
    }
    found = PyObject_CallNoArgs(PyTuple_GET_ITEM(first, 3));
done:
    Py_XDECREF(first);
    Py_XDECREF(calls);
    return found;
}

/* Process an entry that is no event of SimPy, at its time. */
static int happen(PyObject *env, PyObject *entry)
{
    PyObject *call = PyTuple_GET_ITEM(entry, 3), *found;
    if (PyObject_SetAttr(env, name_now, PyTuple_GET_ITEM(entry, 0)) < 0)
        return -1;
    if (Py_TYPE(call) == timer_type) {
        if (SLOT(call, timer_pending) != Py_True) {
            PyObject *cancelled = PyObject_GetAttr(env, name_cancelled);
            Py_ssize_t left = cancelled == NULL ? -1 : PyLong_AsSsize_t(cancelled);
            Py_XDECREF(cancelled);
            PyObject *fewer = PyErr_Occurred() ? NULL : PyLong_FromSsize_t(left - 1);
            int failed = fewer == NULL ? -1 : PyObject_SetAttr(env, name_cancelled, fewer);
            Py_XDECREF(fewer);
            return failed;
        }
        set_slot(call, timer_pending, Py_False);
        PyObject *then = slot(call, timer_call);
        found = then == NULL ? NULL : PyObject_CallNoArgs(then);
        Py_XDECREF(then);
    } else if (Py_TYPE(call) == line_type) {
        found = line_call(call);
    } else {
        found = PyObject_CallNoArgs(call);
    }
    Py_XDECREF(found);
    return found == NULL ? -1 : 0;
}

/* Environment.step_until(due) */
static PyObject *step_until(PyObject *env, PyObject *due)
{
    PyObject *heap = heap_of(env);
    if (heap == NULL)
        return NULL;
    int failed = 0, is_over = 0;
    for (;;) {
        Py_ssize_t ready = PyObject_Size(due);
        if (ready || (failed = PyErr_CheckSignals() < 0)) {
            failed |= ready < 0;
            break;
        }
        PyObject *cancelled = PyObject_GetAttr(env, name_cancelled);
        Py_ssize_t gone = cancelled == NULL ? -1 : PyLong_AsSsize_t(cancelled);
        Py_XDECREF(cancelled);
        if (gone == -1 && PyErr_Occurred()) {
            failed = 1;
            break;
        }
        if (PyList_GET_SIZE(heap) <= gone || PyList_GET_SIZE(heap) == 0) {
            is_over = 1;
            break;
        }
        PyObject *entry = pop(heap);
        if (entry == NULL || !PyTuple_CheckExact(entry) || PyTuple_GET_SIZE(entry) != 4) {
            if (entry != NULL)
                PyErr_SetString(PyExc_TypeError, "an entry of the heap is no tuple of four");
            failed = 1;
        } else if (PyObject_TypeCheck(PyTuple_GET_ITEM(entry, 3), event_type)) {
            PyObject *found = push(heap, entry) < 0 ? NULL : PyObject_CallOneArg(step, env);
            failed = found == NULL;
            Py_XDECREF(found);
        } else {
            failed = happen(env, entry) < 0;
        }
        Py_XDECREF(entry);
        if (failed)
            break;
    }
    Py_DECREF(heap);
    if (failed)
        return NULL;
    return PyBool_FromLong(!is_over);
}

static PyMethodDef of_environment[] = {
    {"at", (PyCFunction)(void (*)(void))at, METH_FASTCALL, NULL},
    {"put", (PyCFunction)(void (*)(void))put, METH_FASTCALL, NULL},
    {"step_until", step_until, METH_O, NULL},
};

static PyMethodDef of_line = {"at", (PyCFunction)(void (*)(void))line_at, METH_FASTCALL, NULL};

/* The place of a slot in the objects of a type; -1 with an error if it has none. */
static Py_ssize_t place_of(PyTypeObject *type, const char *name)
{
    PyObject *found = PyObject_GetAttrString((PyObject *)type, name);
    if (found == NULL)
        return -1;
    Py_ssize_t place = -1;
    if (Py_TYPE(found) == &PyMemberDescr_Type && ((PyMemberDescrObject *)found)->d_member->type == T_OBJECT_EX)
        place = ((PyMemberDescrObject *)found)->d_member->offset;
    else
        PyErr_Format(PyExc_TypeError, "%s is no slot", name);
    Py_DECREF(found);
    return place;
}

/* methods(Environment, Timer, Line, Event, step, deque, NORMAL): the methods at, put and step_until of Environment, and at of
   Line. */
static PyObject *methods(PyObject *self, PyObject *arguments)
{
    (void)self;
    PyTypeObject *environment, *timer, *line, *event;
    PyObject *own_step, *deque, *priority;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!OOO", &PyType_Type, &environment, &PyType_Type, &timer, &PyType_Type, &line,
                          &PyType_Type, &event, &own_step, &deque, &priority))
        return NULL;
    if ((timer_call = place_of(timer, "call")) < 0 || (timer_env = place_of(timer, "env")) < 0
        || (timer_pending = place_of(timer, "pending")) < 0 || (line_calls = place_of(line, "_calls")) < 0
        || (line_env = place_of(line, "_env")) < 0 || (line_first = place_of(line, "_first")) < 0)
        return NULL;
    Py_XSETREF(environment_type, (PyTypeObject *)Py_NewRef(environment));
    Py_XSETREF(timer_type, (PyTypeObject *)Py_NewRef(timer));
    Py_XSETREF(line_type, (PyTypeObject *)Py_NewRef(line));
    Py_XSETREF(event_type, (PyTypeObject *)Py_NewRef(event));
    Py_XSETREF(step, Py_NewRef(own_step));
    Py_XSETREF(deque_type, Py_NewRef(deque));
    Py_XSETREF(normal, Py_NewRef(priority));
    return Py_BuildValue("NNNN", PyDescr_NewMethod(environment, of_environment), PyDescr_NewMethod(environment, of_environment + 1),
                         PyDescr_NewMethod(environment, of_environment + 2), PyDescr_NewMethod(line, &of_line));
}

static PyMethodDef functions[] = {
    {"methods", methods, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_events", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__events(void)
{
    name_now = PyUnicode_InternFromString("_now");
    name_eid = PyUnicode_InternFromString("_eid");
    name_queue = PyUnicode_InternFromString("_queue");
    name_cancelled = PyUnicode_InternFromString("cancelled");
    name_append = PyUnicode_InternFromString("append");
    name_popleft = PyUnicode_InternFromString("popleft");
    if (!name_now || !name_eid || !name_queue || !name_cancelled || !name_append || !name_popleft)
        return NULL;
    return PyModule_Create(&module);
}
