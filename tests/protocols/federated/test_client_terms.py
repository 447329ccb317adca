import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from tacit.parties.learning.jobs import initial, size, train
from tacit.parties.learning.local_update import Addition, LocalData, LocalUpdate, Trained
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.vectors import decode, encode
from tacit.protocols.federated.fedmatch import FedMatch, choose_helpers
from tacit.protocols.federated.fedprox import FedProx
from tacit.protocols.federated.fedsiam import FedSiam
from tacit.protocols.federated.mean_teacher import MeanTeacher, rampup
from tacit.protocols.federated.scaffold import Scaffold, server_control
from tacit.sim.streams import generator

SPEC = ModelSpec("linear", (4,), 3)
RATE, DECAY = 0.5, 0.01


def data_of(labeled: int = 6, others: int = 0, shape: tuple[int, ...] = (4,)) -> LocalData:
    random, n = generator(1, "data"), labeled + others
    known = np.arange(n) < labeled
    labels = np.where(known, random.integers(0, 3, n), -1)
    return LocalData(random.random((n, *shape), dtype=np.float32), labels, np.ones(n, np.float32), known)


def run(
    addition: Addition,
    data: LocalData,
    epochs: int = 1,
    received: bytes = b"",
    kept: bytes = b"",
    spec: ModelSpec = SPEC,
    round_number: int = 0,
    decay: float = DECAY,
) -> Trained:
    update = LocalUpdate(epochs, 50, RATE, weight_decay=decay, decay_rounds=0, device="cpu", additions=(addition,))
    return train(spec, initial(spec, 1), data, update, round_number, 1, [received], [kept])


def start(spec: ModelSpec = SPEC) -> torch.Tensor:
    return torch.tensor(decode(initial(spec, 1)), dtype=torch.float64)


def logits(vector: torch.Tensor, images: np.ndarray) -> torch.Tensor:
    inputs = torch.tensor(images, dtype=torch.float64).flatten(1)
    features = inputs.shape[1]
    return inputs @ vector[: 3 * features].reshape(3, features).T + vector[3 * features :]


def slope(loss: object, vector: torch.Tensor) -> torch.Tensor:
    """The gradient at `vector` of a function of it."""
    at = vector.detach().clone().requires_grad_()
    (found,) = torch.autograd.grad(loss(at), at)  # type: ignore[operator]
    return found + DECAY * vector


def supervised(data: LocalData) -> object:
    labels = torch.tensor(data.labels)
    n = len(labels)
    return lambda vector: (
        functional.cross_entropy(logits(vector, data.images), labels, ignore_index=-1, reduction="sum") / n
    )


def assert_near(found: bytes, expected: torch.Tensor) -> None:
    np.testing.assert_allclose(decode(found), expected.numpy(), rtol=1e-4, atol=1e-6)


def test_fedprox_pulls_towards_where_the_round_began() -> None:
    data, w = data_of(), start()
    begin = w
    for _ in range(3):
        w = w - RATE * (slope(supervised(data), w) + 0.7 * (w - begin))
    result = run(FedProx(mu=0.7), data, epochs=3)
    assert_near(result.parameters, w)
    assert (result.sent, result.kept) == ((b"",), (b"",))


def test_scaffold_corrects_steps_and_learns_the_drift() -> None:
    data, w = data_of(), start()
    random = generator(1, "controls")
    server, own = (torch.tensor(random.normal(size=len(w)) * 0.1) for _ in range(2))
    begin = w
    for _ in range(3):
        w = w - RATE * (slope(supervised(data), w) - own + server)
    result = run(Scaffold(), data, 3, encode(server.numpy()), encode(own.numpy()))
    assert_near(result.parameters, w)
    new = own - server + (begin - w) / (3 * RATE)
    assert_near(result.kept[0], new)
    assert_near(result.sent[0], new - own)


def test_scaffold_begins_with_controls_of_zero() -> None:
    data, zero = data_of(), bytes(4 * size(SPEC))
    assert run(Scaffold(), data) == run(Scaffold(), data, 1, zero, zero)


def test_scaffolds_control_of_the_server_moves_by_the_share_of_clients_that_answered() -> None:
    mean = encode(np.array([2.0, 1.0]))
    control = server_control(b"", mean, 2 / 8)
    assert decode(control).tolist() == [4 / 8, 2 / 8]
    assert decode(server_control(control, mean, 2 / 4)).tolist() == [0.5 + 4 / 4, 0.25 + 2 / 4]


