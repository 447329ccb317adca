/* The most frequent turns of uplinks: see `Uplink` in access.py, and `Passage.begin` and `Link.send` in link.py, whose Python
code does the same. What is rare is left to that code, before anything has changed. Included by events.c. */

static PyTypeObject *uplink_type, *passage_type, *leaving_type, *rate_type;
static PyObject *python_carry, *python_up_wake, *python_send;
static PyObject *name_begin, *name_turn, *name_leave, *name_expect, *name_clear, *name_change, *name_begin_flow, *name_cap,
    *name_link, *name_size, *name_share, *name_begin_one, *name_late;
static Py_ssize_t up_alone, up_behind, up_capped, up_end, up_ends, up_flows, up_is_capped, up_level, up_number, up_sent,
    up_shared, up_tail, up_taken, up_times, up_waiting;
static Py_ssize_t leaving_cap, leaving_capped, leaving_end, leaving_number, leaving_parcel, leaving_place;
static Py_ssize_t rate_is_used, link_up, link_draws, link_fixed, link_stream, link_shakes, link_jitter, way_cut, way_delay,
    way_end, way_arrival;

#define PACKET 1460 /* of link.py */

/* Add one to the whole number in a slot. */
static int count_one(PyObject *object, Py_ssize_t place)
{
    PyObject *before = slot(object, place);
    long number = before == NULL ? -1 : PyLong_AsLong(before);
    Py_XDECREF(before);
    if (number == -1 && PyErr_Occurred())
        return -1;
    PyObject *after = PyLong_FromLong(number + 1);
    if (after == NULL)
        return -1;
    set_slot(object, place, after);
    Py_DECREF(after);
    return 0;
}

/* The next number of an iterator. */
static PyObject *next_of(PyObject *object, Py_ssize_t place)
{
    PyObject *numbers = slot(object, place), *number = numbers == NULL ? NULL : PyIter_Next(numbers);
    Py_XDECREF(numbers);
    if (number == NULL && !PyErr_Occurred())
        PyErr_SetNone(PyExc_StopIteration);
    return number;
}

/* Link.draw() */
static PyObject *drawn(PyObject *link)
{
    PyObject *seconds, *jitter = NULL, *shake = NULL, *more = NULL;
    if (count_one(link, link_draws) < 0)
        return NULL;
    if (!is_none(link, link_fixed)) {
        seconds = slot(link, link_fixed);
    } else {
        seconds = is_none(link, link_stream) ? PyObject_CallMethodNoArgs(link, name_late) : next_of(link, link_stream);
        if (seconds != NULL && !is_none(link, link_shakes)) {
            if ((jitter = slot(link, link_jitter)) != NULL && (shake = next_of(link, link_shakes)) != NULL)
                more = PyNumber_Multiply(jitter, shake);
            Py_SETREF(seconds, more == NULL ? NULL : PyNumber_Add(seconds, more));
        }
    }
    Py_XDECREF(jitter);
    Py_XDECREF(shake);
    Py_XDECREF(more);
    if (seconds != NULL)
        set_slot(link, link_latest, seconds);
    return seconds;
}

/* Passage.begin(source) */
static int begin_way(PyObject *way, PyObject *source)
{
    PyObject *link = slot(way, way_link), *now = NULL, *flight = NULL, *delay = NULL, *all = NULL, *found;
    int failed = -1;
    if (link == NULL)
        return -1;
    if (Py_TYPE(link) != link_type) {
        PyErr_SetString(PyExc_TypeError, "a passage is on no link");
        goto done;
    }
    if ((now = now_of(link, link_env)) == NULL || (flight = drawn(link)) == NULL || (delay = slot(way, way_delay)) == NULL)
        goto done;
    all = PyFloat_CheckExact(flight) && PyFloat_CheckExact(delay)
              ? PyFloat_FromDouble(PyFloat_AS_DOUBLE(flight) + PyFloat_AS_DOUBLE(delay))
              : PyNumber_Add(flight, delay);
    if (all == NULL)
        goto done;
    set_slot(way, way_began, now);
    set_slot(way, way_flight, all);
    long size = SLOT(way, way_size) == NULL ? -1 : PyLong_AsLong(SLOT(way, way_size));
    if (size == -1) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a passage has no size");
        goto done;
    }
    failed = 0;
    if (size > PACKET && !is_none(link, link_down) && !is_none(link, link_up)) {
        PyObject *down = slot(link, link_down);
        set_slot(way, way_rates, source);
        if (Py_TYPE(source) == rate_type)
            set_slot(source, rate_is_used, Py_True);
        found = down == NULL ? NULL : PyObject_CallMethodOneArg(down, name_expect, way);
        failed = found == NULL ? -1 : 0;
        Py_XDECREF(found);
        Py_XDECREF(down);
    }
