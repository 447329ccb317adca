/* The queue of events, and the most frequent turns of links: see clock.py, link.py, access.py and downlink.py, whose Python
code does the same. The heap is the same list of the same tuples (time, priority, number, call), so that calls happen in
one order whichever of the two puts and takes them. Numbers are computed by the same operations in the same order; the
file must be compiled without fused multiplication and addition. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <structmember.h>

static PyTypeObject *environment_type, *timer_type, *line_type, *event_type;
static PyObject *deque_type, *step; /* SimPy's own step */
static Py_ssize_t timer_call, timer_env, timer_pending, line_calls, line_env, line_first; /* places of slots */
static Py_ssize_t env_now, env_eid, env_queue, env_cancelled;
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

/* An attribute of an environment, with a reference. */
static PyObject *of_env(PyObject *env, Py_ssize_t place, PyObject *name)
{
    return PyObject_TypeCheck(env, environment_type) ? slot(env, place) : PyObject_GetAttr(env, name);
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
    if (PyTuple_CheckExact(one) && PyTuple_CheckExact(other) && PyTuple_GET_SIZE(one) == 3 && PyTuple_GET_SIZE(other) == 3) {
        PyObject *end = PyTuple_GET_ITEM(one, 0), *later = PyTuple_GET_ITEM(other, 0); /* entries of flows: see uplinks.h */
        if (PyFloat_CheckExact(end) && PyFloat_CheckExact(later) && PyFloat_AS_DOUBLE(end) != PyFloat_AS_DOUBLE(later))
            return PyFloat_AS_DOUBLE(end) < PyFloat_AS_DOUBLE(later);
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
    PyObject *heap = of_env(env, env_queue, name_queue);
    if (heap != NULL && !PyList_CheckExact(heap)) {
        PyErr_SetString(PyExc_TypeError, "the heap is no list");
        Py_CLEAR(heap);
    }
    return heap;
}

/* `when`, or the present time of the environment if that is later; with a reference. */
static PyObject *not_past(PyObject *env, PyObject *when)
{
    PyObject *now = of_env(env, env_now, name_now);
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
    PyObject *numbers = of_env(env, env_eid, name_eid);
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
    if (env == NULL || first == NULL || calls == NULL || (now = of_env(env, env_now, name_now)) == NULL)
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

static PyObject *call_way(PyObject *call);

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
    found = call_way(PyTuple_GET_ITEM(first, 3));
done:
    Py_XDECREF(first);
    Py_XDECREF(calls);
    return found;
}

/* Process an entry that is no event of SimPy, at its time. */
static int happen(PyObject *env, PyObject *entry)
{
    PyObject *call = PyTuple_GET_ITEM(entry, 3), *found;
    set_slot(env, env_now, PyTuple_GET_ITEM(entry, 0));
    if (Py_TYPE(call) == timer_type) {
        if (SLOT(call, timer_pending) != Py_True) {
            PyObject *cancelled = of_env(env, env_cancelled, name_cancelled);
            Py_ssize_t left = cancelled == NULL ? -1 : PyLong_AsSsize_t(cancelled);
            Py_XDECREF(cancelled);
            PyObject *fewer = PyErr_Occurred() ? NULL : PyLong_FromSsize_t(left - 1);
            if (fewer == NULL)
                return -1;
            set_slot(env, env_cancelled, fewer);
            Py_DECREF(fewer);
            return 0;
        }
        set_slot(call, timer_pending, Py_False);
        PyObject *then = slot(call, timer_call);
        found = then == NULL ? NULL : PyObject_CallNoArgs(then);
        Py_XDECREF(then);
    } else if (Py_TYPE(call) == line_type) {
        found = line_call(call);
    } else {
        found = call_way(call);
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
        PyObject *cancelled = of_env(env, env_cancelled, name_cancelled);
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

/* Links. The places of slots; see the classes. */

static PyTypeObject *link_type, *downlink_type;
static PyObject *python_wake, *python_take_one, *python_leave, *python_arrive;
static PyObject *name_wake, *name_cancel, *name_arrive, *name_through, *name_at, *name_flight, *name_keep_earlier, *infinity, *zero;
static Py_ssize_t access_env, access_timer, access_due, access_at, access_factor, access_rate;
static Py_ssize_t down_served, down_idle_since, down_waiting, down_backlog, down_inflow, down_open, down_row, down_arrivals,
    down_free;
static Py_ssize_t link_env, link_ordered, link_last, link_flight, link_latest, link_down;
static Py_ssize_t way_link, way_flight, way_rates, way_left, way_began, way_size, way_deliver;

#define INSTANT 1e-9

/* The number in a slot; 0 if it is there and a float, else -1 without an error. */
static int real(PyObject *object, Py_ssize_t place, double *value)
{
    PyObject *found = SLOT(object, place);
    if (found == NULL || !PyFloat_CheckExact(found))
        return -1;
    *value = PyFloat_AS_DOUBLE(found);
    return 0;
}

/* The same, of an integer, too, as the time is before the clock has moved. */
static int real_or_whole(PyObject *object, Py_ssize_t place, double *value)
{
    PyObject *found = SLOT(object, place);
    if (found == NULL || !PyLong_CheckExact(found))
        return real(object, place, value);
    *value = PyLong_AsDouble(found);
    if (*value != -1.0 || !PyErr_Occurred())
        return 0;
    PyErr_Clear();
    return -1;
}

static int set_real(PyObject *object, Py_ssize_t place, double value)
{
    PyObject *number = PyFloat_FromDouble(value);
    if (number == NULL)
        return -1;
    set_slot(object, place, number);
    Py_DECREF(number);
    return 0;
}

static int is_none(PyObject *object, Py_ssize_t place)
{
    return SLOT(object, place) == Py_None;
}

/* The present time of the environment in a slot, with a reference. */
static PyObject *now_of(PyObject *object, Py_ssize_t place)
{
    PyObject *env = slot(object, place), *now = env == NULL ? NULL : of_env(env, env_now, name_now);
    Py_XDECREF(env);
    return now;
}

/* Access._set_timer */
static int set_timer(PyObject *access, PyObject *due, int keeps_earlier)
{
    PyObject *timer = slot(access, access_timer), *before = slot(access, access_due), *env = NULL, *wake = NULL;
    int failed = -1;
    if (timer == NULL || before == NULL)
        goto done;
    if (timer != Py_None) {
        int stays = PyObject_RichCompareBool(before, due, Py_EQ);
        if (!stays && keeps_earlier)
            stays = is_less(before, due);
        if (stays) {
            failed = stays < 0 ? -1 : 0;
            goto done;
        }
        PyObject *found = PyObject_CallMethodNoArgs(timer, name_cancel);
        if (found == NULL)
            goto done;
        Py_DECREF(found);
    }
    set_slot(access, access_due, due);
    int is_never = PyObject_RichCompareBool(due, infinity, Py_EQ);
    if (is_never < 0)
        goto done;
    if (is_never) {
        set_slot(access, access_timer, Py_None);
        failed = 0;
        goto done;
    }
    if ((env = slot(access, access_env)) == NULL || (wake = PyObject_GetAttr(access, name_wake)) == NULL)
        goto done;
    PyObject *given[] = {due, wake};
    PyObject *made = Py_TYPE(env) == environment_type ? at(env, given, 2)
                                                      : PyObject_CallMethodObjArgs(env, name_at, due, wake, NULL);
    if (made != NULL) {
        set_slot(access, access_timer, made);
        Py_DECREF(made);
        failed = 0;
    }
done:
    Py_XDECREF(timer);
    Py_XDECREF(before);
    Py_XDECREF(env);
    Py_XDECREF(wake);
    return failed;
}

static PyObject *access_set_timer(PyObject *access, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    int keeps_earlier = 0;
    if (count == 1 && names != NULL && PyTuple_GET_SIZE(names) == 1
        && PyUnicode_Compare(PyTuple_GET_ITEM(names, 0), name_keep_earlier) == 0) {
        if ((keeps_earlier = PyObject_IsTrue(given[1])) < 0)
            return NULL;
    } else if (count != 1 || names != NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "_set_timer takes a time, and keep_earlier");
        return NULL;
    }
    if (set_timer(access, given[0], keeps_earlier) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Link.land(seconds, then) */
static PyObject *land(PyObject *link, PyObject *const *given, Py_ssize_t count)
{
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "land takes seconds and a call");
        return NULL;
    }
    PyObject *now = now_of(link, link_env), *arrival = NULL, *last = NULL, *line = NULL, *env = NULL, *found = NULL;
    if (now == NULL || (last = slot(link, link_last)) == NULL || (line = slot(link, link_flight)) == NULL
        || (env = slot(link, link_env)) == NULL)
        goto failed;
    if (PyFloat_CheckExact(now) && PyFloat_CheckExact(given[0]))
        arrival = PyFloat_FromDouble(PyFloat_AS_DOUBLE(now) + PyFloat_AS_DOUBLE(given[0]));
    else
        arrival = PyNumber_Add(now, given[0]);
    int is_ordered = arrival == NULL || SLOT(link, link_ordered) == NULL ? -1 : PyObject_IsTrue(SLOT(link, link_ordered));
    if (is_ordered < 0)
        goto failed;
    if (is_ordered) {
        int overtakes = is_less(arrival, last);
        if (overtakes < 0)
            goto failed;
        if (overtakes)
            Py_SETREF(arrival, Py_NewRef(last));
        set_slot(link, link_last, arrival);
        if (line == Py_None && PyObject_TypeCheck(env, environment_type)) {
            int is_under_way = is_less(now, last);
            if (is_under_way < 0)
                goto failed;
            if (!is_under_way) {
                if (schedule(env, arrival, given[1]) == 0)
                    found = Py_NewRef(Py_None);
                goto failed;
            }
        }
    }
    if (line == Py_None) {
        Py_SETREF(line, PyObject_CallOneArg((PyObject *)line_type, env));
        if (line == NULL)
            goto failed;
        set_slot(link, link_flight, line);
    }
    PyObject *both[] = {arrival, given[1]};
    if (Py_TYPE(line) == line_type)
        found = line_at(line, both, 2);
    else
        PyErr_SetString(PyExc_TypeError, "the flight of a link is no line");
failed:
    Py_XDECREF(now);
    Py_XDECREF(last);
    Py_XDECREF(line);
    Py_XDECREF(env);
    if (found == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_AttributeError, "an attribute of a link is missing");
        Py_CLEAR(arrival);
    }
    Py_XDECREF(found);
    return arrival;
}

/* The numbers of a downlink. */
typedef struct {
    double served, idle_since, backlog, inflow, at, rate, now;
    int is_open;
} numbers;

/* Read the numbers; -1 without an error if one of them is no float, as before the clock has moved, or with one. */
static int numbers_of(PyObject *down, PyObject *now, numbers *n)
{
    double rate, factor;
    if (!PyFloat_CheckExact(now) || real(down, down_served, &n->served) || real(down, down_idle_since, &n->idle_since)
        || real(down, down_backlog, &n->backlog) || real(down, down_inflow, &n->inflow) || real(down, access_at, &n->at)
        || real(down, access_rate, &rate) || real(down, access_factor, &factor) || factor == 0.0
        || SLOT(down, down_open) == NULL)
        return -1;
    n->is_open = PyObject_IsTrue(SLOT(down, down_open));
    n->rate = rate / factor;
    n->now = PyFloat_AS_DOUBLE(now);
    return n->is_open < 0 ? -1 : 0;
}

/* Downlink._advance(now) */
static void advanced(numbers *n)
{
    double seconds = n->now - n->at;
    n->at = n->now;
    if (seconds == 0.0 || (n->inflow == 0.0 && n->backlog == 0.0))
        return;
    double growth = n->inflow - n->rate, more = growth * seconds;
    if (n->backlog + more > 0) {
        n->backlog += more;
        n->served += n->rate * seconds;
    } else {
        if (!n->is_open)
            n->idle_since = n->now - seconds + n->backlog / n->rate;
        n->served += n->backlog + n->inflow * seconds;
        n->backlog = 0.0;
    }
}

static int written(PyObject *down, const numbers *n)
{
    return set_real(down, down_served, n->served) || set_real(down, down_idle_since, n->idle_since)
           || set_real(down, down_backlog, n->backlog) || set_real(down, access_at, n->at) ? -1 : 0;
}

/* The bytes with which a packet that waits ends. */
static int end_of(PyObject *one, double *end)
{
    if (!PyTuple_CheckExact(one) || PyTuple_GET_SIZE(one) != 2 || !PyFloat_CheckExact(PyTuple_GET_ITEM(one, 0))) {
        PyErr_SetString(PyExc_TypeError, "a packet that waits is no pair");
        return -1;
    }
    *end = PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(one, 0));
    return 0;
}