def test_scaffold_without_points_keeps_its_control_variate() -> None:
    own = encode(np.arange(size(SPEC)))
    result = run(Scaffold(), data_of(0), 1, b"", own)
    assert (result.kept[0], decode(result.sent[0]).any()) == (own, False)


def test_a_mean_teacher_pulls_the_student_and_is_its_moving_average() -> None:
    data, w = data_of(4, 4), start()
    teacher = torch.tensor(generator(1, "teacher").normal(size=len(w)))
    weight = 100.0 * math.exp(-5 * (1 - 3 / 5) ** 2)  # in the third round
    received = encode(teacher.numpy())
    for _ in range(2):
        target = logits(teacher, data.images).softmax(1)
        w = w - RATE * slope(
            lambda v, target=target: (
                supervised(data)(v)  # type: ignore[operator]
                + weight * ((logits(v, data.images).softmax(1) - target) ** 2).mean()
            ),
            w,
        )
        teacher = 0.97 * teacher + 0.03 * w
    result = run(MeanTeacher(), data, 2, received, round_number=2)
    assert_near(result.parameters, w)
    assert_near(result.sent[0], teacher)


def test_a_teacher_that_was_never_sent_begins_as_the_student() -> None:
    data = data_of(4, 4)
    assert run(MeanTeacher(), data) == run(MeanTeacher(), data, received=initial(SPEC, 1))


def test_the_teacher_keeps_running_statistics_of_its_own() -> None:
    spec = ModelSpec("fedct_svhn", (1, 8, 8), 3)
    result = run(MeanTeacher(), data_of(4, 4, (1, 8, 8)), spec=spec)
    running = 2 * (32 + 64 + 128)
    teacher, student, begin = (decode(v)[-running:] for v in (result.sent[0], result.parameters, initial(spec, 1)))
    assert (teacher != begin).mean() > 0.9
    assert (teacher != student).any()  # other dropout


def test_the_consistency_weight_is_ramped_up() -> None:
    assert rampup(0, 5) == pytest.approx(math.exp(-5))
    assert rampup(5, 5) == rampup(9, 5) == rampup(0, 0) == 1.0
    assert rampup(2, 5) < rampup(3, 5)


def test_fedsiam_is_drawn_by_the_divergence_over_the_clients_own_epochs() -> None:
    data, w = data_of(4, 4), start()
    teacher = torch.tensor(generator(1, "teacher").normal(size=len(w)))
    received = encode(teacher.numpy())
    for epoch in (4, 5):  # the client has trained for three epochs before
        target = logits(teacher, data.images).log_softmax(1)
        weight = math.exp(-5 * (1 - epoch / 10) ** 2)
        w = w - RATE * slope(
            lambda v, target=target, weight=weight: (
                supervised(data)(v)  # type: ignore[operator]
                + weight
                * functional.kl_div(
                    logits(v, data.images).log_softmax(1), target, log_target=True, reduction="batchmean"
                )
            ),
            w,
        )
        teacher = 0.999 * teacher + 0.001 * w
    result = run(FedSiam(), data, 2, received, (3).to_bytes(8, "little"), round_number=40)
    assert_near(result.parameters, w)
    assert_near(result.sent[0], teacher)
    assert int.from_bytes(result.kept[0], "little") == 5


IMAGES = ModelSpec("linear", (1, 6, 6), 3)


def test_fedmatch_moves_sigma_by_labels_and_psi_by_agreement() -> None:
    settings = FedMatch(supervised=2.0, consistency=0.3, agreement=0.0, l1=0.01, l2=0.2, confidence=0.0)
    data, theta = data_of(4, 4, (1, 6, 6)), start(IMAGES)
    random = generator(1, "psi")
    psi, helper = (torch.tensor(random.normal(size=len(theta)) * 0.1) for _ in range(2))
    sigma = theta - psi
    known, unknown = data.images[:4], data.images[4:]
    labels = torch.tensor(data.labels[:4])
    target = logits(sigma + helper, unknown).log_softmax(1)

    by_labels = slope(lambda v: 2.0 * functional.cross_entropy(logits(v, known), labels), theta) - DECAY * theta
    by_helper = (
        slope(
            lambda v: (
                0.3
                * functional.kl_div(logits(v, unknown).log_softmax(1), target, log_target=True, reduction="batchmean")
            ),
            theta,
        )
        - DECAY * theta
    )
    new_sigma = sigma - RATE * (by_labels + DECAY * sigma)
    new_psi = psi - RATE * (by_helper + 0.01 * psi.sign() + 2 * 0.2 * (psi - sigma) + DECAY * psi)

    result = run(settings, data, 1, encode(psi.numpy()) + encode(helper.numpy()), spec=IMAGES)
    assert_near(result.sent[0], new_psi)
    assert_near(result.parameters, new_sigma + new_psi)


