/* The most frequent way of a packet: see `LinkNetwork` and `Journey` in network.py, and `Ledger.add` in wire.py, whose Python
code does the same. What is rare is left to that code, before anything has changed. Included by events.c. */

static PyTypeObject *network_type, *journey_type, *endpoint_type, *packet_type, *row_type, *ledger_type, *trace_type;
static PyObject *python_network_send, *python_hop, *python_land, *python_record;
static PyObject *event_class, *chain_hashes, *no_text, *no_number, *no_origin; /* Event, and `chained` of digests.py */
static PyObject *name_sent, *name_delivered, *name_land, *word_send, *word_relay, *word_deliver, *name_deliver, *name_relay,
    *name_link_of, *name_row_of;
static Py_ssize_t net_is_plain, net_links, net_ledger, net_trace, net_env, net_hub, net_is_mesh, net_endpoints, net_copies,
    net_in_flight, net_flying, net_times, net_barriers, net_taps;
static Py_ssize_t trip_near, trip_far, trip_far_life, trip_packet, trip_source, trip_source_life, trip_target,
    trip_target_life, trip_flipped, trip_departed, trip_network, trip_message, trip_number, trip_delay, trip_doomed;
static Py_ssize_t end_name, end_alive, end_paused, end_handles, end_life, end_receive;
static Py_ssize_t packet_sender, packet_receiver, packet_type_name, packet_step, packet_protocol, packet_times, packet_payload,
    packet_sealing, packet_envelope, packet_round, packet_attempt, packet_digest;
static Py_ssize_t row_type_name, row_step, row_protocol, row_relayed, row_messages, row_payload, row_sealing, row_envelope;
static Py_ssize_t ledger_messages, ledger_bytes, trace_uses_digests, trace_count, trace_hashed, trace_chain, trace_shape,
    trace_sinks, trace_is_watched, link_row;

/* The whole number in a slot; -1 without an error if there is none that fits. */
static long long whole(PyObject *object, Py_ssize_t place)
{
    PyObject *found = SLOT(object, place);
    int overflow;
    if (found == NULL || !PyLong_CheckExact(found))
        return -1;
    long long number = PyLong_AsLongLongAndOverflow(found, &overflow);
    return overflow ? -1 : number;
}

static int set_whole(PyObject *object, Py_ssize_t place, long long number)
{
    PyObject *made = PyLong_FromLongLong(number);
    if (made == NULL)
        return -1;
    set_slot(object, place, made);
    Py_DECREF(made);
    return 0;
}

/* 1 if a list of the taps is empty, 0 if not; -1 with an error. */
static int is_untapped(PyObject *network, PyObject *name)
{
    PyObject *taps = slot(network, net_taps), *found = taps == NULL ? NULL : PyObject_GetAttr(taps, name);
    Py_ssize_t count = found == NULL ? -1 : PyObject_Size(found);
    Py_XDECREF(taps);
    Py_XDECREF(found);
    return count < 0 ? -1 : count == 0;
}

static int is_true(PyObject *object, Py_ssize_t place)
{
    return SLOT(object, place) == Py_True;
}

/* Chain an event of whose fields `values` are the first fifteen, as Trace.chain. */
static int chain(PyObject *trace, PyObject *const values[15])
{
    if (count_one(trace, trace_count) < 0)
        return -1;
    if (!is_true(trace, trace_hashed))
        return 0;
    PyObject *shape = PyTuple_New(12), *rest = PyTuple_New(3), *both = NULL;
    int failed = -1;
    if (shape == NULL || rest == NULL)
        goto done;
    for (int i = 0; i < 12; i++)
        PyTuple_SET_ITEM(shape, i, Py_NewRef(values[i]));
    for (int i = 0; i < 3; i++)
        PyTuple_SET_ITEM(rest, i, Py_NewRef(values[12 + i]));
    PyObject *given[] = {SLOT(trace, trace_chain), SLOT(trace, trace_shape), shape, rest};
    if ((both = PyObject_Vectorcall(chain_hashes, given, 4, NULL)) == NULL)
        goto done;
    if (!PyTuple_CheckExact(both) || PyTuple_GET_SIZE(both) != 2) {
        PyErr_SetString(PyExc_TypeError, "the next values of both chains are no pair");
        goto done;
    }
    set_slot(trace, trace_chain, PyTuple_GET_ITEM(both, 0));
    set_slot(trace, trace_shape, PyTuple_GET_ITEM(both, 1));
    failed = 0;
done:
    Py_XDECREF(shape);
    Py_XDECREF(rest);
    Py_XDECREF(both);
    return failed;
}

