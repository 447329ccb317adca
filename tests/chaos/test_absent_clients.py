"""Sums after honest clients were lost, against a server that is helped by exactly the stated colluding clients.

All parties follow the protocol. The judge knows what the server and C clients of those that were called know, however
few joined: no honest client's vector is determined, or there is no round, and its reason names C.
"""

from fractions import Fraction

import numpy as np
import pytest
from msgspec import structs

from tacit.benchmarks.attacks.absent import shares_of_those_that_joined
from tacit.protocols.crypto.quorum import Assumed, NotCarried
from tacit.protocols.crypto.regular_graph import Tolerance
from tacit.protocols.setup import Group, Roster, digest_of, lot_of
from tacit.protocols.sums.committee import ByCommittee, Committee
from tacit.protocols.sums.decryptors import Decryptors
from tacit.protocols.sums.lightsecagg import Coding
from tacit.protocols.sums.lying.committee import CommitteeView
from tacit.protocols.sums.members import above, drawn, exceeded_by
from tacit.scenarios.chaos.server_lies import parse
from tacit.scenarios.chaos.server_world import Miniature, contribute, perform, performed
from tacit.sim.shares import rounded_down, rounded_up


def sum_of(kind: str, corrupt: float, tolerated: float, absent: int = 0) -> Miniature:
    return Miniature(kind, clients=10, min_clients=2, tolerance=(corrupt, tolerated), absent=absent)


CODED, BY_COMMITTEE = sum_of("lightsecagg", 0.2, 0.1), sum_of("committee", 0.2, 0.3)
OF_ROUNDS, IN_GRAPH = sum_of("flamingo", 0.3, 0), sum_of("secagg+", 0.4, 0.1)


@pytest.mark.parametrize(
    ("miniature", "carried"),
    [(CODED, 7), (BY_COMMITTEE, 7), (sum_of("flamingo", 0.2, 0.1), 4), (OF_ROUNDS, 1), (IN_GRAPH, 2)],
    ids=["lightsecagg", "committee", "flamingo", "flamingo of few", "secagg+"],
)
def test_exactly_the_stated_colluders_learn_no_honest_vector_whoever_is_absent(
    miniature: Miniature, carried: int
) -> None:
    """The first numbers of absent clients, below `carried`, leave a sum; all more end the round."""
    colluding = miniature.assumed.colluding
    for absent in sorted({0, carried - 1, carried, 7}):
        found = perform(structs.replace(miniature, absent=absent), ())
        assert not found.exposed and not found.failure
        if absent < carried:
            assert found.relations and not found.aborted
        else:
            assert not found.relations and found.aborted
            problem = f"{colluding} of 10 clients that were called may collude, and {10 - absent} joined"
            assert all(problem in reason for reason in found.aborted)


@pytest.mark.parametrize(
    ("miniature", "absent"),
    [(CODED, 1), (BY_COMMITTEE, 3), (OF_ROUNDS, 1), (IN_GRAPH, 3)],
    ids=lambda one: one.kind if isinstance(one, Miniature) else str(one),
)
def test_with_shares_of_those_that_came_the_stated_colluders_read_a_vector(miniature: Miniature, absent: int) -> None:
    one = structs.replace(miniature, absent=absent)
    assert not perform(one, ()).exposed
    with shares_of_those_that_joined(one.kind):
        assert perform(one, ()).exposed
        assert not perform(structs.replace(one, absent=0), ()).exposed  # with nobody lost it withstands them