done:
    Py_DECREF(link);
    Py_XDECREF(now);
    Py_XDECREF(flight);
    Py_XDECREF(delay);
    Py_XDECREF(all);
    return failed;
}

static PyObject *way_begin(PyObject *way, PyObject *const *given, Py_ssize_t count)
{
    if (count > 1) {
        PyErr_SetString(PyExc_TypeError, "begin takes a source");
        return NULL;
    }
    if (begin_way(way, count ? given[0] : infinity) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* The numbers of an uplink. */
typedef struct {
    double rate, now, at, sent, taken, level;
} shares;

/* Read the numbers; -1 without an error where they, or the collections of flows, are not of the types expected. */
static int shares_of(PyObject *up, shares *s)
{
    double rate, factor;
    PyObject *now = now_of(up, access_env);
    if (now == NULL) {
        PyErr_Clear();
        return -1;
    }
    int fits = PyFloat_CheckExact(now);
    s->now = fits ? PyFloat_AS_DOUBLE(now) : 0.0;
    Py_DECREF(now);
    if (!fits || real(up, access_at, &s->at) || real(up, up_sent, &s->sent) || real(up, up_taken, &s->taken)
        || real(up, up_level, &s->level) || real(up, access_rate, &rate) || real(up, access_factor, &factor) || factor == 0.0)
        return -1;
    PyObject *lists[] = {SLOT(up, up_capped), SLOT(up, up_shared), SLOT(up, up_ends), SLOT(up, up_times)};
    for (int i = 0; i < 4; i++)
        if (lists[i] == NULL || !PyList_CheckExact(lists[i]))
            return -1;
    PyObject *dicts[] = {SLOT(up, up_flows), SLOT(up, up_waiting)};
    for (int i = 0; i < 2; i++)
        if (dicts[i] == NULL || !PyDict_CheckExact(dicts[i]))
            return -1;
    s->rate = rate / factor;
    return 0;
}

/* `parcel.cap`; -1 with an error. */
static double cap_of(PyObject *parcel)
{
    double cap = Py_HUGE_VAL;
    PyObject *link = Py_TYPE(parcel) == passage_type ? SLOT(parcel, way_link) : NULL, *found;
    if (link != NULL && Py_TYPE(link) == link_type) {
        PyObject *down = SLOT(link, link_down);
        if (down == Py_None || (down != NULL && Py_TYPE(down) == downlink_type && real(down, access_rate, &cap) == 0))
            return cap;
    }
    if ((found = PyObject_GetAttr(parcel, name_cap)) == NULL)
        return -1.0;
    cap = PyFloat_AsDouble(found);
    Py_DECREF(found);
    return cap;
}

static double size_of(PyObject *parcel)
{
    if (Py_TYPE(parcel) == passage_type && SLOT(parcel, way_size) != NULL)
        return PyLong_AsDouble(SLOT(parcel, way_size));
    PyObject *found = PyObject_GetAttr(parcel, name_size);
    double size = found == NULL ? -1.0 : PyFloat_AsDouble(found);
    Py_XDECREF(found);
    return size;
}

/* `parcel.begin(source)` */
static int begin_parcel(PyObject *parcel, PyObject *source)
{
    if (Py_TYPE(parcel) == passage_type)
        return begin_way(parcel, source);
    PyObject *found = PyObject_CallMethodOneArg(parcel, name_begin, source);
    Py_XDECREF(found);
    return found == NULL ? -1 : 0;
}

/* `parcel.turn(now, cap)` */
static int turn_parcel(PyObject *parcel, double now, double cap)
{
    if (Py_TYPE(parcel) == passage_type && is_none(parcel, way_rates))
        return 0;
    PyObject *when = PyFloat_FromDouble(now), *rate = PyFloat_FromDouble(cap), *found = NULL;
    if (when != NULL && rate != NULL)
        found = PyObject_CallMethodObjArgs(parcel, name_turn, when, rate, NULL);
    Py_XDECREF(when);
    Py_XDECREF(rate);
    Py_XDECREF(found);
    return found == NULL ? -1 : 0;
}

/* `parcel.leave()` */
static int leave_parcel(PyObject *parcel)
{
    PyObject *found = Py_TYPE(parcel) == passage_type ? way_leave(parcel, NULL) : PyObject_CallMethodNoArgs(parcel, name_leave);
    Py_XDECREF(found);
    return found == NULL ? -1 : 0;
}

static int set_timer_at(PyObject *up, double due, int keeps_earlier)
{
    PyObject *when = PyFloat_FromDouble(due);
    int failed = when == NULL ? -1 : set_timer(up, when, keeps_earlier);
    Py_XDECREF(when);
    return failed;
}

/* Call a method of Python without a result. */
static int called(PyObject *object, PyObject *name)
{
    PyObject *found = PyObject_CallMethodNoArgs(object, name);
    Py_XDECREF(found);
    return found == NULL ? -1 : 0;
}

/* 1 if an entry of a heap of flows still holds, 0 if it is outdated; -1 with an error. */
static int holds(PyObject *entry, int capped, PyObject **flow)
{
    double end;
    if (!PyTuple_CheckExact(entry) || PyTuple_GET_SIZE(entry) != 3 || !PyFloat_CheckExact(PyTuple_GET_ITEM(entry, 0))
        || Py_TYPE(*flow = PyTuple_GET_ITEM(entry, 2)) != leaving_type || real(*flow, leaving_end, &end)) {
        PyErr_SetString(PyExc_TypeError, "an entry of the heap of flows is none");
        return -1;
    }
    return (SLOT(*flow, leaving_capped) == Py_True) == capped && end == PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(entry, 0));
}

static int drop_first(PyObject *heap)
{
    PyObject *entry = pop(heap);
    Py_XDECREF(entry);
    return entry == NULL ? -1 : 0;
}

/* Uplink._next(), to which the timer is set */
static int set_next(PyObject *up, const shares *s)
{
    PyObject *ends = SLOT(up, up_ends), *times = SLOT(up, up_times), *flow;
    for (int capped = 0; capped < 2; capped++) {
        PyObject *heap = capped ? times : ends;
        while (PyList_GET_SIZE(heap)) {
            int found = holds(ENTRY(heap, 0), capped, &flow);
            if (found < 0 || (!found && drop_first(heap) < 0))
                return -1;
            if (found)
                break;
        }
    }
    double due = PyList_GET_SIZE(times) ? PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(ENTRY(times, 0), 0)) : Py_HUGE_VAL;
    if (PyList_GET_SIZE(ends) && s->level != 0.0) {
        double left = PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(ENTRY(ends, 0), 0)) - s->sent;
        double other = s->now + (left > 0.0 ? left : 0.0) / s->level;
        if (other < due)
            due = other;
    }
    return set_timer_at(up, due, 1);
}