/* Downlink._arm(), where something waits */
static int arm(PyObject *down, double first, const numbers *n)
{
    if (n->rate == 0.0)
        return set_timer(down, infinity, 0);
    double left = first - n->served;
    PyObject *due = PyFloat_FromDouble(n->now + (left > 0.0 ? left : 0.0) / n->rate);
    int failed = due == NULL ? -1 : set_timer(down, due, 0);
    Py_XDECREF(due);
    return failed;
}

/* Downlink.take_one(size, lasted, then) */
static PyObject *take_one(PyObject *down, PyObject *const *given, Py_ssize_t count)
{
    PyObject *now = now_of(down, access_env), *waiting = NULL, *found = NULL, *one = NULL, *end = NULL;
    numbers n;
    if (now == NULL)
        return NULL;
    PyObject *row = SLOT(down, down_row), *free = SLOT(down, down_free);
    int in_python = count != 3 || !is_none(down, down_arrivals) || row == NULL || free != Py_None
                    || !PyLong_CheckExact(given[0]) || !PyFloat_CheckExact(given[1]) || SLOT(down, down_waiting) == NULL;
    if (!in_python && row != Py_None)
        in_python = !PyList_CheckExact(row) || PyList_GET_SIZE(row);
    if (in_python || numbers_of(down, now, &n) < 0) {
        Py_DECREF(now);
        if (PyErr_Occurred())
            return NULL;
        PyObject *all[4] = {down, count > 0 ? given[0] : NULL, count > 1 ? given[1] : NULL, count > 2 ? given[2] : NULL};
        return PyObject_Vectorcall(python_take_one, all, (size_t)(count < 3 ? count : 3) + 1, NULL);
    }
    double more = PyLong_AsDouble(given[0]), lasted = PyFloat_AS_DOUBLE(given[1]);
    if (more == -1.0 && PyErr_Occurred())
        goto done;
    advanced(&n);
    waiting = slot(down, down_waiting);
    Py_ssize_t behind = waiting == Py_None ? 0 : PyObject_Size(waiting);
    if (behind < 0)
        goto done;
    if (!(n.is_open || n.backlog != 0.0 || behind)) {
        n.served = 0.0;
        double unused = n.now - n.idle_since;
        more -= n.rate * (unused < lasted ? unused : lasted);
        if (more < 0.0)
            more = 0.0;
        n.idle_since = n.now;
    }
    double backlog = n.backlog + more;
    if (behind) {
        PyObject *last = PySequence_GetItem(waiting, behind - 1);
        double until;
        int failed = last == NULL ? -1 : end_of(last, &until);
        Py_XDECREF(last);
        if (failed)
            goto done;
        n.backlog = backlog > until - n.served ? backlog : until - n.served;
        if (written(down, &n) < 0 || (end = PyFloat_FromDouble(n.served + n.backlog)) == NULL
            || (one = PyTuple_Pack(2, end, given[2])) == NULL)
            goto done;
        found = PyObject_CallMethodOneArg(waiting, name_append, one);
        goto done;
    }
    n.backlog = backlog > 0.0 ? backlog : 0.0;
    if (backlog <= n.rate * INSTANT) {
        n.backlog = 0.0;
        if (!n.is_open)
            n.idle_since = n.now;
        if (written(down, &n) < 0)
            goto done;
        PyObject *then = PyObject_CallNoArgs(given[2]);
        if (then != NULL)
            found = Py_NewRef(Py_None);
        Py_XDECREF(then);
        goto done;
    }
    PyObject *made = NULL, *row_of_one = NULL;
    if (written(down, &n) == 0 && (end = PyFloat_FromDouble(n.served + n.backlog)) != NULL
        && (one = PyTuple_Pack(2, end, given[2])) != NULL && (row_of_one = PyTuple_Pack(1, one)) != NULL
        && (made = PyObject_CallOneArg(deque_type, row_of_one)) != NULL) {
        set_slot(down, down_waiting, made);
        if (arm(down, PyFloat_AS_DOUBLE(end), &n) == 0)
            found = Py_NewRef(Py_None);
    }
    Py_XDECREF(made);
    Py_XDECREF(row_of_one);
done:
    Py_XDECREF(now);
    Py_XDECREF(waiting);
    Py_XDECREF(one);
    Py_XDECREF(end);
    return found;
}

