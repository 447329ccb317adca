"""Members of a sum: all parties draw the same ones from the set-up, and their number follows the hypergeometric
tail."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from tacit.protocols.setup import Group
from tacit.protocols.sums.members import drawn, exceeded_by

NAMES = tuple(f"client/{number}" for number in range(40))


def test_members_follow_from_the_digest_and_each_client_is_drawn_equally_often() -> None:
    draws = [drawn(Group(NAMES, {}, {}, lot=bytes([i, j])), 10) for i in range(20) for j in range(20)]
    assert all(len(set(one)) == 10 for one in draws) and len(set(draws)) == len(draws)
    counts = [sum(name in one for one in draws) for name in NAMES]  # 400 draws of a quarter: 100 +- 8.7 each
    assert sum((count - 100) ** 2 / 75 for count in counts) < 75  # chi square of 39: one in a thousand
    with pytest.raises(ValueError, match="41 members cannot be drawn of 40 clients"):
        drawn(Group(NAMES, {}, {}), 41)


@given(st.integers(1, 300), st.data())
def test_the_bound_on_marked_members_is_the_least_with_the_allowed_probability(
    clients: int, data: st.DataObject
) -> None:
    marked, members = data.draw(st.integers(0, clients)), data.draw(st.integers(1, clients))
    allowed = Fraction(1, 2 ** data.draw(st.integers(1, 30)))
    x, probability = exceeded_by(clients, marked, members, allowed)
    assert probability <= allowed
    assert float(probability) == pytest.approx(hypergeom.sf(x, clients, marked, members), rel=1e-6, abs=1e-15)
    if x > 0:
        assert hypergeom.sf(x - 1, clients, marked, members) > float(allowed) * (1 - 1e-6)
