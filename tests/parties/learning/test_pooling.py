import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.parties.learning import networks
from tacit.parties.learning.networks import MaxPool


@settings(max_examples=30)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(2, 9), st.integers(2, 9)),
    st.integers(2, 3),
    st.integers(0, 2**32),
)
def test_pooling_and_its_gradient_equal_torchs_bit_for_bit(shape: tuple[int, ...], size: int, seed: int) -> None:
    size = min(size, *shape[2:])
    dice = torch.Generator().manual_seed(seed)
    values = torch.randint(-2, 3, shape, generator=dice).float()  # many are equal
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "_WORTH", 0)
        for layer in (torch.nn.MaxPool2d(size), MaxPool(size)):
            x = values.clone().requires_grad_(True)
            pooled = layer(x)
            pooled.backward(torch.arange(pooled.numel()).reshape(pooled.shape) + 0.1)
            found.append((pooled.detach(), x.grad))
    for theirs, ours in zip(*found, strict=True):
        assert torch.equal(theirs, ours) and theirs.stride() == ours.stride()


def test_small_inputs_and_inputs_without_gradients_are_pooled() -> None:
    layer = MaxPool(2)
    assert torch.equal(layer(torch.arange(16.0).reshape(1, 4, 4)), torch.tensor([[[5.0, 7.0], [13.0, 15.0]]]))
    with torch.no_grad():
        assert layer(torch.ones(2, 16, 32, 32)).shape == (2, 16, 16, 16)