/* Downlink._wake() */
static PyObject *down_wake(PyObject *down, PyObject *ignored)
{
    (void)ignored;
    PyObject *now = now_of(down, access_env), *waiting = NULL, *one = NULL, *found = NULL;
    numbers n;
    if (now == NULL)
        return NULL;
    if (!is_none(down, down_arrivals) || SLOT(down, down_waiting) == NULL || is_none(down, down_waiting)
        || numbers_of(down, now, &n) < 0) {
        Py_DECREF(now);
        return PyErr_Occurred() ? NULL : PyObject_CallOneArg(python_wake, down);
    }
    set_slot(down, access_timer, Py_None);
    advanced(&n);
    waiting = slot(down, down_waiting);
    double served, next;
    if ((one = PyObject_CallMethodNoArgs(waiting, name_popleft)) == NULL || end_of(one, &served) < 0)
        goto done;
    if (served > n.served)
        n.served = served;
    double near = n.rate * INSTANT;
    PyObject *through = NULL; /* those behind the first that end now, too */
    Py_ssize_t behind;
    for (;;) {
        if ((behind = PyObject_Size(waiting)) <= 0)
            break;
        PyObject *first = PySequence_GetItem(waiting, 0);
        int failed = first == NULL ? -1 : end_of(first, &next);
        if (failed || next > n.served + near) {
            Py_XDECREF(first);
            behind = failed ? -1 : behind;
            break;
        }
        Py_DECREF(first);
        PyObject *taken = PyObject_CallMethodNoArgs(waiting, name_popleft);
        if (taken == NULL || (through == NULL && (through = PyList_New(0)) == NULL) || PyList_Append(through, taken) < 0) {
            Py_XDECREF(taken);
            behind = -1;
            break;
        }
        Py_DECREF(taken);
    }
    int failed = behind < 0;
    if (!failed && behind) {
        failed = written(down, &n) < 0 || arm(down, next, &n) < 0;
    } else if (!failed) {
        set_slot(down, down_waiting, Py_None);
        set_slot(down, access_due, infinity);
        if (!n.is_open && n.backlog <= near) {
            n.backlog = 0.0;
            n.idle_since = n.now;
        }
        failed = written(down, &n) < 0;
    }
    if (!failed) {
        found = PyObject_CallNoArgs(PyTuple_GET_ITEM(one, 1));
        for (Py_ssize_t i = 0; found != NULL && through != NULL && i < PyList_GET_SIZE(through); i++)
            Py_SETREF(found, PyObject_CallNoArgs(PyTuple_GET_ITEM(PyList_GET_ITEM(through, i), 1)));
        if (found != NULL)
            Py_SETREF(found, Py_NewRef(Py_None));
    }
    Py_XDECREF(through);
done:
    Py_XDECREF(now);
    Py_XDECREF(waiting);
    Py_XDECREF(one);
    return found;
}

