"""The Hamming matrix in blocks: whole and in parts it is the same, and blocks of many pairs are those of each."""

import asyncio
from contextlib import nullcontext
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.protocols.crypto.compiled import in_numpy
from tacit.protocols.crypto.fields import pack_fields
from tacit.protocols.setup import Group
from tacit.protocols.xclp.blocks import Blocks
from tacit.protocols.xclp.hamming_plaintext import PlaintextHamming
from tacit.sim.streams import generator

SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=6)


@given(SIZES, st.integers(0, 2**32))
def test_the_whole_matrix_is_that_of_its_rows(sizes: list[int], seed: int) -> None:
    draw = generator(seed, "blocks")
    upper = [np.triu(draw.integers(0, 1000, (n, n)).astype(np.uint16), 1) for n in sizes]
    between = {
        (j, k): draw.integers(0, 1000, (sizes[k], sizes[j])).astype(np.uint16)
        for j, k in combinations(range(len(sizes)), 2)
    }
    matrix = Blocks(sizes, [one + one.T for one in upper], between)
    whole = matrix[:]
    assert whole.shape == matrix.shape and whole.dtype == np.uint16 and (whole == whole.T).all()
    for row in range(len(matrix)):
        if len(matrix) > 1:
            assert (matrix[row : row + 1] == whole[row]).all()
    ends = np.cumsum([0, *sizes])
    for (j, k), block in between.items():
        assert (whole[ends[k] : ends[k + 1], ends[j] : ends[j + 1]] == block).all()


@pytest.mark.parametrize("where", [nullcontext, in_numpy])
@given(SIZES, st.integers(2, 40), st.integers(0, 2**32), st.data())
def test_distances_of_many_pairs_are_those_of_each_pair(where, sizes, bits, seed, data: st.DataObject) -> None:
    draw, width = generator(seed, "pairs"), bits.bit_length()
    names = tuple(f"client/{number}" for number in range(len(sizes)))
    group = Group(names, dict(zip(names, sizes, strict=True)), {})
    pairs = list(combinations(names, 2))
    variant, masked, masks = PlaintextHamming(bits), [], []
    for j, k in pairs:
        size = group.points[j] * group.points[k]
        r = draw.integers(0, 2 ** (width - 1), size)
        t = r + draw.integers(0, 2 ** (width - 1), size)
        wrong = data.draw(st.sampled_from(["", "", "long", "below", "above"]))
        if wrong == "below" and size:
            r[-1], t[-1] = 1, 0
        if wrong == "above" and size:
            r[0], t[0] = 0, 2**width - 1
        masked.append(pack_fields(t, width) + bytes(wrong == "long"))
        masks.append(pack_fields(r, width))
    long = any(len(one) != len(other) for one, other in zip(masked, masks, strict=True))
    with where():
        found = variant.combine_some(group, pairs, masked, masks)
        for pair, t_of, r_of, block in zip(pairs, masked, masks, found, strict=True):
            try:
                alone = asyncio.run(variant.combine(None, group, pair, t_of, r_of))
            except ValueError:
                assert block is None
            else:  # a block of a wrong length leaves all to `combine`
                assert long if block is None else block.dtype == alone.dtype and np.array_equal(block, alone)