def test_fedmatch_trains_sigma_and_psi_separately() -> None:
    theta = decode(initial(IMAGES, 1))
    unlabeled = run(FedMatch(confidence=0.0), data_of(0, 8, (1, 6, 6)), 2, spec=IMAGES, decay=0.0)
    sigma = decode(unlabeled.parameters) - decode(unlabeled.sent[0])
    np.testing.assert_allclose(sigma, theta / 1.2, atol=1e-6)  # no point has labels
    unsure = run(FedMatch(confidence=1.0, l1=0.0, l2=0.0), data_of(4, 4, (1, 6, 6)), 2, spec=IMAGES, decay=0.0)
    np.testing.assert_allclose(decode(unsure.sent[0]), theta / 6, atol=1e-6)  # no prediction is confident
    assert unsure.parameters != initial(IMAGES, 1)


def test_fedmatch_learns_the_labels_that_network_and_helpers_agree_on() -> None:
    data = data_of(0, 8, (1, 6, 6))
    base = {"consistency": 0.0, "l1": 0.0, "l2": 0.0, "confidence": 0.0, "agreement": 5.0}
    decided = np.zeros(size(IMAGES))
    decided[-3:] = [0, 9, 0]  # the helpers are confident of class 1
    psi = decode(initial(IMAGES, 1)) / 6
    received = encode(psi) + 2 * encode(psi + decided)
    result = run(FedMatch(**base), data, 20, received, spec=IMAGES, decay=0.0)
    assert (
        logits(torch.tensor(decode(result.parameters), dtype=torch.float64), data.images).argmax(1).tolist() == [1] * 8
    )


def test_helpers_are_the_clients_with_the_most_similar_predictions() -> None:
    base = decode(initial(IMAGES, 1))
    shift = np.zeros(size(IMAGES))
    shift[-3:] = [0.0, 1.0, 0.0]
    vectors = [encode(base + k * shift) for k in (0.0, 5.0, 0.1, 5.2)]
    assert choose_helpers(IMAGES, vectors, 1, 1) == [(2,), (3,), (0,), (1,)]
    assert [len(chosen) for chosen in choose_helpers(IMAGES, vectors[:2], 5, 1)] == [1, 1]


@pytest.mark.parametrize("addition", [Scaffold(), MeanTeacher(), FedSiam(), FedMatch()])
def test_state_of_another_length_is_refused(addition: Addition) -> None:
    with pytest.raises(ValueError, match="bytes"):
        run(addition, data_of(4, 4), received=bytes(6))


def test_kept_state_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="own control variate: 4 bytes"):
        run(Scaffold(), data_of(), kept=bytes(4))
    with pytest.raises(ValueError, match="keeps 8 bytes, not 4"):
        run(FedSiam(), data_of(), kept=bytes(4))


@pytest.mark.parametrize(
    ("addition", "message"),
    [
        (FedProx(mu=-1.0), r"mu\(=-1.0\) must be >= 0"),
        (MeanTeacher(decay=1.5), r"decay\(=1.5\)"),
        (FedSiam(epochs=-1), r"epochs\(=-1\)"),
        (FedMatch(l1=-1.0), "must be >= 0"),
        (FedMatch(l2=10.0), r"l2\(=10.0\) must be below 1 / learning rate, 2"),
    ],
)
def test_settings_out_of_range_are_refused(addition: Addition, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LocalUpdate(learning_rate=0.5, additions=(addition,))


@pytest.mark.parametrize("addition", [Scaffold(), FedMatch()])
def test_methods_of_plain_steps_refuse_momentum(addition: Addition) -> None:
    with pytest.raises(ValueError, match=r"momentum\(=0.9\) must be 0"):
        LocalUpdate(momentum=0.9, additions=(addition,))


def test_several_added_terms_train_together_reproducibly() -> None:
    data, own = data_of(4, 4), (FedProx(mu=0.2), Scaffold(), MeanTeacher())
    update = LocalUpdate(2, 50, RATE, device="cpu", additions=own)
    both = train(SPEC, initial(SPEC, 1), data, update, 3, 1)
    assert [len(sent) for sent in both.sent] == [0, 4 * size(SPEC), 4 * size(SPEC)]
    assert train(SPEC, initial(SPEC, 1), data, update, 3, 1, both.sent, both.kept) == train(
        SPEC, initial(SPEC, 1), data, update, 3, 1, both.sent, both.kept
    )
