"""Summing with shared secrets: exactly the oracle's rows with any losses; and the secrets that are never revealed."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.protocols.crypto.masking import masks, read
from tacit.protocols.parts import Among, payloads
from tacit.protocols.sums import dealing
from tacit.protocols.sums.dealing import Revealed, Survivors
from tacit.protocols.xclp.rowsums import MaskedRows
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.sim.faults import Crash
from tacit.sim.wire import decode_body, decode_frame

STEPS = ("rowsums.deal", "rowsums.mask", "rowsums.reveal", "rowsums.unmask")
SIZES = [5, 3, 6, 4, 2, 4, 3]
NAMES = tuple(f"client/{i}" for i in range(len(SIZES)))


def clients_without(*lost: str) -> tuple[str, ...]:
    return tuple(name for name in NAMES if name not in lost)


def count_attempts(run) -> int:
    """The number of attempts of the summing."""
    return len({packet.attempt for packet in run.packets if packet.type == "Summing"})


def messages(run, kind):
    """The senders and messages of all packets of `kind` between a client and the server."""
    for packet in run.packets:
        if packet.type == kind.__name__:
            frame = decode_frame(packet.data)
            yield packet, decode_body(frame, frame.body, kind)


def notes(run, text: str) -> list:
    return [event for event in run.events if event.kind == "metric" and text in event.note]


@pytest.mark.parametrize("topology", ["star", "mesh"])
@pytest.mark.parametrize("rows", ["unlabeled", "paper"])
@pytest.mark.parametrize("threshold", [None, 2, 7])
def test_without_losses_all_clients_get_labels_in_one_attempt(
    federation, make_shards, topology, rows, threshold
) -> None:
    run = federation(make_shards(SIZES), recovery=Shamir(threshold), topology=topology, rows=rows).run()
    assert run.server.record.contributors == NAMES
    assert len(run.labeled_clients) == len(NAMES)
    assert count_attempts(run) == 1
    run.assert_equals_oracle()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("lost", [("client/4",), ("client/0", "client/3", "client/6")], ids=len)
def test_a_client_lost_at_any_step_leaves_labels_equal_to_the_oracle(federation, make_shards, step, when, lost) -> None:
    faults = [Crash(name, **{when: step}) for name in lost]
    run = federation(make_shards(SIZES), recovery=Shamir(), faults=faults).run()
    # Only accepted values count.
    counts = (step, when) in [("rowsums.mask", "after"), ("rowsums.reveal", "before"), ("rowsums.reveal", "after")]
    assert run.server.record.members == NAMES
    assert run.server.record.contributors == (NAMES if counts or step == "rowsums.unmask" else clients_without(*lost))
    assert tuple(client.name for client in run.labeled_clients) == clients_without(*lost)
    assert {loss.party for loss in run.server.lost} == (set(NAMES) - set(run.server.record.contributors))
    assert count_attempts(run) == 1
    run.assert_equals_oracle()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    points=st.lists(st.integers(1, 5), min_size=2, max_size=6),
    threshold=st.sampled_from([None, None, 2, 3]),
    topology=st.sampled_from(["star", "mesh"]),
    lost=st.dictionaries(
        st.integers(0, 5), st.tuples(st.sampled_from(["before", "after"]), st.sampled_from(STEPS)), max_size=4
    ),
)
def test_any_losses_give_the_oracles_labels_or_a_clear_outcome(
    federation, make_shards, points, threshold, topology, lost
) -> None:
    """Either a clear outcome, or exactly the oracle's rows for all living clients. A client of one point gets no
    rows."""
    faults = [Crash(f"client/{i}", **{when: step}) for i, (when, step) in lost.items()]
    run = federation(make_shards(points), recovery=Shamir(threshold), topology=topology, faults=faults).run()
    alive = [client for client in run.clients if client.alive]
    if run.server.aborted:
        assert " left" in run.server.aborted
        assert all(client.ending == f"aborted: {run.server.aborted}" for client in alive)
    else:
        assert len(run.server.record.contributors) >= 2
        assert run.labeled_clients == alive
        if alive:
            run.assert_equals_oracle()


def test_clients_lost_at_different_steps_leave_labels_equal_to_the_oracle(federation, make_shards) -> None:
    faults = [
        Crash("client/1", before="rowsums.deal"),
        Crash("client/3", after="rowsums.deal"),
        Crash("client/5", after="rowsums.mask"),
        Crash("client/6", before="rowsums.unmask"),
    ]
    run = federation(make_shards(SIZES), recovery=Shamir(), faults=faults).run()
    assert run.server.record.contributors == clients_without("client/1", "client/3")
    assert tuple(client.name for client in run.labeled_clients) == ("client/0", "client/2", "client/4")
    assert [(loss.party, loss.step) for loss in run.server.lost] == [
        ("client/1", "rowsums.sum"),
        ("client/3", "rowsums.sum"),
    ]
    run.assert_equals_oracle()


def test_values_of_a_lost_client_count_even_if_another_client_is_lost(federation, make_shards) -> None:
    faults = [Crash("client/1", after="rowsums.mask"), Crash("client/2", before="rowsums.mask")]
    run = federation(make_shards(SIZES), recovery=Shamir(), faults=faults).run()
    assert run.server.record.contributors == clients_without("client/2")
    run.assert_equals_oracle()


def test_with_too_few_answers_a_new_attempt_begins(federation, make_shards) -> None:
    """t = 4 of 7: five are lost before they answer, and the other two sum among themselves with t = 2."""
    lost = NAMES[2:]
    faults = [Crash(name, after="rowsums.mask") for name in lost]
    run = federation(make_shards(SIZES), recovery=Shamir(), faults=faults).run()
    assert count_attempts(run) == 2
    assert run.server.record.contributors == NAMES[:2]
    assert {loss.party for loss in run.server.lost} == set(lost)
    assert all(loss.action == "it revealed no shares: summing starts again" for loss in run.server.lost)
    run.assert_equals_oracle()


def test_with_too_few_values_a_new_attempt_begins(federation, make_shards) -> None:
    faults = [Crash(name, before="rowsums.mask") for name in NAMES[3:]]
    run = federation(make_shards(SIZES), recovery=Shamir(), faults=faults).run()
    assert count_attempts(run) == 2
    assert not [p for p in run.packets if p.type == "Survivors" and len(messages_names(p)) < 3]
    assert run.server.record.contributors == NAMES[:3]
    run.assert_equals_oracle()


def messages_names(packet) -> list[str]:
    frame = decode_frame(packet.data)
    return decode_body(frame, frame.body, Survivors).names


@pytest.mark.parametrize(
    ("recovery", "parameters", "step", "reason"),
    [
        (Shamir(6), {}, "rowsums.mask", "5 clients are left; protocol.threshold is 6"),
        (Shamir(6), {}, "rowsums.deal", "5 clients are left; protocol.threshold is 6"),
        (Shamir(), {"min_clients": 6}, "rowsums.mask", "5 clients with labels are left; min_clients is 6"),
        (Shamir(), {"min_clients": 6}, "rowsums.deal", "5 clients with labels are left; min_clients is 6"),
        (Shamir(6), {}, "rowsums.reveal", "5 clients are left; protocol.threshold is 6"),
    ],
)
def test_too_few_clients_for_any_attempt_give_a_clear_outcome(
    federation, make_shards, recovery, parameters, step, reason
) -> None:
    faults = [Crash(name, before=step) for name in NAMES[:2]]
    run = federation(make_shards(SIZES), recovery=recovery, faults=faults, **parameters).run()
    assert run.server.aborted == reason
    assert not run.labeled_clients
    for client in run.clients[2:]:
        assert client.finished
        assert client.ending == f"aborted: {reason}"


@pytest.mark.parametrize("receivers", [("client/2",), NAMES], ids=["from one", "from all"])
def test_missing_shares_leave_out_only_a_client_that_too_few_hold_shares_of(federation, make_shards, receivers) -> None:
    """One missing holder does not matter; a client whose shares nobody has is left out of a new attempt."""
    run = federation(
        make_shards(SIZES),
        recovery=Shamir(),
        topology="mesh",
        lose=lambda p: p.type == "DealtShares" and p.sender == "client/4" and p.receiver in receivers,
    ).run()
    assert run.world.loop.time() < 10.0  # no wait lasted to its deadline
    everybody = len(receivers) == 1
    assert run.server.record.contributors == (NAMES if everybody else clients_without("client/4"))
    assert count_attempts(run) == (1 if everybody else 2)
    run.assert_equals_oracle()


def test_the_server_waits_for_shares_still_in_flight(federation, make_shards) -> None:
    """In a mesh, a share may arrive after the server asks for it."""
    run = federation(make_shards(SIZES), recovery=Shamir(7), topology="mesh", seed=5).run()
    for _, revealed in messages(run, Revealed):
        assert all(len(share) == 36 for share in revealed.shares)
    run.assert_equals_oracle()


def test_the_server_gets_one_kind_of_share_for_each_client(federation, make_shards) -> None:
    run = federation(make_shards(SIZES), recovery=Shamir(), faults=[Crash("client/3", before="rowsums.mask")]).run()
    answers = [(packet.sender, revealed.shares) for packet, revealed in messages(run, Revealed)]
    assert [sender for sender, _ in answers] and len({sender for sender, _ in answers}) == len(answers) == 6
    assert all(len(shares) == len(NAMES) and {len(share) for share in shares} == {36} for _, shares in answers)


def test_a_request_for_both_kinds_of_shares_is_refused_and_traced(federation, make_shards, monkeypatch) -> None:
    """A server that has its answer asks again, with client/1 among the lost."""
    asked = dealing.uncover

    async def curious(me, attempt, survivors, purpose, deadline):
        found = await asked(me, attempt, survivors, purpose, deadline)
        fewer = tuple(name for name in survivors if name != "client/1")
        me.broadcast(fewer, Survivors(list(fewer)))
        more = await me.collect(Revealed, fewer, deadline=deadline)
        # Clients whose first answers were no longer needed sent no second one either.
        senders = [event.party for event in trace if event.kind == "send" and event.type == "Revealed"]
        assert len(senders) == len(set(senders)) == len(survivors)
        assert set(more.answers) < set(fewer)
        return found

    monkeypatch.setattr(dealing, "uncover", curious)
    run = federation(make_shards(SIZES), recovery=Shamir())
    trace = run.events
    run.run()
    refused = notes(run, "refused to reveal shares")
    assert sorted(event.party for event in refused) == sorted(clients_without("client/1"))
    assert all("once an attempt" in event.note for event in refused)
    run.assert_equals_oracle()


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (NAMES[:3], "fewer than the threshold, 4"),
        ((*NAMES[:6], "client/9"), "no survivors of this attempt"),
        ((NAMES[0],) * 7, "fewer than the threshold, 4"),
    ],
)
def test_impossible_sets_of_survivors_are_refused(federation, make_shards, monkeypatch, names, why) -> None:
    asked = dealing.uncover

    async def wrong(me, attempt, survivors, purpose, deadline):
        me.send("client/0", Survivors(list(names)))
        return await asked(me, attempt, survivors, purpose, deadline)

    monkeypatch.setattr(dealing, "uncover", wrong)
    run = federation(make_shards(SIZES), recovery=Shamir()).run()
    (refused,) = notes(run, "refused to reveal shares")
    assert refused.party == "client/0" and why in refused.note
    run.assert_equals_oracle()


def test_a_new_attempt_has_new_keys_seeds_and_masks(federation, make_shards) -> None:
    faults = [Crash(name, after="rowsums.mask") for name in NAMES[2:]]
    run = federation(make_shards(SIZES), recovery=Shamir(), faults=faults).run()
    keys = [message.public_key for _, message in messages(run, dealing.DealtKey)]
    assert len(keys) == len(set(keys)) == 9
    sent = [message.values for packet, message in messages(run, MaskedRows) if packet.sender == "client/0"]
    first, second = ({data[i : i + 4] for i in range(len(data) - 4)} for data in sent)
    assert len(second) > 30 and not first & second


def test_rows_for_a_client_lost_in_the_attempt_stay_masked(federation, make_shards, monkeypatch) -> None:
    """The server removes all masks that it can on the block of client/3; the rest is not Z."""
    kept = {}
    asked = dealing.uncover

    async def keep(me, attempt, survivors, purpose, deadline):
        kept["found"] = found = await asked(me, attempt, survivors, purpose, deadline)
        kept["attempt"] = attempt
        return found

    monkeypatch.setattr(dealing, "uncover", keep)
    shards = make_shards(SIZES)
    run = federation(shards, recovery=Shamir(), faults=[Crash("client/3", before="rowsums.mask")]).run()
    run.assert_equals_oracle()
    sizes_of = [3 * int((~shard.labeled).sum()) for shard in shards]
    expected = run.oracle().z[run.oracle().slices[3]][~shards[3].labeled].reshape(-1)
    total = 0
    for packet, message in messages(run, MaskedRows):
        mine = NAMES.index(packet.sender)
        others = [i for i in range(len(NAMES)) if i != mine]
        values = dict(zip(others, read(message.values, [sizes_of[i] for i in others]), strict=True))
        keys = kept["found"].signed[packet.sender]
        total = total + values[3] - masks(keys, [(3, sizes_of[3])])[0]
    assert len(expected) == len(total) and not (total == expected).any()


def test_the_payload_of_row_sums_with_shares_equals_the_formula(federation, make_shards) -> None:
    points = [5, 3, 6, 4]
    run = federation(make_shards(points), recovery=Shamir(), topology="mesh").run()
    plain = federation(make_shards(points), topology="mesh").run()
    found, without_sharing = ({}, {})
    for table, source in ((found, run), (without_sharing, plain)):
        for row in source.world.ledger.rows():
            table[row.type] = table.get(row.type, 0) + row.payload
    assert found == {**without_sharing, **payloads((dealing.Dealing(),), None, Among(dict.fromkeys(NAMES[:4], 1)))}


def test_a_client_that_never_receives_the_survivors_has_no_labels(federation, make_shards) -> None:
    """t others suffice for the sum; without U3 the client cannot remove its masks, and must not guess."""
    run = federation(
        make_shards(SIZES),
        recovery=Shamir(),
        lose=lambda packet: packet.type == "Survivors" and packet.receiver == "client/2",
    ).run()
    assert run.client("client/2").labels is None
    assert run.client("client/2").ending.startswith("no answer from the server: client/2 waited 10 s for Survivors")
    assert run.server.record.contributors == NAMES
    assert len(run.labeled_clients) == len(NAMES) - 1
    run.assert_equals_oracle()


def test_a_sum_received_before_the_survivors_is_unmasked(federation, make_shards) -> None:
    run = federation(make_shards(SIZES), recovery=Shamir())
    send = run.world.network.send

    def late(packet) -> None:
        slow = packet.type == "Survivors" and packet.receiver == "client/2"
        run.world.loop.call_later(2.0, send, packet) if slow else send(packet)

    run.world.network.send = late
    run.run()
    assert len(run.labeled_clients) == len(NAMES)
    run.assert_equals_oracle()