/* LinkNetwork._record(kind, journey, sender, receiver): trace an event of a copy, or count it. */
static int record(PyObject *network, PyObject *kind, PyObject *journey, PyObject *sender, PyObject *receiver)
{
    PyObject *trace = SLOT(network, net_trace), *env = SLOT(network, net_env), *packet = SLOT(journey, trip_packet);
    if (Py_TYPE(trace) != trace_type || Py_TYPE(packet) != packet_type || whole(packet, packet_times) != 1 || env == NULL
        || !PyObject_TypeCheck(env, environment_type) || SLOT(trace, trace_sinks) == NULL
        || !PyTuple_CheckExact(SLOT(trace, trace_sinks)) || SLOT(trace, trace_chain) == NULL
        || SLOT(trace, trace_shape) == NULL || SLOT(journey, trip_near) == NULL) {
        PyObject *found = PyObject_CallFunctionObjArgs(python_record, network, kind, journey, sender, receiver, NULL);
        Py_XDECREF(found);
        return found == NULL ? -1 : 0;
    }
    if (!is_true(trace, trace_uses_digests))
        return count_one(trace, trace_count);
    PyObject *hop = PyLong_FromLong(SLOT(journey, trip_near) == SLOT(journey, trip_source) ? 1 : 2);
    PyObject *values[] = {
        SLOT(env, env_now), kind, sender, receiver, SLOT(packet, packet_protocol), SLOT(packet, packet_step),
        SLOT(packet, packet_type_name), SLOT(packet, packet_round), SLOT(packet, packet_attempt), SLOT(packet, packet_payload),
        SLOT(packet, packet_sealing), SLOT(packet, packet_envelope), no_text, no_number, SLOT(packet, packet_digest),
        SLOT(journey, trip_message), SLOT(journey, trip_number), hop, SLOT(packet, packet_sender),
        SLOT(packet, packet_receiver), no_origin, no_text, no_text, PyLong_FromLong(0),
    };
    enum { FIELDS = sizeof values / sizeof *values };
    int failed = -1;
    for (int i = 0; i < FIELDS; i++)
        if (values[i] == NULL) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_AttributeError, "an attribute of a packet is missing");
            goto done;
        }
    if (chain(trace, values) < 0)
        goto done;
    failed = 0;
    if (is_true(trace, trace_is_watched)) {
        PyObject *sinks = Py_NewRef(SLOT(trace, trace_sinks)), *event = PyObject_Vectorcall(event_class, values, FIELDS, NULL);
        failed = event == NULL ? -1 : 0;
        for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(sinks); i++) {
            PyObject *found = PyObject_CallOneArg(PyTuple_GET_ITEM(sinks, i), event);
            Py_XDECREF(found);
            failed = found == NULL ? -1 : 0;
        }
        Py_XDECREF(event);
        Py_DECREF(sinks);
    }
done:
    Py_XDECREF(hop);
    Py_XDECREF(values[FIELDS - 1]);
    return failed;
}

static PyObject *network_record(PyObject *network, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    if (count == 4 && names == NULL && Py_TYPE(network) == network_type && Py_TYPE(given[1]) == journey_type
        && SLOT(network, net_trace) != NULL && SLOT(given[1], trip_packet) != NULL) {
        if (record(network, given[0], given[1], given[2], given[3]) < 0)
            return NULL;
        Py_RETURN_NONE;
    }
    PyObject *own[8] = {network}; /* further ones are the reason, the fact and its number */
    Py_ssize_t all = count + (names == NULL ? 0 : PyTuple_GET_SIZE(names));
    if (all > 7) {
        PyErr_SetString(PyExc_TypeError, "_record takes at most seven arguments");
        return NULL;
    }
    memcpy(own + 1, given, (size_t)all * sizeof *given);
    return PyObject_Vectorcall(python_record, own, (size_t)count + 1, names);
}

