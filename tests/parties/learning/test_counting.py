"""Tests of the counts of a network, whichever way it is written."""

import random

import numpy as np
import pytest

from tacit.parties.learning.backend import Tensor, nn, seeded, torch
from tacit.parties.learning.local_update import LocalUpdate
from tacit.parties.learning.networks import BUILDERS
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.work import Counts, Pass, counted, embed_work, operations, train_work
from tacit.sim.compute import CostTable


class Along(nn.Module):
    """Two convolutions along a signal."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(1, 8, 5, padding=2), nn.Conv1d(8, 8, 5, padding=2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(torch.relu(self.first(x.reshape(len(x), 1, -1))))).flatten(1)


class Flat(nn.Module):
    """The same over images of height 1."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, (1, 5), padding=(0, 2))
        self.second = nn.Conv2d(8, 8, (1, 5), padding=(0, 2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.second(torch.relu(self.first(x.reshape(len(x), 1, 1, -1))))).flatten(1)


class Functional(Flat):
    """The same by functions."""

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.first, self.second):
            image = x if x.dim() == 4 else x.reshape(len(x), 1, 1, -1)
            x = nn.functional.conv2d(image, layer.weight, layer.bias, padding=(0, 2)).relu()
        return x.flatten(1)


class Recurrent(nn.Module):
    """A recurrent layer over eight steps; the output is the last one's."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.layer = kind(8, 16, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x.reshape(len(x), 8, 8))[0][:, -1]
        return found


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 4)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.table(x.long()).flatten(1)
        return found


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layer(x.reshape(len(x), 8, 8)).mean(1)
        return found


def passed(network: nn.Module, backward: bool = True) -> Pass:
    with seeded(torch.device("cpu"), 0):
        return counted(network, (64,), backward)


def test_a_network_written_in_three_ways_costs_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    spec, update, table = ModelSpec("linear", (64,), 10), LocalUpdate(), CostTable.load()
    found = []
    for kind in (Along, Flat, Functional):
        monkeypatch.setitem(BUILDERS, "linear", lambda spec, kind=kind: (kind(), nn.Linear(512, spec.classes)))
        found.append([table.duration(train_work(spec, update, 100, 0)), table.duration(embed_work(spec, 100))])
    assert np.ptp(found, axis=0) == pytest.approx([0, 0], abs=0.03 * np.max(found))
    multiply_adds = operations(spec).inference.point.multiply_adds
    assert multiply_adds == 64 * 5 * 8 * (1 + 8) + 512 * 10


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_recurrent_layers_are_counted_step_by_step(kind: type[nn.RNNBase], gates: int) -> None:
    assert passed(Recurrent(kind), backward=False).point.multiply_adds == 8 * gates * 16 * (8 + 16)
    assert passed(Recurrent(kind)).point.multiply_adds > 2 * 8 * gates * 16 * (8 + 16)


def test_the_calls_of_an_lstm_are_those_of_one_kernel() -> None:
    assert passed(Recurrent(nn.LSTM)).batch.calls < passed(Recurrent(nn.GRU)).batch.calls / 10


@pytest.mark.parametrize("backward", [False, True])
def test_attention_is_counted_with_and_without_gradients(backward: bool) -> None:
    network = Block().train(backward)
    linear = 8 * (4 * 8 * 8 + 2 * 8 * 16)  # for eight tokens
    attention = 2 * 8 * 8 * 8
    assert passed(network, backward).point.multiply_adds >= (1 + backward) * (linear + attention)
    assert (passed(network, backward).point.draws > 0) is backward


def test_functions_are_counted_of_layers_that_compute_some() -> None:
    layers = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 32), nn.Softmax(1))
    functions = passed(layers, backward=False).point.functions
    assert 64 + 64 + 32 <= functions <= 64 + 2 + 64 + 32  # the mean and the deviation of a layer normalisation count
    assert passed(layers).point.functions >= 2 * functions - 2
    plain = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    assert passed(plain).point.functions == passed(plain).batch.functions == 0


def test_functions_in_the_kernel_of_an_lstm_are_part_of_it() -> None:
    assert passed(Recurrent(nn.LSTM)).point.functions == 0
    assert passed(Recurrent(nn.GRU), backward=False).point.functions == 8 * 3 * 16


def test_attention_normalises_its_weights_however_it_is_called() -> None:
    class Attention(nn.Module):
        def __init__(self, by_hand: bool) -> None:
            super().__init__()
            self.by_hand = by_hand

        def forward(self, x: Tensor) -> Tensor:
            x = x.reshape(len(x), 1, 8, 8)
            if self.by_hand:
                return (x @ x.mT / 8**0.5).softmax(-1) @ x
            return nn.functional.scaled_dot_product_attention(x, x, x)

    one, other = (passed(Attention(by_hand), backward=False).point for by_hand in (False, True))
    assert one.functions == other.functions == 8 * 8


def test_an_embedding_is_counted_by_the_values_that_it_looks_up() -> None:
    counts = passed(Words(), backward=False)
    assert counts.point.values >= 64 * 4
    assert counts.point.multiply_adds == 0
    assert passed(Words()).batch.values >= 20 * 4


def test_frozen_layers_cost_no_backward_pass() -> None:
    whole, frozen = (nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)) for _ in range(2))
    frozen[0].requires_grad_(False)
    assert passed(whole).point.multiply_adds == 2 * 64 * 64 + 3 * 64 * 10
    assert passed(frozen).point.multiply_adds == 64 * 64 + 2 * 64 * 10
    assert passed(frozen).point.values < passed(whole).point.values


def test_counts_do_not_depend_on_the_number_of_threads_or_kernels_of_the_processor() -> None:
    threads, enabled = torch.get_num_threads(), torch._C._get_mkldnn_enabled()
    found = []
    try:
        for number, kernels in ((1, True), (2, True), (1, False)):
            torch.set_num_threads(number)
            torch._C._set_mkldnn_enabled(kernels)
            found.append([passed(make()) for make in (Along, Block, lambda: Recurrent(nn.LSTM))])
    finally:
        torch.set_num_threads(threads)
        torch._C._set_mkldnn_enabled(enabled)
    assert found[0] == found[1] == found[2]


def test_counting_draws_from_no_stream_and_changes_no_setting() -> None:
    spec = ModelSpec("fedct_cifar10", (3, 32, 32), 7)

    def state() -> list[bytes]:
        numbers = np.random.get_state()[1]
        return [
            torch.get_rng_state().numpy().tobytes(),
            np.asarray(numbers).tobytes(),
            repr(random.getstate()).encode(),
        ]

    before, settings = state(), (torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled())
    assert operations(spec).training.point.draws > 0
    assert state() == before
    assert (torch.backends.mha.get_fastpath_enabled(), torch._C._get_mkldnn_enabled()) == settings
    assert torch.is_grad_enabled()


def test_a_network_that_trains_nothing_counts_its_forward_pass() -> None:
    network = nn.Linear(64, 3).requires_grad_(False)
    assert passed(network).point == passed(network, backward=False).point
    assert passed(network).point != Counts()