static PyObject *way_through(PyObject *way, PyObject *ignored);

/* Passage.leave() */
static PyObject *way_leave(PyObject *way, PyObject *ignored)
{
    (void)ignored;
    PyObject *link = slot(way, way_link), *seconds = NULL, *found = NULL;
    if (link == NULL)
        return NULL;
    if (!is_none(way, way_rates) || Py_TYPE(link) != link_type) {
        found = PyObject_CallOneArg(python_leave, way);
    } else if ((seconds = slot(way, way_flight)) != NULL) {
        PyObject *given[] = {seconds, way}, *arrival = land(link, given, 2);
        PyObject *now = arrival == NULL ? NULL : now_of(link, link_env);
        if (now != NULL) {
            set_slot(way, way_left, now);
            found = Py_NewRef(Py_None);
        }
        Py_XDECREF(now);
        Py_XDECREF(arrival);
    }
    Py_XDECREF(seconds);
    Py_DECREF(link);
    return found;
}

/* Passage.arrive() */
static PyObject *way_arrive(PyObject *way, PyObject *ignored)
{
    (void)ignored;
    double left, began;
    PyObject *link = slot(way, way_link), *down = NULL, *found = NULL, *size = NULL, *lasted = NULL, *through = NULL;
    if (link == NULL)
        return NULL;
    if (Py_TYPE(link) != link_type || (down = slot(link, link_down)) == NULL || Py_TYPE(down) != downlink_type
        || !is_none(way, way_rates) || real_or_whole(way, way_left, &left) || real_or_whole(way, way_began, &began)) {
        found = PyErr_Occurred() ? NULL : down == Py_None ? way_through(way, NULL) : PyObject_CallOneArg(python_arrive, way);
    } else if ((size = slot(way, way_size)) != NULL && (lasted = PyFloat_FromDouble(left - began)) != NULL
               && (through = PyObject_GetAttr(way, name_through)) != NULL) {
        PyObject *given[] = {size, lasted, through};
        found = take_one(down, given, 3);
    }
    Py_XDECREF(size);
    Py_XDECREF(lasted);
    Py_XDECREF(through);
    Py_XDECREF(down);
    Py_DECREF(link);
    return found;
}