/* The row of the ledger for a hop of a packet, which its link keeps, with a reference. */
static PyObject *row_for(PyObject *ledger, PyObject *link, PyObject *packet, PyObject *near, PyObject *far, PyObject *relayed)
{
    PyObject *row = SLOT(link, link_row);
    if (row != NULL && Py_TYPE(row) == row_type && SLOT(row, row_type_name) == SLOT(packet, packet_type_name)
        && SLOT(row, row_step) == SLOT(packet, packet_step) && SLOT(row, row_relayed) == relayed
        && SLOT(row, row_protocol) == SLOT(packet, packet_protocol))
        return Py_NewRef(row);
    PyObject *given[] = {ledger, packet, SLOT(near, end_name), SLOT(far, end_name), relayed};
    if ((row = PyObject_VectorcallMethod(name_row_of, given, 5, NULL)) == NULL)
        return NULL;
    set_slot(link, link_row, row);
    return row;
}

/* LinkNetwork._hop(journey, near, far); 1 if nothing was done, because Python must do it. */
static int hop(PyObject *network, PyObject *journey, PyObject *near, PyObject *far)
{
    PyObject *ledger = SLOT(network, net_ledger), *trace = SLOT(network, net_trace), *links = SLOT(network, net_links);
    PyObject *packet = SLOT(journey, trip_packet), *env = SLOT(network, net_env);
    if (Py_TYPE(network) != network_type || !is_true(network, net_is_plain) || Py_TYPE(near) != endpoint_type || Py_TYPE(far) != endpoint_type
        || !is_true(near, end_alive) || is_true(near, end_handles) || ledger == NULL || Py_TYPE(ledger) != ledger_type
        || trace == NULL || Py_TYPE(trace) != trace_type || links == NULL || !PyDict_CheckExact(links) || packet == NULL
        || Py_TYPE(packet) != packet_type || env == NULL || !PyObject_TypeCheck(env, environment_type)
        || whole(packet, packet_times) != 1)
        return 1;
    PyObject *key = PyTuple_Pack(2, SLOT(near, end_name), SLOT(far, end_name)), *made = NULL;
    PyObject *link = key == NULL ? NULL : PyDict_GetItemWithError(links, key);
    Py_XDECREF(key);
    if (link == NULL) {
        made = PyErr_Occurred() ? NULL : PyObject_CallMethodObjArgs(network, name_link_of, near, far, NULL);
        if (made == NULL)
            return -1;
        link = made; /* which the network keeps */
        Py_DECREF(made);
    }
    PyObject *relayed = near == SLOT(journey, trip_source) ? Py_False : Py_True;
    if (Py_TYPE(link) != link_type)
        return 1;
    PyObject *row = row_for(ledger, link, packet, near, far, relayed);
    if (row == NULL)
        return -1;
    Py_DECREF(row); /* the ledger and the link have it */
    if (Py_TYPE(row) != row_type)
        return 1;
    long long payload = whole(packet, packet_payload), sealing = whole(packet, packet_sealing);
    long long envelope = whole(packet, packet_envelope), messages = whole(row, row_messages), paid = whole(row, row_payload);
    long long sealed = whole(row, row_sealing), enveloped = whole(row, row_envelope), all = whole(ledger, ledger_messages);
    long long bytes = whole(ledger, ledger_bytes);
    if (payload < 0 || sealing < 0 || envelope < 0 || messages < 0 || paid < 0 || sealed < 0 || enveloped < 0 || all < 0
        || bytes < 0 || bytes > LLONG_MAX / 2 || envelope > LLONG_MAX / 8 || payload > LLONG_MAX / 8)
        return 1;
    PyObject *life = far == SLOT(journey, trip_target) ? SLOT(journey, trip_target_life) : SLOT(far, end_life);
    if (life == NULL)
        return 1;
    set_slot(journey, trip_near, near);
    set_slot(journey, trip_far, far);
    set_slot(journey, trip_far_life, life);
    long long size = payload + sealing + envelope;
    if (set_whole(row, row_messages, messages + 1) || set_whole(row, row_payload, paid + payload)
        || set_whole(row, row_sealing, sealed + sealing) || set_whole(row, row_envelope, enveloped + envelope)
        || set_whole(ledger, ledger_messages, all + 1) || set_whole(ledger, ledger_bytes, bytes + size))
        return -1;
    Py_INCREF(link);
    int failed = -1;
    PyObject *number = NULL, *now = NULL, *found;
    if (record(network, relayed == Py_True ? word_relay : word_send, journey, SLOT(near, end_name), SLOT(far, end_name)) < 0
        || (now = slot(env, env_now)) == NULL)
        goto done;
    set_slot(journey, trip_departed, now);
    if ((number = PyLong_FromLongLong(size)) != NULL) {
        PyObject *given[] = {number, journey, journey};
        found = link_send(link, given, 3);
        failed = found == NULL ? -1 : 0;
        Py_XDECREF(found);
    }
done:
    Py_DECREF(link);
    Py_XDECREF(number);
    Py_XDECREF(now);
    return failed;
}