/* 1 if the place of one flow is before that of another, 0 if not; -1 with an error. */
static int is_placed_before(PyObject *one, PyObject *other)
{
    double cap, other_cap;
    if (Py_TYPE(one) != leaving_type || Py_TYPE(other) != leaving_type || real(one, leaving_cap, &cap)
        || real(other, leaving_cap, &other_cap)) {
        PyErr_SetString(PyExc_TypeError, "a flow is none");
        return -1;
    }
    if (cap != other_cap)
        return cap < other_cap;
    return PyObject_RichCompareBool(SLOT(one, leaving_number), SLOT(other, leaving_number), Py_LT);
}

/* Uplink._place(flow, True) */
static int place_capped(PyObject *up, PyObject *flow, double cap)
{
    double taken;
    PyObject *flows = SLOT(up, up_capped), *end = SLOT(flow, leaving_end), *number = SLOT(flow, leaving_number);
    PyObject *place = PyTuple_Pack(2, SLOT(flow, leaving_cap), number), *entry = PyTuple_Pack(3, end, number, flow);
    int failed = -1, before = 0;
    if (place == NULL || entry == NULL || real(up, up_taken, &taken))
        goto done;
    set_slot(flow, leaving_capped, Py_True);
    set_slot(flow, leaving_place, place);
    if (set_real(up, up_taken, taken + cap) < 0 || push(SLOT(up, up_times), entry) < 0)
        goto done;
    Py_ssize_t count = PyList_GET_SIZE(flows);
    if (count && (before = is_placed_before(flow, PyList_GET_ITEM(flows, count - 1))) < 0)
        goto done;
    if (!before) {
        failed = PyList_Append(flows, flow);
        goto done;
    }
    Py_ssize_t low = 0, high = count;
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        if ((before = is_placed_before(flow, PyList_GET_ITEM(flows, middle))) < 0)
            goto done;
        if (before)
            high = middle;
        else
            low = middle + 1;
    }
    failed = PyList_Insert(flows, low, flow);