/* Passage.through() */
static PyObject *way_through(PyObject *way, PyObject *ignored)
{
    (void)ignored;
    PyObject *link = slot(way, way_link), *flight = slot(way, way_flight), *deliver = slot(way, way_deliver), *found = NULL;
    if (link != NULL && flight != NULL && deliver != NULL) {
        int failed = 0;
        if (Py_TYPE(link) == link_type)
            set_slot(link, link_latest, flight);
        else
            failed = PyObject_SetAttr(link, name_flight, flight);
        if (!failed && (found = call_way(deliver)) != NULL)
            Py_SETREF(found, Py_NewRef(Py_None));
    }
    Py_XDECREF(link);
    Py_XDECREF(flight);
    Py_XDECREF(deliver);
    return found;
}

#include "uplinks.h"
#include "journeys.h"

/* `call()`, where that is mostly a passage or a journey. */
static PyObject *call_way(PyObject *call)
{
    if (Py_TYPE(call) == passage_type)
        return way_arrive(call, NULL);
    if (Py_TYPE(call) == journey_type)
        return journey_arrive(call, NULL);
    return PyObject_CallNoArgs(call);
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
        || (line_env = place_of(line, "_env")) < 0 || (line_first = place_of(line, "_first")) < 0
        || (env_now = place_of(environment, "_now")) < 0 || (env_eid = place_of(environment, "_eid")) < 0
        || (env_queue = place_of(environment, "_queue")) < 0 || (env_cancelled = place_of(environment, "cancelled")) < 0)
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

static PyMethodDef of_access = {"_set_timer", (PyCFunction)(void (*)(void))access_set_timer, METH_FASTCALL | METH_KEYWORDS,
                               NULL};