/* The same, in Python where it must be. */
static int hop_anyhow(PyObject *network, PyObject *journey, PyObject *near, PyObject *far)
{
    int left = hop(network, journey, near, far);
    if (left <= 0)
        return left;
    PyObject *found = PyObject_CallFunctionObjArgs(python_hop, network, journey, near, far, NULL);
    Py_XDECREF(found);
    return found == NULL ? -1 : 0;
}

static PyObject *network_hop(PyObject *network, PyObject *const *given, Py_ssize_t count)
{
    if (count != 3 || Py_TYPE(given[0]) != journey_type) {
        PyErr_SetString(PyExc_TypeError, "_hop takes a journey and two endpoints");
        return NULL;
    }
    if (hop_anyhow(network, given[0], given[1], given[2]) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* Add to the number of copies in flight of a sender, in all and by sender. */
static int count_flying(PyObject *network, PyObject *sender, int more)
{
    PyObject *flying = SLOT(network, net_flying);
    long long all = whole(network, net_in_flight);
    if (flying == NULL || !PyDict_CheckExact(flying) || set_whole(network, net_in_flight, all + more) < 0)
        return -1;
    PyObject *before = PyDict_GetItemWithError(flying, sender);
    if (before == NULL && PyErr_Occurred())
        return -1;
    long number = (before == NULL ? 0 : PyLong_AsLong(before)) + more;
    if (PyErr_Occurred())
        return -1;
    if (number == 0)
        return PyDict_DelItem(flying, sender);
    PyObject *after = PyLong_FromLong(number);
    int failed = after == NULL ? -1 : PyDict_SetItem(flying, sender, after);
    Py_XDECREF(after);
    return failed;
}

/* LinkNetwork.send(packet) */
static PyObject *network_send(PyObject *network, PyObject *packet)
{
    PyObject *endpoints = SLOT(network, net_endpoints), *source = NULL, *target = NULL, *hub = SLOT(network, net_hub), *far;
    int is_usual = Py_TYPE(network) == network_type && Py_TYPE(packet) == packet_type && endpoints != NULL
                   && PyDict_CheckExact(endpoints) && whole(network, net_in_flight) >= 0 && hub != NULL;
    if (is_usual && (is_usual = is_untapped(network, name_sent)) < 0)
        return NULL;
    if (is_usual) {
        if ((source = PyDict_GetItemWithError(endpoints, SLOT(packet, packet_sender))) == NULL && PyErr_Occurred())
            return NULL;
        if ((target = PyDict_GetItemWithError(endpoints, SLOT(packet, packet_receiver))) == NULL && PyErr_Occurred())
            return NULL;
    }
    if (source == NULL || target == NULL || Py_TYPE(source) != endpoint_type || Py_TYPE(target) != endpoint_type
        || SLOT(source, end_paused) != Py_False || SLOT(source, end_life) == NULL || SLOT(target, end_life) == NULL)
        return PyObject_CallFunctionObjArgs(python_network_send, network, packet, NULL);
    far = target;
    if (!is_true(network, net_is_mesh)) {
        int is_from = PyObject_RichCompareBool(SLOT(packet, packet_sender), hub, Py_EQ);
        int is_direct = is_from ? is_from : PyObject_RichCompareBool(SLOT(packet, packet_receiver), hub, Py_EQ);
        if (is_direct < 0 || (!is_direct && (far = PyDict_GetItemWithError(endpoints, hub)) == NULL)) {
            if (!PyErr_Occurred())
                PyErr_SetObject(PyExc_KeyError, hub);
            return NULL;
        }
    }
    PyObject *journey = journey_type->tp_alloc(journey_type, 0);
    if (journey == NULL)
        return NULL;
    int failed = count_one(network, net_copies);
    if (!failed) {
        set_slot(journey, trip_network, network);
        set_slot(journey, trip_packet, packet);
        set_slot(journey, trip_flipped, Py_None);
        set_slot(journey, trip_message, SLOT(network, net_copies));
        set_slot(journey, trip_number, SLOT(network, net_copies));
        set_slot(journey, trip_source, source);
        set_slot(journey, trip_source_life, SLOT(source, end_life));
        set_slot(journey, trip_target, target);
        set_slot(journey, trip_target_life, SLOT(target, end_life));
        set_slot(journey, trip_delay, zero);
        set_slot(journey, trip_doomed, Py_False);
        set_slot(journey, trip_departed, Py_None);
        failed = count_flying(network, SLOT(packet, packet_sender), 1) < 0 || hop_anyhow(network, journey, source, far) < 0;
    }
    Py_DECREF(journey);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* LinkNetwork._deliver(journey) */
static PyObject *delivered(PyObject *network, PyObject *journey)
{
    PyObject *packet = SLOT(journey, trip_packet), *source = SLOT(journey, trip_source), *target = SLOT(journey, trip_target);
    PyObject *receive, *found = NULL;
    int is_usual = is_untapped(network, name_delivered);
    if (is_usual < 0)
        return NULL;
    if (!is_usual || Py_TYPE(packet) != packet_type || Py_TYPE(source) != endpoint_type || Py_TYPE(target) != endpoint_type
        || whole(source, end_life) < 0 || whole(source, end_life) != whole(journey, trip_source_life))
        return PyObject_CallMethodOneArg(network, name_deliver, journey);
    PyObject *sender = SLOT(packet, packet_sender), *receiver = SLOT(packet, packet_receiver);
    if (count_flying(network, sender, -1) < 0 || record(network, word_deliver, journey, sender, receiver) < 0)
        return NULL;
    if ((receive = slot(target, end_receive)) != NULL)
        found = PyObject_CallOneArg(receive, packet);
    Py_XDECREF(receive);
    return found;
}

/* LinkNetwork.land(journey) */
static PyObject *landed(PyObject *network, PyObject *journey)
{
    PyObject *far = SLOT(journey, trip_far), *barriers = SLOT(network, net_barriers), *target = SLOT(journey, trip_target);
    if (is_true(network, net_times) || far == NULL || Py_TYPE(far) != endpoint_type || is_true(far, end_handles)
        || SLOT(far, end_paused) != Py_False || !is_true(far, end_alive) || whole(far, end_life) < 0
        || whole(far, end_life) != whole(journey, trip_far_life) || SLOT(journey, trip_flipped) != Py_None || target == NULL
        || barriers == NULL || !PyList_CheckExact(barriers) || SLOT(journey, trip_packet) == NULL
        || SLOT(journey, trip_source) == NULL || whole(network, net_in_flight) < 0)
        return PyObject_CallFunctionObjArgs(python_land, network, journey, NULL);
    set_slot(journey, trip_departed, Py_None);
    if (far == target)
        return delivered(network, journey);
    if (PyList_GET_SIZE(barriers))
        return PyObject_CallMethodOneArg(network, name_relay, journey);
    set_slot(journey, trip_delay, zero);
    set_slot(journey, trip_doomed, Py_False);
    Py_INCREF(far);
    Py_INCREF(target);
    int failed = hop_anyhow(network, journey, far, target);
    Py_DECREF(far);
    Py_DECREF(target);
    if (failed < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *network_land(PyObject *network, PyObject *journey)
{
    if (Py_TYPE(network) != network_type || Py_TYPE(journey) != journey_type)
        return PyObject_CallFunctionObjArgs(python_land, network, journey, NULL);
    return landed(network, journey);
}

/* Journey.arrive() */
static PyObject *journey_arrive(PyObject *journey, PyObject *ignored)
{
    (void)ignored;
    PyObject *network = slot(journey, trip_network), *found;
    if (network == NULL)
        return NULL;
    found = Py_TYPE(network) == network_type ? landed(network, journey) : PyObject_CallMethodOneArg(network, name_land, journey);
    Py_DECREF(network);
    return found;
}