done:
    Py_XDECREF(place);
    Py_XDECREF(entry);
    if (failed && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "the rate that is taken is no number");
    return failed;
}

/* Uplink._take_out(flow) */
static int take_out(PyObject *up, PyObject *flow)
{
    int is_capped = SLOT(flow, leaving_capped) == Py_True, before;
    PyObject *flows = SLOT(up, is_capped ? up_capped : up_shared);
    Py_ssize_t low = 0, high = PyList_GET_SIZE(flows);
    if (high && PyList_GET_ITEM(flows, 0) != flow) {
        while (low < high) {
            Py_ssize_t middle = (low + high) / 2;
            if ((before = is_placed_before(PyList_GET_ITEM(flows, middle), flow)) < 0)
                return -1;
            if (before)
                low = middle + 1;
            else
                high = middle;
        }
    }
    if (PySequence_DelItem(flows, low) < 0)
        return -1;
    if (!is_capped)
        return 0;
    double taken, cap;
    if (real(up, up_taken, &taken) || real(flow, leaving_cap, &cap)) {
        PyErr_SetString(PyExc_TypeError, "the rate that is taken is no number");
        return -1;
    }
    return set_real(up, up_taken, PyList_GET_SIZE(flows) ? taken - cap : 0.0);
}

/* Uplink._share() */
static int share(PyObject *up)
{
    shares s;
    double cap;
    if (shares_of(up, &s) < 0)
        goto in_python;
    PyObject *capped = SLOT(up, up_capped), *shared = SLOT(up, up_shared);
    Py_ssize_t count = PyList_GET_SIZE(capped), sharing = PyList_GET_SIZE(shared);
    if (count && (real(PyList_GET_ITEM(capped, count - 1), leaving_cap, &cap) || cap * (double)(sharing + 1) > s.rate - s.taken + cap))
        goto in_python;
    if (sharing && (real(PyList_GET_ITEM(shared, 0), leaving_cap, &cap) || cap * (double)sharing <= s.rate - s.taken))
        goto in_python;
    double left = s.rate - s.taken, level = sharing ? (left > 0.0 ? left : 0.0) / (double)sharing : 0.0;
    if (level != s.level)
        goto in_python;
    return set_next(up, &s);
in_python:
    return called(up, name_share);
}