static PyMethodDef of_downlink[] = {
    {"take_one", (PyCFunction)(void (*)(void))take_one, METH_FASTCALL, NULL},
    {"_wake", down_wake, METH_NOARGS, NULL},
};
static PyMethodDef of_uplink[] = {
    {"carry", up_carry, METH_O, NULL},
    {"_wake", up_wake, METH_NOARGS, NULL},
};
static PyMethodDef of_link[] = {
    {"land", (PyCFunction)(void (*)(void))land, METH_FASTCALL, NULL},
    {"send", (PyCFunction)(void (*)(void))link_send, METH_FASTCALL, NULL},
};
static PyMethodDef of_passage[] = {
    {"begin", (PyCFunction)(void (*)(void))way_begin, METH_FASTCALL, NULL},
    {"leave", way_leave, METH_NOARGS, NULL},
    {"arrive", way_arrive, METH_NOARGS, NULL},
    {"through", way_through, METH_NOARGS, NULL},
};

typedef struct {
    Py_ssize_t *place;
    const char *name;
} named_slot;

static int places_of(PyTypeObject *type, const named_slot *slots)
{
    for (; slots->place != NULL; slots++)
        if ((*slots->place = place_of(type, slots->name)) < 0)
            return -1;
    return 0;
}

/* Add a method of a type with its name to a list, and store the one in Python that it replaces in `before`. */
static int add_method(PyObject *methods, PyTypeObject *type, PyMethodDef *method, PyObject **before)
{
    PyObject *found = before == NULL ? NULL : PyObject_GetAttrString((PyObject *)type, method->ml_name);
    if (before != NULL) {
        if (found == NULL)
            return -1;
        Py_XSETREF(*before, found);
    }
    PyObject *made = Py_BuildValue("(OsN)", type, method->ml_name, PyDescr_NewMethod(type, method));
    int failed = made == NULL ? -1 : PyList_Append(methods, made);
    Py_XDECREF(made);
    return failed;
}

/* link_methods(Access, Downlink, Uplink, Leaving, Rate, Link, Passage): the methods of links, each with its class and name.
   Call `methods` before, and this once. */
static PyObject *link_methods(PyObject *self, PyObject *arguments)
{
    (void)self;
    static const named_slot of_an_access[] = {
        {&access_env, "_env"}, {&access_timer, "_timer"}, {&access_due, "_due"}, {&access_at, "_at"},
        {&access_factor, "_factor"}, {&access_rate, "rate"}, {NULL, NULL},
    }, of_a_downlink[] = {
        {&down_served, "_served"}, {&down_idle_since, "_idle_since"}, {&down_waiting, "_waiting"},
        {&down_backlog, "_backlog"}, {&down_inflow, "_inflow"}, {&down_open, "_open"}, {&down_row, "_row"},
        {&down_arrivals, "_arrivals"}, {&down_free, "_free"}, {NULL, NULL},
    }, of_an_uplink[] = {
        {&up_alone, "_alone"}, {&up_behind, "_behind"}, {&up_capped, "_capped"}, {&up_end, "_end"}, {&up_ends, "_ends"},
        {&up_flows, "_flows"}, {&up_is_capped, "_is_capped"}, {&up_level, "_level"}, {&up_number, "_number"},
        {&up_sent, "_sent"}, {&up_shared, "_shared"}, {&up_tail, "_tail"}, {&up_taken, "_taken"}, {&up_times, "_times"},
        {&up_waiting, "_waiting"}, {NULL, NULL},
    }, of_a_leaving[] = {
        {&leaving_cap, "cap"}, {&leaving_capped, "capped"}, {&leaving_end, "end"}, {&leaving_number, "number"},
        {&leaving_parcel, "parcel"}, {&leaving_place, "place"}, {NULL, NULL},
    }, of_a_rate[] = {{&rate_is_used, "is_used"}, {NULL, NULL}}, of_a_link[] = {
        {&link_env, "_env"}, {&link_ordered, "_ordered"}, {&link_last, "_last"}, {&link_flight, "_flight"},
        {&link_latest, "flight"}, {&link_down, "down"}, {&link_up, "up"}, {&link_draws, "draws"}, {&link_fixed, "fixed"},
        {&link_stream, "_stream"}, {&link_shakes, "_shakes"}, {&link_jitter, "_jitter"}, {NULL, NULL},
    }, of_a_passage[] = {
        {&way_link, "link"}, {&way_flight, "flight"}, {&way_rates, "rates"}, {&way_left, "left"}, {&way_began, "began"},
        {&way_size, "size"}, {&way_deliver, "deliver"}, {&way_cut, "cut"}, {&way_delay, "delay"}, {&way_end, "end"},
        {&way_arrival, "arrival"}, {NULL, NULL},
    };
    PyTypeObject *access, *downlink, *uplink, *leaving, *rate, *link, *passage;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!O!O!O!", &PyType_Type, &access, &PyType_Type, &downlink, &PyType_Type, &uplink,
                          &PyType_Type, &leaving, &PyType_Type, &rate, &PyType_Type, &link, &PyType_Type, &passage))
        return NULL;
    if (environment_type == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the queue of events has no types yet");
        return NULL;
    }
    if (places_of(access, of_an_access) || places_of(downlink, of_a_downlink) || places_of(uplink, of_an_uplink)
        || places_of(leaving, of_a_leaving) || places_of(rate, of_a_rate) || places_of(link, of_a_link)
        || places_of(passage, of_a_passage))
        return NULL;
    Py_XSETREF(downlink_type, (PyTypeObject *)Py_NewRef(downlink));
    Py_XSETREF(uplink_type, (PyTypeObject *)Py_NewRef(uplink));
    Py_XSETREF(leaving_type, (PyTypeObject *)Py_NewRef(leaving));
    Py_XSETREF(rate_type, (PyTypeObject *)Py_NewRef(rate));
    Py_XSETREF(link_type, (PyTypeObject *)Py_NewRef(link));
    Py_XSETREF(passage_type, (PyTypeObject *)Py_NewRef(passage));
    PyObject *found = PyList_New(0);
    if (found == NULL || add_method(found, access, &of_access, NULL) || add_method(found, downlink, of_downlink, &python_take_one)
        || add_method(found, downlink, of_downlink + 1, &python_wake) || add_method(found, uplink, of_uplink, &python_carry)
        || add_method(found, uplink, of_uplink + 1, &python_up_wake) || add_method(found, link, of_link, NULL)
        || add_method(found, link, of_link + 1, &python_send) || add_method(found, passage, of_passage, NULL)
        || add_method(found, passage, of_passage + 1, &python_leave)
        || add_method(found, passage, of_passage + 2, &python_arrive) || add_method(found, passage, of_passage + 3, NULL))
        Py_CLEAR(found);
    return found;
}

