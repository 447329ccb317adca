"""Row sums in a graph: exactly the oracle's rows with any losses; the bytes of the formula; and the checks of
clients."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from tacit import Network, ProtocolKeys, Scenario
from tacit.protocols.crypto.regular_graph import Tolerance, degree_of
from tacit.protocols.parts import Among, payloads
from tacit.protocols.sums.dealing import Survivors
from tacit.protocols.xclp.rowsums_graph import Adjacent, DealingAmongAll, InGraph
from tacit.sim.faults import Crash

STEPS = ("rowsums.deal", "rowsums.mask", "rowsums.reveal", "rowsums.unmask")
SIZES = [5, 3, 6, 4, 2, 4, 3, 2, 3, 4]
NAMES = tuple(f"client/{i}" for i in range(len(SIZES)))
DEGREE = degree_of(len(NAMES), Tolerance())


def clients_without(*lost: str) -> tuple[str, ...]:
    return tuple(name for name in NAMES if name not in lost)


def count_attempts(run) -> int:
    return len({packet.attempt for packet in run.packets if packet.type == "Summing"})


def refused(run, text: str) -> list[str]:
    return sorted(e.party for e in run.events if e.note.startswith("refused to") and text in e.note)


def test_the_clients_of_these_tests_have_an_incomplete_graph() -> None:
    assert not DEGREE.complete and DEGREE.threshold < len(NAMES) // 2 + 1


@pytest.mark.parametrize("topology", ["star", "mesh"])
@pytest.mark.parametrize("clients", [3, 8, 10])
def test_without_losses_all_clients_get_labels_in_a_graph(federation, make_shards, topology, clients) -> None:
    run = federation(make_shards(SIZES[:clients]), recovery=InGraph(), topology=topology).run()
    assert run.server.record.contributors == NAMES[:clients]
    assert len(run.labeled_clients) == clients and count_attempts(run) == 1
    assert sum(packet.type == "DealtShares" for packet in run.packets) == clients * degree_of(clients, Tolerance()).k
    run.assert_equals_oracle()


@pytest.mark.parametrize("clients", [5, 10])
def test_the_payload_of_row_sums_in_a_graph_equals_the_formula(federation, make_shards, clients) -> None:
    run = federation(make_shards(SIZES[:clients]), recovery=InGraph(), topology="mesh").run()
    formula = payloads(
        (DealingAmongAll(),),
        Scenario(protocol=ProtocolKeys(), network=Network(topology="mesh")),
        Among(dict.fromkeys(NAMES[:clients], 1)),
    )
    found = dict.fromkeys(formula, 0)
    for row in run.world.ledger.rows():
        if row.type in found:
            found[row.type] += row.payload
    assert found == formula


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("lost", [("client/4",), ("client/0", "client/9")], ids=len)
def test_a_client_lost_at_any_step_leaves_labels_equal_to_the_oracle(federation, make_shards, step, when, lost) -> None:
    faults = [Crash(name, **{when: step}) for name in lost]
    run = federation(make_shards(SIZES), recovery=InGraph(), faults=faults).run()
    counts = (step, when) in [("rowsums.mask", "after"), ("rowsums.reveal", "before"), ("rowsums.reveal", "after")]
    assert run.server.record.contributors == (NAMES if counts or step == "rowsums.unmask" else clients_without(*lost))
    assert tuple(client.name for client in run.labeled_clients) == clients_without(*lost)
    assert count_attempts(run) == 1
    run.assert_equals_oracle()


def test_more_lost_than_the_graph_withstands_cost_an_attempt(federation, make_shards) -> None:
    """Only clients that did not answer are left out; a client with too few neighbours left stays in."""
    lost = NAMES[:7]
    run = federation(
        make_shards(SIZES), recovery=InGraph(), faults=[Crash(n, after="rowsums.mask") for n in lost]
    ).run()
    assert count_attempts(run) == 2
    assert run.server.record.contributors == clients_without(*lost)
    assert {loss.action for loss in run.server.lost} == {"it revealed no shares: summing starts again"}
    run.assert_equals_oracle()
    run = federation(
        make_shards(SIZES), recovery=InGraph(), faults=[Crash(n, before="rowsums.mask") for n in lost]
    ).run()
    assert count_attempts(run) == 2 and run.server.record.contributors == clients_without(*lost)
    run.assert_equals_oracle()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    points=st.lists(st.integers(1, 3), min_size=2, max_size=11),
    lost=st.dictionaries(
        st.integers(0, 10), st.tuples(st.sampled_from(["before", "after"]), st.sampled_from(STEPS)), max_size=5
    ),
)
def test_any_losses_give_the_oracles_labels_or_a_clear_outcome(federation, make_shards, points, lost) -> None:
    faults = [Crash(f"client/{i}", **{when: step}) for i, (when, step) in lost.items() if i < len(points)]
    run = federation(make_shards(points), recovery=InGraph(), faults=faults).run()
    alive = [client for client in run.clients if client.alive]
    if run.server.aborted:
        assert " left" in run.server.aborted
        assert all(client.ending == f"aborted: {run.server.aborted}" for client in alive)
    else:
        assert run.labeled_clients == alive
        if alive:
            run.assert_equals_oracle()


# Checks of clients


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda shown: structs.replace(shown, names=shown.names[1:]), "names are not those of client/0"),
        (lambda shown: structs.replace(shown, near=[*shown.near[:-1], 99]), "a key and a place in A"),
        (lambda shown: structs.replace(shown, near=[*shown.near[:-1], -1]), "a key and a place in A"),
        (lambda shown: structs.replace(shown, near=shown.near[:-1]), "a key and a place in A"),
        (lambda shown: structs.replace(shown, near=[*shown.near[:-1], 0]), "names are not those of client/0"),
        (
            lambda shown: structs.replace(shown, near=shown.near[:-1], public_keys=shown.public_keys[:-1]),
            f"{DEGREE.k - 1} neighbours among 10 clients, where {DEGREE.k} are due",
        ),
        (lambda shown: structs.replace(shown, public_keys=shown.public_keys[::-1]), "is not the one that it sent"),
        (lambda shown: structs.replace(shown, names=[*shown.names[:-1], "client/x"]), "names are not those of"),
    ],
    ids=range(8),
)
def test_an_invalid_list_of_neighbours_is_refused(
    federation, make_shards, monkeypatch, change: Callable[[Adjacent], Adjacent], problem: str
) -> None:
    run = federation(make_shards(SIZES), recovery=InGraph())
    send = run.server.send

    def lying(receiver: str, message) -> None:
        send(receiver, change(message) if isinstance(message, Adjacent) and receiver == "client/0" else message)

    monkeypatch.setattr(run.server, "send", lying)
    run.run()
    assert any(e.party == "client/0" and problem in e.note and "Adjacent from server" in e.note for e in run.events)
    assert run.server.record.contributors == clients_without("client/0")
    run.assert_equals_oracle()


def test_a_client_shown_another_set_of_clients_cannot_open_shares(federation, make_shards, monkeypatch) -> None:
    """client/0 is shown an A without client/9, with the right number of neighbours."""
    few = NAMES[:9]
    near = range(degree_of(len(few), Tolerance()).k + 1)

    class Two(InGraph):
        def announce(self, me, attempt) -> None:
            super().announce(me, attempt)
            if "client/0" not in attempt.names:  # client/0 is lost
                return
            shown = Adjacent(list(few), list(near), [attempt.public_keys[few[at]] for at in near])
            me.send("client/0", shown)

    run = federation(make_shards(SIZES), recovery=Two())
    send = run.server.send

    def only_the_other(receiver: str, message) -> None:
        if receiver != "client/0" or not isinstance(message, Adjacent) or len(message.names) == 9:
            send(receiver, message)

    monkeypatch.setattr(run.server, "send", only_the_other)
    run.run()
    assert any("the seal does not verify" in event.note for event in run.events)


def test_survivors_with_too_few_neighbours_are_refused(federation, make_shards, monkeypatch) -> None:
    """The server names t survivors, among which are fewer than t neighbours of each."""
    run = federation(make_shards(SIZES), recovery=InGraph())
    broadcast = run.server.broadcast

    def lying(receivers, message) -> None:
        if isinstance(message, Survivors):
            for name in receivers:
                few = [one for one in NAMES if one == name or one in NAMES[: DEGREE.threshold - 1]]
                run.server.send(name, Survivors(few))
            return
        broadcast(receivers, message)

    monkeypatch.setattr(run.server, "broadcast", lying)
    run.run()
    assert len(refused(run, "fewer than the threshold")) >= len(NAMES)