/* Uplink._begin_one(parcel) */
static int begin_one(PyObject *up, PyObject *parcel)
{
    shares s;
    double cap = cap_of(parcel), size = size_of(parcel), last;
    if (PyErr_Occurred())
        return -1;
    int in_python = shares_of(up, &s) < 0;
    if (!in_python) {
        PyObject *capped = SLOT(up, up_capped);
        Py_ssize_t count = PyList_GET_SIZE(capped);
        double left = s.rate - s.taken;
        in_python = !(cap <= left);
        if (!in_python && count)
            in_python = real(PyList_GET_ITEM(capped, count - 1), leaving_cap, &last) || last * 2 > left + last;
    }
    if (in_python) {
        PyObject *found = PyObject_CallMethodOneArg(up, name_begin_one, parcel);
        Py_XDECREF(found);
        return found == NULL ? -1 : 0;
    }
    int failed = -1;
    PyObject *flow = leaving_type->tp_alloc(leaving_type, 0), *link = PyObject_GetAttr(parcel, name_link), *tail = NULL;
    if (flow == NULL || link == NULL || set_real(up, access_at, s.now) < 0 || count_one(up, up_number) < 0)
        goto done;
    set_slot(flow, leaving_number, SLOT(up, up_number));
    set_slot(flow, leaving_parcel, parcel);
    set_slot(flow, leaving_capped, Py_False);
    double end = s.sent + size;
    if (set_real(flow, leaving_end, end) < 0 || set_real(flow, leaving_cap, cap) < 0
        || PyDict_SetItem(SLOT(up, up_flows), link, flow) < 0 || (tail = slot(up, up_tail)) == NULL
        || begin_parcel(parcel, tail) < 0)
        goto done;
    double rest = end - s.sent;
    if (set_real(flow, leaving_end, s.now + (rest > 0.0 ? rest : 0.0) / cap) < 0 || place_capped(up, flow, cap) < 0
        || turn_parcel(parcel, s.now, cap) < 0)
        goto done;
    failed = set_next(up, &s);
done:
    Py_XDECREF(flow);
    Py_XDECREF(link);
    Py_XDECREF(tail);
    return failed;
}

/* Uplink._go_on(parcel, now) */
static int go_on(PyObject *up, PyObject *parcel, const shares *s)
{
    double end, cap;
    int is_capped = SLOT(up, up_is_capped) == Py_True;
    if (real(up, up_end, &end))
        goto no_number;
    if (!is_capped) {
        cap = cap_of(parcel);
        if (PyErr_Occurred())
            return -1;
        if (cap <= s->rate) {
            double rest = end - s->sent;
            end = s->now + (rest > 0.0 ? rest : 0.0) / cap;
            is_capped = 1;
            set_slot(up, up_is_capped, Py_True);
            if (set_real(up, up_end, end) < 0 || turn_parcel(parcel, s->now, cap) < 0)
                return -1;
        }
    }
    double level = is_capped ? 0.0 : s->rate;
    if (level != s->level) {
        PyObject *when = PyFloat_FromDouble(s->now), *rate = PyFloat_FromDouble(level), *tail = slot(up, up_tail), *found = NULL;
        if (when != NULL && rate != NULL && tail != NULL && set_real(up, up_level, level) == 0
            && (found = PyObject_CallMethodObjArgs(tail, name_change, when, rate, NULL)) != NULL)
            set_slot(up, up_tail, found);
        Py_XDECREF(when);
        Py_XDECREF(rate);
        Py_XDECREF(tail);
        Py_XDECREF(found);
        if (found == NULL)
            return -1;
    }
    double rest = end - s->sent;
    return set_timer_at(up, is_capped ? end : s->now + (rest > 0.0 ? rest : 0.0) / level, 1);
no_number:
    PyErr_SetString(PyExc_TypeError, "the end of a row is no number");
    return -1;
}

/* Uplink._line_up(alone, parcel), where no row has begun */
static int begin_row(PyObject *up, PyObject *alone, PyObject *parcel, shares *s)
{
    double size = size_of(alone), cap = cap_of(alone);
    if (PyErr_Occurred())
        return -1;
    double left = size - (cap < s->rate ? cap : s->rate) * (s->now - s->at);
    PyObject *one = PyTuple_Pack(1, parcel), *made = one == NULL ? NULL : PyObject_CallOneArg(deque_type, one);
    PyObject *number = PyLong_FromLong(1), *when = PyFloat_FromDouble(s->now), *tail = slot(up, up_tail), *found = NULL;
    int failed = -1;
    if (made == NULL || number == NULL || when == NULL || tail == NULL)
        goto done;
    set_slot(up, up_behind, made);
    set_slot(up, up_number, number);
    set_slot(up, up_is_capped, Py_False);
    set_slot(up, access_at, when);
    s->at = s->now;
    if (set_real(up, up_end, left > 0.0 ? left : 0.0) < 0)
        goto done;
    if (!is_none(alone, way_rates) && (found = PyObject_CallMethodObjArgs(alone, name_turn, when, tail, NULL)) == NULL)
        goto done;
    failed = go_on(up, alone, s);
done:
    Py_XDECREF(one);
    Py_XDECREF(made);
    Py_XDECREF(number);
    Py_XDECREF(when);
    Py_XDECREF(tail);
    Py_XDECREF(found);
    return failed;
}

