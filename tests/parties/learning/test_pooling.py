import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.parties.learning import networks
from tacit.parties.learning.networks import MaxPool, quickened


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


POOLS = {
    "plain": lambda: torch.nn.MaxPool2d(2),
    "overlapping": lambda: torch.nn.MaxPool2d(3, 2),
    "padded": lambda: torch.nn.MaxPool2d(3, padding=1),
    "dilated": lambda: torch.nn.MaxPool2d(2, dilation=2),
    "ceiling": lambda: torch.nn.MaxPool2d(2, ceil_mode=True),
    "oblong": lambda: torch.nn.MaxPool2d([2, 3]),
}


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_pooling_of_a_users_network_keeps_its_bits_once_it_is_quickened(
    monkeypatch: pytest.MonkeyPatch, kind: str, layout: torch.memory_format
) -> None:
    monkeypatch.setattr(networks, "_WORTH", 0)
    pools, x = (POOLS[kind](), quickened(POOLS[kind]())), torch.randint(-2, 3, (2, 3, 9, 9)).float()
    x = x.contiguous(memory_format=layout)
    found = []
    for pool in pools:
        leaf = x.clone().requires_grad_(True)
        pooled = pool(leaf)
        (slope,) = torch.autograd.grad((pooled**3).sum(), leaf, create_graph=True)
        (curve,) = torch.autograd.grad((slope**2).sum(), leaf)
        found.append((pooled, slope, curve))
    for theirs, ours in zip(*found, strict=True):
        assert torch.equal(theirs, ours) and theirs.stride() == ours.stride()


def test_a_quickened_network_can_be_differentiated_for_each_point_and_forwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(networks, "_WORTH", 0)
    x, pool = torch.rand(2, 3, 8, 8), quickened(torch.nn.MaxPool2d(2))

    def total(point: torch.Tensor) -> torch.Tensor:
        return pool(point[None]).square().sum()

    leaf = x.clone().requires_grad_(True)
    (whole,) = torch.autograd.grad(pool(leaf).square().sum(), leaf)
    assert torch.equal(torch.func.vmap(torch.func.grad(total))(x), whole)
    assert torch.allclose(torch.func.jvp(total, (x[0],), (x[0],))[1], (whole[0] * x[0]).sum())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, x)
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(pool(dual)).tangent, torch.nn.MaxPool2d(2)(x))
