"""Coded pieces: any U of them give the sum of masks, and any T pieces of one mask are uniform."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.crypto.coded_masks import decoded, encoding, mask_and_pieces, piece_length, summed
from tacit.protocols.crypto.mersenne import GF31
from tacit.sim.streams import Entropy
from tests.protocols.crypto.test_packed_shamir import rank


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Dimension, U, T and N."""
    clients = draw(st.integers(2, 12))
    needed = draw(st.integers(1, clients))
    return draw(st.integers(1, 40)), needed, draw(st.integers(0, needed - 1)), clients


@given(sizes(), st.integers(1, 4), st.integers(0, 99), st.data())
def test_any_required_number_of_pieces_gives_the_sum_of_the_masks(
    size: tuple[int, int, int, int], masks: int, seed: int, data: st.DataObject
) -> None:
    dimension, needed, private, clients = size
    made = [mask_and_pieces(*size, Entropy.seeded(seed, "mask", number)) for number in range(masks)]
    places = data.draw(st.lists(st.integers(0, clients - 1), min_size=needed, max_size=clients, unique=True))
    sums = {place: summed([pieces[place] for _, pieces in made]) for place in places}
    assert all(len(piece) == piece_length(dimension, needed, private) for piece in sums.values())
    assert decoded(sums, dimension, needed, private).tolist() == summed([mask for mask, _ in made]).tolist()
    if needed > 1:
        with pytest.raises(ValueError, match=f"{needed - 1} pieces are there; {needed} are needed"):
            decoded(dict(list(sums.items())[: needed - 1]), dimension, needed, private)


@given(sizes(), st.data())
def test_pieces_held_by_colluding_clients_are_uniform_for_every_mask(
    size: tuple[int, int, int, int], data: st.DataObject
) -> None:
    """The coefficients of the uniform parts in any T pieces are invertible, so each value of the pieces is equally
    likely."""
    _, needed, private, clients = size
    places = data.draw(st.lists(st.integers(0, clients - 1), min_size=private, max_size=private, unique=True))
    table = encoding(needed, clients)
    assert rank([[int(value) for value in table[place, needed - private :]] for place in places], GF31) == private


@given(sizes(), st.data())
def test_any_required_number_of_columns_is_invertible(size: tuple[int, int, int, int], data: st.DataObject) -> None:
    _, needed, _, clients = size
    places = data.draw(st.lists(st.integers(0, clients - 1), min_size=needed, max_size=needed, unique=True))
    table = encoding(needed, clients)
    assert rank([[int(value) for value in table[place]] for place in places], GF31) == needed


def test_many_terms_are_added_exactly() -> None:
    """With more than 64 terms, one floating-point sum of products of the largest numbers would be rounded."""
    mask, pieces = mask_and_pieces(50, 150, 100, 160, Entropy.seeded(1, "many"))
    assert decoded({place: pieces[place] for place in range(5, 155)}, 50, 150, 100).tolist() == mask.tolist()