/* Uplink.carry(parcel) */
static PyObject *up_carry(PyObject *up, PyObject *parcel)
{
    shares s;
    double cap, size, factor;
    PyObject *alone = SLOT(up, up_alone), *flows = SLOT(up, up_flows), *link, *behind, *source, *found;
    if (Py_TYPE(parcel) != passage_type || alone == NULL || (link = SLOT(parcel, way_link)) == NULL
        || Py_TYPE(link) != link_type || shares_of(up, &s) < 0 || real(up, access_factor, &factor))
        goto in_python;
    if (alone == Py_None) {
        if (PyDict_GET_SIZE(flows)) {
            int is_busy = PyDict_Contains(flows, link);
            if (is_busy < 0)
                return NULL;
            if (is_busy || PyList_GET_SIZE(SLOT(up, up_shared)) || s.level != 0.0)
                goto in_python;
            if (begin_one(up, parcel) < 0)
                return NULL;
            Py_RETURN_NONE;
        }
        if (!(factor < Py_HUGE_VAL))
            goto in_python;
        cap = cap_of(parcel);
        size = size_of(parcel);
        if (PyErr_Occurred())
            return NULL;
        double rate = cap < s.rate ? cap : s.rate;
        set_slot(up, up_alone, parcel);
        if (set_real(up, access_at, s.now) < 0 || set_timer_at(up, s.now + size / rate, 0) < 0
            || (source = PyFloat_FromDouble(rate)) == NULL)
            return NULL;
        int failed = begin_way(parcel, source);
        Py_DECREF(source);
        if (failed)
            return NULL;
        Py_RETURN_NONE;
    }
    behind = SLOT(up, up_behind);
    if (Py_TYPE(alone) != passage_type || SLOT(alone, way_link) != link || behind == NULL)
        goto in_python;
    if (behind == Py_None) {
        Py_INCREF(alone);
        int failed = begin_row(up, alone, parcel, &s);
        Py_DECREF(alone);
        if (failed)
            return NULL;
        Py_RETURN_NONE;
    }
    Py_INCREF(behind);
    found = PyObject_CallMethodOneArg(behind, name_append, parcel);
    Py_DECREF(behind);
    return found;
in_python:
    return PyErr_Occurred() ? NULL : PyObject_CallFunctionObjArgs(python_carry, up, parcel, NULL);
}

/* Seconds that count as none at the time `now`. */
static double near_of(double now)
{
    double size = now < 0.0 ? -now : now;
    return INSTANT + 4 * (nextafter(size, Py_HUGE_VAL) - size);
}

/* Uplink._wake_row(parcel) */
static int wake_row(PyObject *up, PyObject *parcel, PyObject *behind, shares *s)
{
    double end, size;
    int failed = -1;
    if (real(up, up_end, &end))
        return PyErr_Format(PyExc_TypeError, "the end of a row is no number"), -1;
    s->sent += s->level * (s->now - s->at);
    s->at = s->now;
    if (set_real(up, up_sent, s->sent) < 0 || set_real(up, access_at, s->now) < 0)
        return -1;
    double near = near_of(s->now);
    Py_INCREF(parcel);
    if (end <= (SLOT(up, up_is_capped) == Py_True ? s->now + near : s->sent + near * s->level)) {
        if (leave_parcel(parcel) < 0)
            goto done;
        Py_ssize_t waiting = PyObject_Size(behind);
        if (waiting <= 0) {
            failed = waiting < 0 ? -1 : called(up, name_clear);
            goto done;
        }
        Py_SETREF(parcel, PyObject_CallMethodNoArgs(behind, name_popleft));
        if (parcel == NULL)
            return -1;
        set_slot(up, up_alone, parcel);
        set_slot(up, up_is_capped, Py_False);
        size = size_of(parcel);
        if (PyErr_Occurred() || count_one(up, up_number) < 0 || set_real(up, up_end, s->sent + size) < 0)
            goto done;
        PyObject *tail = slot(up, up_tail);
        int begun = tail == NULL ? -1 : begin_parcel(parcel, tail);
        Py_XDECREF(tail);
        if (begun < 0)
            goto done;
    }
    failed = go_on(up, parcel, s);
done:
    Py_DECREF(parcel);
    return failed;
}

