"""The members of a committee that sign and add: all who hold the shares of the clients in the sum."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.sums.committee import _chosen

CLIENTS = tuple("abcdefgh")
shares = st.dictionaries(st.sampled_from(CLIENTS), st.frozensets(st.sampled_from(CLIENTS)), max_size=8)


@given(shares, st.integers(1, 5))
def test_members_are_in_the_sum_and_hold_all_its_shares(held: Mapping[str, frozenset[str]], least: int) -> None:
    members, survivors = _chosen(held, CLIENTS, least)
    assert len(members) >= least or not (members or survivors)
    assert all(name in survivors and set(survivors) <= held[name] for name in members)


def test_no_member_is_left_out_that_holds_the_shares_of_all_in_the_sum() -> None:
    """The more of them there are, the more may be lost before they have signed and added."""
    most, fewer = frozenset("abcdefg"), frozenset("abc")
    held = {"a": most, "b": most, "c": most, "d": most, "e": most, "f": fewer}
    assert _chosen(held, CLIENTS, 3) == (tuple("abcde"), tuple("abcdefg"))
    assert _chosen(dict.fromkeys("abcd", most), CLIENTS, 2) == (tuple("abcd"), tuple("abcdefg"))
