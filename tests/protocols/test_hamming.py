"""The clients that stay when blocks are missing, and the messages that the server refuses."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.xclp.hamming import choose_members, own_block

NAMES = tuple(f"client/{i}" for i in range(6))
PAIRS = [(j, k) for i, j in enumerate(NAMES) for k in NAMES[i + 1 :]]


@given(st.sets(st.sampled_from(NAMES)), st.sets(st.sampled_from(PAIRS)))
def test_members_have_all_blocks_and_only_clients_with_gaps_leave(
    with_own: set[str], complete: set[tuple[str, str]]
) -> None:
    members, lost = choose_members(NAMES, with_own, complete)
    assert sorted(members + lost) == sorted(NAMES)
    assert set(members) <= with_own
    inside = [(j, k) for j, k in PAIRS if j in members and k in members]
    assert set(inside) <= complete
    # each client left because of a gap towards a client that was still in
    there = set(members)
    for name in reversed(lost):
        there.add(name)
        gap = any((j, k) not in complete for j, k in PAIRS if {j, k} <= there and name in (j, k))
        assert gap or name not in with_own


def test_clients_with_most_gaps_leave_first_and_ties_remove_the_later_name() -> None:
    everything = set(PAIRS)
    assert choose_members(NAMES, set(NAMES), everything - {(NAMES[1], NAMES[4])}) == (
        (*NAMES[:4], NAMES[5]),
        (NAMES[4],),
    )
    gaps = {(NAMES[0], NAMES[3]), (NAMES[0], NAMES[5])}
    assert choose_members(NAMES, set(NAMES), everything - gaps) == (NAMES[1:], (NAMES[0],))
    assert choose_members(NAMES, set(NAMES) - {NAMES[2]}, everything)[1] == (NAMES[2],)


@given(st.integers(1, 9), st.sampled_from([1, 7, 8, 64, 65]), st.integers(0, 2**32 - 1))
def test_own_block_has_the_stated_size(points: int, bits: int, seed: int) -> None:
    block = np.random.default_rng(seed).integers(2, size=(points, bits)).astype(bool)
    assert len(own_block(block)) == -(-points * (points - 1) // 2 * bits.bit_length() // 8)