/* Take the flows that end off a heap, and put them into a list. */
static int take_through(PyObject *heap, int capped, double until, PyObject *through)
{
    while (PyList_GET_SIZE(heap)) {
        PyObject *flow;
        int found = holds(ENTRY(heap, 0), capped, &flow);
        if (found < 0)
            return -1;
        if (found && PyFloat_AS_DOUBLE(PyTuple_GET_ITEM(ENTRY(heap, 0), 0)) > until)
            break;
        PyObject *entry = pop(heap);
        if (entry == NULL)
            return -1;
        int failed = 0;
        if (found)
            failed = PyList_Append(through, flow) < 0 || set_real(flow, leaving_end, Py_NAN) < 0; /* others are outdated */
        Py_DECREF(entry);
        if (failed)
            return -1;
    }
    return 0;
}

/* Sort flows by their numbers. */
static int sort_flows(PyObject *flows)
{
    for (Py_ssize_t i = 1; i < PyList_GET_SIZE(flows); i++)
        for (Py_ssize_t j = i; j > 0; j--) {
            PyObject *one = PyList_GET_ITEM(flows, j - 1), *other = PyList_GET_ITEM(flows, j);
            int is_later = PyObject_RichCompareBool(SLOT(other, leaving_number), SLOT(one, leaving_number), Py_LT);
            if (is_later < 0)
                return -1;
            if (!is_later)
                break;
            PyList_SET_ITEM(flows, j - 1, other);
            PyList_SET_ITEM(flows, j, one);
        }
    return 0;
}

/* Let the next parcel of a link begin, behind one that has left; 1 if it has done all that is to be done. */
static int follow(PyObject *up, PyObject *flows, PyObject *waiting, PyObject *flow, int is_only)
{
    PyObject *parcel = slot(flow, leaving_parcel), *link = NULL, *queue = NULL, *next = NULL, *found = NULL;
    int done = -1;
    if (parcel == NULL || (link = PyObject_GetAttr(parcel, name_link)) == NULL || leave_parcel(parcel) < 0)
        goto failed;
    PyObject *there = PyDict_GetItemWithError(flows, link);
    if (there == NULL && PyErr_Occurred())
        goto failed;
    if (flows != SLOT(up, up_flows) || there != Py_None) {
        done = 0;
        goto failed;
    }
    queue = PyDict_GetItemWithError(waiting, link);
    if (queue == NULL) {
        done = PyErr_Occurred() || PyDict_DelItem(flows, link) < 0 ? -1 : 0;
        goto failed;
    }
    Py_INCREF(queue);
    if ((next = PyObject_CallMethodNoArgs(queue, name_popleft)) == NULL)
        goto failed;
    Py_ssize_t rest = PyObject_Size(queue);
    if (rest < 0 || (rest == 0 && PyDict_DelItem(waiting, link) < 0))
        goto failed;
    double level;
    PyObject *shared = SLOT(up, up_shared);
    if (is_only && PyList_CheckExact(shared) && !PyList_GET_SIZE(shared) && real(up, up_level, &level) == 0 && level == 0.0) {
        done = begin_one(up, next) < 0 ? -1 : 1;
    } else {
        found = PyObject_CallMethodOneArg(up, name_begin_flow, next);
        done = found == NULL ? -1 : 0;
    }
failed:
    Py_XDECREF(parcel);
    Py_XDECREF(link);
    Py_XDECREF(queue);
    Py_XDECREF(next);
    Py_XDECREF(found);
    return done;
}