static PyMethodDef of_network[] = {
    {"send", network_send, METH_O, NULL},
    {"_hop", (PyCFunction)(void (*)(void))network_hop, METH_FASTCALL, NULL},
    {"land", network_land, METH_O, NULL},
    {"_record", (PyCFunction)(void (*)(void))network_record, METH_FASTCALL | METH_KEYWORDS, NULL},
};
static PyMethodDef of_journey = {"arrive", journey_arrive, METH_NOARGS, NULL};

/* network_methods(LinkNetwork, Journey, Endpoint, Packet, LedgerRow, Ledger, Trace, Link, Event, chained): the methods of the
   network, each with its class and name. `chained` is that of digests.py. Call `link_methods` before, and this once. */
static PyObject *network_methods(PyObject *self, PyObject *arguments)
{
    (void)self;
    static const named_slot of_a_network[] = {
        {&net_is_plain, "_is_plain"}, {&net_links, "_links"}, {&net_ledger, "_ledger"}, {&net_trace, "_trace"},
        {&net_env, "_env"}, {&net_hub, "_hub"}, {&net_is_mesh, "_is_mesh"}, {&net_endpoints, "_endpoints"},
        {&net_copies, "_copies"}, {&net_in_flight, "in_flight"}, {&net_flying, "_flying"}, {&net_times, "_times"},
        {&net_barriers, "_barriers"}, {&net_taps, "_taps"}, {NULL, NULL},
    }, of_a_journey[] = {
        {&trip_near, "near"}, {&trip_far, "far"}, {&trip_far_life, "far_incarnation"}, {&trip_packet, "packet"},
        {&trip_source, "source"}, {&trip_source_life, "source_incarnation"}, {&trip_target, "target"},
        {&trip_target_life, "target_incarnation"}, {&trip_flipped, "flipped"}, {&trip_departed, "departed"},
        {&trip_network, "network"}, {&trip_message, "message"}, {&trip_number, "number"}, {&trip_delay, "delay"},
        {&trip_doomed, "doomed"}, {NULL, NULL},
    }, of_an_endpoint[] = {
        {&end_name, "name"}, {&end_alive, "alive"}, {&end_paused, "paused"}, {&end_handles, "handles"},
        {&end_life, "incarnation"}, {&end_receive, "receive"}, {NULL, NULL},
    }, of_a_packet[] = {
        {&packet_sender, "sender"}, {&packet_receiver, "receiver"}, {&packet_type_name, "type"}, {&packet_step, "step"},
        {&packet_protocol, "protocol"}, {&packet_times, "times"}, {&packet_payload, "payload"}, {&packet_sealing, "sealing"},
        {&packet_envelope, "envelope"}, {&packet_round, "round"}, {&packet_attempt, "attempt"}, {&packet_digest, "digest"},
        {NULL, NULL},
    }, of_a_row[] = {
        {&row_type_name, "type"}, {&row_step, "step"}, {&row_protocol, "protocol"}, {&row_relayed, "relayed"},
        {&row_messages, "messages"}, {&row_payload, "payload"}, {&row_sealing, "sealing"}, {&row_envelope, "envelope"},
        {NULL, NULL},
    }, of_a_ledger[] = {{&ledger_messages, "messages"}, {&ledger_bytes, "bytes"}, {NULL, NULL}}, of_a_trace[] = {
        {&trace_uses_digests, "uses_digests"}, {&trace_count, "count"}, {&trace_hashed, "_hashed"}, {&trace_chain, "_trace"},
        {&trace_shape, "_shape"}, {&trace_sinks, "_sinks"}, {&trace_is_watched, "is_watched"}, {NULL, NULL},
    }, of_a_link[] = {{&link_row, "row"}, {NULL, NULL}};
    PyTypeObject *network, *journey, *endpoint, *packet, *row, *ledger, *trace, *link, *event;
    PyObject *chained;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!O!O!O!O!O!O", &PyType_Type, &network, &PyType_Type, &journey, &PyType_Type, &endpoint,
                          &PyType_Type, &packet, &PyType_Type, &row, &PyType_Type, &ledger, &PyType_Type, &trace, &PyType_Type,
                          &link, &PyType_Type, &event, &chained))
        return NULL;
    if (link_type != link) {
        PyErr_SetString(PyExc_RuntimeError, "the links have no types yet");
        return NULL;
    }
    if (places_of(network, of_a_network) || places_of(journey, of_a_journey) || places_of(endpoint, of_an_endpoint)
        || places_of(packet, of_a_packet) || places_of(row, of_a_row) || places_of(ledger, of_a_ledger)
        || places_of(trace, of_a_trace) || places_of(link, of_a_link))
        return NULL;
    Py_XSETREF(network_type, (PyTypeObject *)Py_NewRef(network));
    Py_XSETREF(journey_type, (PyTypeObject *)Py_NewRef(journey));
    Py_XSETREF(endpoint_type, (PyTypeObject *)Py_NewRef(endpoint));
    Py_XSETREF(packet_type, (PyTypeObject *)Py_NewRef(packet));
    Py_XSETREF(row_type, (PyTypeObject *)Py_NewRef(row));
    Py_XSETREF(ledger_type, (PyTypeObject *)Py_NewRef(ledger));
    Py_XSETREF(trace_type, (PyTypeObject *)Py_NewRef(trace));
    Py_XSETREF(event_class, Py_NewRef(event));
    Py_XSETREF(chain_hashes, Py_NewRef(chained));
    PyObject *found = PyList_New(0);
    if (found == NULL || add_method(found, network, of_network, &python_network_send)
        || add_method(found, network, of_network + 1, &python_hop) || add_method(found, network, of_network + 2, &python_land)
        || add_method(found, network, of_network + 3, &python_record)
        || add_method(found, journey, &of_journey, NULL))
        Py_CLEAR(found);
    return found;
}

