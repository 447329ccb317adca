"""Who counts: C of the clients that were called may collude with the server, however few of the others come."""

import pytest

from tacit.benchmarks.attacks.colluding import blind_to_colluders, with_colluding
from tacit.benchmarks.attacks.finding import exposes
from tacit.benchmarks.attacks.identities import KNOWN, signing, split
from tacit.protocols.crypto import quorum
from tacit.protocols.crypto.quorum import Assumed, Least, fewest_left, threshold_of
from tacit.protocols.federated.secure_averages import Secure, fewest_hidden
from tacit.protocols.outcome import Abort
from tacit.protocols.sums import consistency
from tacit.protocols.sums.lying.relations import Relation, exposed
from tacit.protocols.sums.secure_sum import SecAgg
from tacit.protocols.xclp.rowsums import Candidates
from tacit.protocols.xclp.rowsums_shamir import Shamir
from tacit.scenarios.chaos.server_lies import parse
from tacit.scenarios.chaos.server_world import Miniature, perform


def read_passively(present: int, colluding: int, threshold: int) -> tuple[str, ...]:
    """The honest clients whose combined inputs a passive server with C clients knows, fewer than all that are present.

    A relation for each honest client: its input, its personal mask, and masks with each other client. Known are the
    personal masks of all, the pair masks of those that collude, and those of whose keys C shares are enough.
    """
    honest = range(present - colluding)
    relations, known = [], {(f"own {j}".encode(), 0) for j in honest}
    for j in honest:
        masks = {(f"own {j}".encode(), 0): 1}
        for k in range(present):
            if k != j:
                pair = (f"{min(j, k)} {max(j, k)}".encode(), 0)
                masks[pair] = 1 if j < k else -1
                if k not in honest or colluding >= threshold:
                    known.add(pair)
        relations.append(Relation({(f"client/{j}", 1, 0): 1}, masks))
    return exposed(relations, known, len(honest))


@pytest.mark.parametrize(("called", "colluding"), [(20, 9), (9, 4), (10, 3), (7, 0)])
def test_the_rank_of_what_colluding_clients_know_does_not_grow_with_honest_losses(called: int, colluding: int) -> None:
    for absent in range(called):
        present = called - absent
        t = threshold_of(None, present, colluding)
        if present < colluding + 2:
            assert Least(3, colluding=colluding).problem([str(i) for i in range(present)])
            continue
        assert colluding < t <= present
        assert read_passively(present, colluding, t) == ()
    assert read_passively(17, 9, 17 // 2 + 1) != ()  # as t of 20 called, C = 9, was with three lost


@pytest.mark.parametrize("absent", [0, 1, 2, 3])
def test_colluding_clients_read_nothing_whoever_is_absent(absent: int) -> None:
    present = 9 - absent
    one = with_colluding(9, 4, present)
    assert not exposes(one, ())
    with blind_to_colluders():
        assert exposes(one, ()) is (present // 2 + 1 <= 4)


def test_a_set_of_c_and_one_is_refused() -> None:
    assert not exposes(with_colluding(5, 2, 3), ())
    with blind_to_colluders():
        assert exposes(with_colluding(5, 2, 3), ())


@pytest.mark.parametrize(("present", "carried"), [(9, True), (6, True), (5, False)])
def test_what_cannot_carry_c_is_refused_by_a_text_that_names_c(present: int, carried: bool) -> None:
    aborted = perform(with_colluding(9, 4, present), ()).aborted
    assert (aborted == ()) is carried
    assert all("C = 4 clients that may collude with the server" in reason for reason in aborted)
    assert "4 may collude" in Least(3, colluding=4).problem([str(i) for i in range(5)])


def test_shares_and_survivors_follow_the_clients_that_were_called() -> None:
    assert threshold_of(None, 17, 9) == 14
    assert fewest_left(20, 15, 11, 9) == max(15, 20 + 9 - 15 + (2 - 1) * (15 - 9) // (20 - 9) + 1)
    assert Shamir().needed(17, 9) == 14 and Shamir(16).needed(17, 9) == 16
    for members in range(3, 30):
        for colluding in range(members - 1):
            t = threshold_of(None, members, colluding)
            least = quorum.always_left(members, t, colluding)
            assert fewest_left(members, t, least, colluding) == t < fewest_left(members, t, least + 1, colluding) or (
                least + 1 > members
            )


def test_rows_need_two_labeled_clients_beside_the_colluding() -> None:
    labeled = dict.fromkeys([f"client/{i}" for i in range(6)], 1)
    candidates = Candidates(labeled, labeled, 10, 3, colluding=4)
    candidates.require(labeled)
    with pytest.raises(Abort, match="C = 4 clients that may collude"):
        candidates.require(list(labeled)[:5])


def test_two_sets_of_signatures_share_an_honest_client_whoever_is_lost() -> None:
    """30 are called, 24 come, 10 sign twice: with 7 of the 14 others they are 17, as many as were needed."""
    assert consistency.needed(24) == 17 == 7 + 10
    known = KNOWN.withstanding(30 // 3)
    assert consistency.needed(24, known.colluding) == 18
    one = signing(24, 10, known)
    assert not exposes(one, split(one))
    assert exposes(signing(24, 10, KNOWN), split(one))  # as a third of those that are present


def test_an_average_is_over_two_more_than_the_colluding_and_noise_counts_without_them() -> None:
    averaging = Secure(SecAgg(of_run=Assumed(20, 4, 0)))
    assert averaging.fewest(2) == 6 and averaging.fewest(11) == 11
    assert averaging.honest(11) == 7  # k = 11, C = 4
    assert Secure().honest(11) == 10
    assert fewest_hidden(20, True, 4) == threshold_of(None, 20, 4)


_ALONE = "start 0 3 4; keys 0 3 4; want 0 3 4; left 0 3 4"  # one honest client and two that collude
_FEWER = "start 0 2 3 4 5 6; keys 0 2 3 4 5 6; want 0 2 3 4 5 6; left 0 2 3 4 5 6"  # one of three honest ones is lost


@pytest.mark.parametrize(("clients", "colluding", "program"), [(5, 2, _ALONE), (7, 4, _FEWER)])
def test_the_judge_of_a_lying_server_knows_what_colluding_clients_know(
    clients: int, colluding: int, program: str
) -> None:
    def exposed_in(least: int) -> tuple[str, ...]:
        miniature = Miniature("secure", clients, least, colluding=colluding)
        found = perform(miniature, parse(program, clients))
        assert not found.failure
        return found.exposed

    assert exposed_in(colluding + 2) == ()
    with blind_to_colluders():
        assert exposed_in(2) == ("client/0",)