def test_members_sign_no_set_of_all_who_collude_and_one_honest_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of nine clients are members; one of them colludes, and the server names the two alone."""
    one = Miniature("committee", clients=9, min_clients=2, tolerance=(0.1, 0.1))
    everybody = " ".join(map(str, range(9)))
    view, _, _ = performed(one, parse(f"start {everybody}; want {everybody}", 9), contribute, 0)
    assert isinstance(view, CommitteeView)
    upload = view.uploads[0]
    assert len(upload.members) == 2 and len(upload.collude) == 1
    both = " ".join(name.removeprefix("client/") for name in upload.members)
    program = parse(f"start {everybody}; want {everybody}; left {both}", 9)
    assert not perform(one, program).exposed
    monkeypatch.setattr(ByCommittee, "least_of", lambda self, settings: settings.min_clients)
    (honest,) = set(upload.members) - set(upload.collude)
    assert perform(one, program).exposed == (honest,)


# --- the numbers


@pytest.mark.parametrize(
    ("called", "share", "up", "down"),
    [(100, 0.07, 7, 7), (100, 0.29, 29, 29), (12, 0.1, 2, 1), (30, 0.1, 3, 3), (10, 0.35, 4, 3), (9, 1 / 3, 3, 2)],
)
def test_shares_are_rounded_exactly(called: int, share: float, up: int, down: int) -> None:
    assert (rounded_up(share, called), rounded_down(share, called)) == (up, down)


def test_of_those_that_came_fewer_may_be_lost_and_as_many_collude() -> None:
    one = Assumed.of(12, 0.1, 0.26)
    assert (one.colluding, one.lost, one.fewest) == (2, 3, 4)
    assert [one.left_to_lose(joined) for joined in (13, 12, 11, 9, 5)] == [3, 3, 2, 0, 0]
    coding = Coding.among(11, one)
    assert (coding.private, coding.quorum, coding.needed) == (2, 7, 9)


def test_a_committee_of_those_that_came_withstands_all_that_collude() -> None:
    """95 of 100 called clients join: for a tenth of these, more than t of 10 would be members with 2^-19.6."""
    assumed = Assumed.of(100, 0.1, 0.1)
    few = Committee.among(95, Assumed(95, 9, 9))
    assert above(95, 10, few.members, few.private) > 2.0**-25
    one = Committee.among(95, assumed)
    assert one.private == 10 and one.tolerated == assumed.left_to_lose(95) == 5


@pytest.mark.parametrize(("exponent", "draws"), [(40, 1), (40, 300), (10, 20)])
def test_exponents_hold_for_all_draws_of_a_run(exponent: int, draws: int) -> None:
    one = Committee.among(1000, Assumed.of(1000, 0.1, 0.1), exponent, draws)
    assert draws * above(1000, 100, one.members, one.private) <= 2.0**-exponent
    tolerance = Tolerance(0.1, 0.1, exponent, draws)
    held = Decryptors.of(1000, None, tolerance, 1000)
    assert held.count < 1000 and draws * above(1000, 200, held.count, held.private) <= 2.0**-exponent


@pytest.mark.parametrize(("chosen", "exponent", "fits"), [(60, 40, False), (60, 5, True), (None, 40, True)])
def test_a_chosen_number_of_decryptors_is_refused_if_too_many_may_be_corrupt_or_lost(
    chosen: int | None, exponent: int, fits: bool
) -> None:
    tolerance = Tolerance(exponent=exponent)
    if fits:
        one = Decryptors.of(500, chosen, tolerance, 500)
        assert exceeded_by(500, 100, one.count, Fraction(1, 2**exponent))[0] <= one.private
        return
    with pytest.raises(
        NotCarried, match=r"50 of 500 clients .* of 60 decryptors 35 may be corrupt or lost, and at most"
    ):
        Decryptors.of(500, chosen, tolerance, 500)


def test_a_cohort_that_is_drawn_has_more_colluding_clients_with_the_probability_printed() -> None:
    """100 of 1,000 clients are corrupt: a cohort of 100 has more than 10 with .42, and more than 34 with 2^-40."""
    assert above(1000, 100, 100, 10) == pytest.approx(0.42, abs=0.005)
    assert exceeded_by(1000, 100, 100, Fraction(1, 2**40))[0] == 34


# --- draws


def test_no_order_of_the_list_and_no_leader_changes_a_draw() -> None:
    random = np.random.default_rng(1)
    names = [f"client/{i}" for i in range(30)]
    keys = {name: random.bytes(32) for name in names}

    def roster(shown: list[str], leader: str, **others: bytes) -> Roster:
        known = keys | others
        return Roster(shown, [1] * 30, [1] * 30, [known[name] for name in shown], [b""] * 30, leader)

    def members(one: Roster) -> tuple[str, ...]:
        shown = tuple(one.names)
        return drawn(Group(shown, {}, {}, lot=lot_of(one, shown, False)), 10)

    first = members(roster(names, names[0]))
    for _ in range(5):
        shown = [names[i] for i in random.permutation(30)]
        assert members(roster(shown, shown[-1])) == first
        assert digest_of(roster(shown, shown[-1]), tuple(shown)) != digest_of(roster(names, names[0]), tuple(names))
    assert members(roster(names, names[0], **{"client/7": bytes(32)})) != first


def test_a_signature_is_no_part_of_what_members_are_drawn_by() -> None:
    """A signer can make many signatures of one key, and a prediction none."""

    def lot(signature: bytes) -> bytes:
        roster = Roster(["a", "b"], [1, 1], [1, 1], [bytes(32)] * 2, [b"key" + signature, b"key" + bytes(64)], "a")
        return lot_of(roster, ("a", "b"), True)

    assert lot(bytes(64)) == lot(bytes([1] * 64))