static PyMethodDef functions[] = {
    {"methods", methods, METH_VARARGS, NULL},
    {"link_methods", link_methods, METH_VARARGS, NULL},
    {"network_methods", network_methods, METH_VARARGS, NULL},
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
    name_wake = PyUnicode_InternFromString("_wake");
    name_cancel = PyUnicode_InternFromString("cancel");
    name_arrive = PyUnicode_InternFromString("arrive");
    name_through = PyUnicode_InternFromString("through");
    name_at = PyUnicode_InternFromString("at");
    name_flight = PyUnicode_InternFromString("flight");
    name_keep_earlier = PyUnicode_InternFromString("keep_earlier");
    const struct {
        PyObject **name;
        const char *text;
    } more[] = {
        {&name_begin, "begin"}, {&name_turn, "turn"}, {&name_leave, "leave"}, {&name_expect, "expect"}, {&name_clear, "_clear"},
        {&name_change, "change"}, {&name_begin_flow, "_begin"}, {&name_cap, "cap"}, {&name_link, "link"}, {&name_size, "size"},
        {&name_share, "_share"}, {&name_begin_one, "_begin_one"},
        {&name_sent, "sent"}, {&name_delivered, "delivered"}, {&name_land, "land"}, {&word_send, "send"},
        {&word_relay, "relay"}, {&word_deliver, "deliver"}, {&name_deliver, "_deliver"}, {&name_relay, "_relay"},
        {&name_late, "_late"}, {&name_link_of, "_link"}, {&name_row_of, "row_of"},
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if ((*more[i].name = PyUnicode_InternFromString(more[i].text)) == NULL)
            return NULL;
    infinity = PyFloat_FromDouble(Py_HUGE_VAL);
    zero = PyFloat_FromDouble(0.0);
    if ((no_text = PyUnicode_FromString("")) == NULL || (no_number = PyFloat_FromDouble(0.0)) == NULL
        || (no_origin = Py_BuildValue("(sii)", "", 0, 0)) == NULL)
        return NULL;
    if (!name_wake || !name_cancel || !name_arrive || !name_through || !name_at || !name_flight || !name_keep_earlier || !infinity || !zero)
        return NULL;
    if (!name_now || !name_eid || !name_queue || !name_cancelled || !name_append || !name_popleft)
        return NULL;
    return PyModule_Create(&module);
}