/* Uplink._wake() */
static PyObject *up_wake(PyObject *up, PyObject *ignored)
{
    (void)ignored;
    shares s;
    PyObject *alone = SLOT(up, up_alone), *behind = SLOT(up, up_behind);
    if (alone == NULL || behind == NULL || shares_of(up, &s) < 0)
        return PyErr_Occurred() ? NULL : PyObject_CallOneArg(python_up_wake, up);
    set_slot(up, access_timer, Py_None);
    if (alone != Py_None) {
        int failed;
        Py_INCREF(alone);
        if (behind != Py_None) {
            Py_INCREF(behind);
            failed = wake_row(up, alone, behind, &s);
            Py_DECREF(behind);
        } else {
            set_slot(up, up_alone, Py_None);
            failed = leave_parcel(alone);
        }
        Py_DECREF(alone);
        if (failed)
            return NULL;
        Py_RETURN_NONE;
    }
    s.sent += s.level * (s.now - s.at);
    double near = near_of(s.now);
    PyObject *through = PyList_New(0), *flows = slot(up, up_flows), *waiting = slot(up, up_waiting), *found = NULL;
    if (through == NULL || flows == NULL || waiting == NULL || set_real(up, up_sent, s.sent) < 0
        || set_real(up, access_at, s.now) < 0 || take_through(SLOT(up, up_times), 1, s.now + near, through) < 0
        || take_through(SLOT(up, up_ends), 0, s.sent + near * s.level, through) < 0 || sort_flows(through) < 0)
        goto done;
    Py_ssize_t count = PyList_GET_SIZE(through);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *flow = PyList_GET_ITEM(through, i), *link = PyObject_GetAttr(SLOT(flow, leaving_parcel), name_link);
        int failed = link == NULL || take_out(up, flow) < 0 || PyDict_SetItem(flows, link, Py_None) < 0;
        Py_XDECREF(link);
        if (failed)
            goto done;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        int is_done = follow(up, flows, waiting, PyList_GET_ITEM(through, i), count == 1);
        if (is_done < 0)
            goto done;
        if (is_done) {
            found = Py_NewRef(Py_None);
            goto done;
        }
    }
    PyObject *left = SLOT(up, up_flows);
    if (left == NULL || !PyDict_CheckExact(left))
        PyErr_SetString(PyExc_TypeError, "the flows are no dict");
    else if (PyDict_GET_SIZE(left) ? share(up) == 0 : SLOT(up, up_alone) != Py_None || called(up, name_clear) == 0)
        found = Py_NewRef(Py_None);
done:
    Py_XDECREF(through);
    Py_XDECREF(flows);
    Py_XDECREF(waiting);
    return found;
}

/* Link.send(size, deliver, cut) */
static PyObject *link_send(PyObject *link, PyObject *const *given, Py_ssize_t count)
{
    PyObject *up = SLOT(link, link_up), *down = SLOT(link, link_down), *fixed = SLOT(link, link_fixed), *found = NULL;
    if (count == 3 && up == Py_None && down == Py_None && fixed != NULL && fixed != Py_None) {
        PyObject *landing[] = {fixed, given[1]};
        if (count_one(link, link_draws) == 0)
            found = land(link, landing, 2);
        if (found != NULL)
            Py_SETREF(found, Py_NewRef(Py_None));
        return found;
    }
    if (count != 3 || up == NULL || down == NULL || (up != Py_None && Py_TYPE(up) != uplink_type)) {
        PyObject *all[4] = {link, count > 0 ? given[0] : NULL, count > 1 ? given[1] : NULL, count > 2 ? given[2] : NULL};
        return PyObject_Vectorcall(python_send, all, (size_t)(count < 3 ? count : 3) + 1, NULL);
    }
    PyObject *way = passage_type->tp_alloc(passage_type, 0);
    if (way == NULL)
        return NULL;
    set_slot(way, way_size, given[0]);
    set_slot(way, way_deliver, given[1]);
    set_slot(way, way_cut, given[2]);
    set_slot(way, way_link, link);
    set_slot(way, way_began, zero);
    set_slot(way, way_flight, zero);
    set_slot(way, way_delay, zero);
    set_slot(way, way_left, infinity);
    set_slot(way, way_end, infinity);
    set_slot(way, way_rates, Py_None);
    set_slot(way, way_arrival, Py_None);
    if (up != Py_None) {
        Py_INCREF(up);
        found = up_carry(up, way);
        Py_DECREF(up);
    } else if (begin_way(way, infinity) == 0) {
        found = way_leave(way, NULL);
    }
    Py_DECREF(way);
    if (found != NULL)
        Py_SETREF(found, Py_NewRef(Py_None));
    return found;
}
