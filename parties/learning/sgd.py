"""The local update: epochs of stochastic gradient descent with the additions of a method."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.backend import Tensor, choose_device, generator, nn, seeded, torch
from tacit.parties.learning.fits import FITS, FitData, FitSettings
from tacit.parties.learning.local_update import (
    AUGMENTATIONS,
    Active,
    Addition,
    Batches,
    InvalidReceived,
    LocalData,
    LocalUpdate,
    Run,
    Trained,
)
from tacit.parties.learning.networks import NeuralNetwork
from tacit.parties.learning.parameters import entries, flatten, load_private, loaded, private_numbers, stepped
from tacit.parties.learning.spec import ModelSpec
from tacit.parties.learning.tasks import Batch, task_of

__all__ = ["as_images", "as_targets", "augment", "on_device", "scaled", "train"]


# Random changes of images that keep their class, a whole batch at once.
#
# | augmentation | each image, independently |
# | --- | --- |
# | ``none`` | stays as it is |
# | ``translate-flip`` | moves by -4 to 4 pixels along each axis (reflected at the borders), is mirrored or not
# (CIFAR) |
# | ``rotate-flip`` | turns by -10 to 10 degrees (bilinear, 0 outside), is mirrored or not (Mini-ImageNet) |
# | ``strong`` | translate-flip, then brightness and contrast by 0.6 to 1.4, then a grey square of a quarter of the
# side |
#
# The first three are those of the XCLP paper, appendix A.2. All draws come from the generator given, on the
# processor, so that they are the same on a GPU.

_SHIFT = 4  # pixels
_TURN = 10.0  # degrees


def augment(name: str, images: Tensor, random: torch.Generator) -> Tensor:
    """Augment `images`, float (n, channels, height, width), by the method `name`.

    Raises ValueError for other shapes.
    """
    if name != "none" and images.ndim != 4:
        raise ValueError(f"augmentation {name!r} is for images, not for points of shape {tuple(images.shape[1:])}")
    if name != "none" and min(images.shape[2:]) <= _SHIFT:
        raise ValueError(f"augmentation {name!r} is for images of more than {_SHIFT} x {_SHIFT} pixels")
    return _AUGMENTATIONS[name](images, random)


def _translate(images: Tensor, random: torch.Generator) -> Tensor:
    n, _, height, width = images.shape
    padded = nn.functional.pad(images, (_SHIFT,) * 4, mode="reflect")
    top, left = torch.randint(0, 2 * _SHIFT + 1, (2, n), generator=random).to(images.device)
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)  # a view: one window for each top and left
    return windows[torch.arange(n, device=images.device), :, top, left]


def _flip(images: Tensor, random: torch.Generator) -> Tensor:
    mirrored = torch.randint(0, 2, (len(images), 1, 1, 1), generator=random).bool().to(images.device)
    return torch.where(mirrored, images.flip(3), images)


def _rotate(images: Tensor, random: torch.Generator) -> Tensor:
    n, _, height, width = images.shape
    angles = (2 * torch.rand(n, generator=random) - 1) * math.radians(_TURN)
    cosine, sine, zero = angles.cos(), angles.sin(), torch.zeros(n)
    rows = (cosine, -sine * height / width, zero, sine * width / height, cosine, zero)  # in units of half the sides
    turns = torch.stack(rows, 1).reshape(n, 2, 3).to(images.device)
    grid = nn.functional.affine_grid(turns, list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images, grid, align_corners=False)


def _translate_flip(images: Tensor, random: torch.Generator) -> Tensor:
    return _flip(_translate(images, random), random)


def _rotate_flip(images: Tensor, random: torch.Generator) -> Tensor:
    return _flip(_rotate(images, random), random)


def _strong(images: Tensor, random: torch.Generator) -> Tensor:
    n, _, height, width = images.shape
    images = _translate_flip(images, random)
    brightness, contrast = (0.6 + 0.8 * torch.rand(2, n, 1, 1, 1, generator=random)).to(images.device)
    middle = images.mean((1, 2, 3), keepdim=True)
    images = ((images - middle) * contrast + middle) * brightness
    places = torch.rand(2, n, 1, 1, generator=random).to(images.device)
    inside = torch.ones(n, 1, 1, dtype=torch.bool, device=images.device)
    for place, side, shape in zip(places, (height, width), ((1, -1, 1), (1, 1, -1)), strict=True):
        at = torch.arange(side, device=images.device).reshape(shape)
        begin = (place * (side - side // 4 + 1)).floor()
        inside = inside & (at >= begin) & (at < begin + side // 4)
    return torch.where(inside[:, None], 0.5, images)


_AUGMENTATIONS: dict[str, Callable[[Tensor, torch.Generator], Tensor]] = {
    "none": lambda images, random: images,
    "translate-flip": _translate_flip,
    "rotate-flip": _rotate_flip,
    "strong": _strong,
}
assert tuple(_AUGMENTATIONS) == AUGMENTATIONS


_SCALED_AT_ONCE = 1 << 24
"""The most numbers that are converted to float32 at once; more images of a client are converted batch by batch."""


def train(
    spec: ModelSpec,
    parameters: bytes,
    data: LocalData,
    update: LocalUpdate,
    round_number: int,
    seed: int | bytes,
    received: Sequence[bytes] = (),
    kept: Sequence[bytes] = (),
    private: bytes = b"",
) -> Trained:
    """The result of local training; see `tacit.parties.learning.jobs.train`."""
    device = choose_device(update.device)
    losses_of = task_of(spec.task).loss
    labeled, others = update.usable(data)
    plan = update.batches(len(labeled), len(others))
    rate = update.rate(len(labeled), round_number)
    random = generator(seed, "batches", round_number)
    network = loaded(spec, device, parameters)
    load_private(network, private)
    trained, moving = entries(network)[0], stepped(network)
    if update.fit:
        return _fitted(spec, network, data, update, np.concatenate([labeled, others]), plan, round_number, seed)
    run = Run(spec, update, device, network, trained, rate, round_number, plan.steps * update.epochs)
    active = _begin(run, update.additions, received, kept)
    images, labels, weights = on_device(spec, data, device)
    if images.numel() <= _SCALED_AT_ONCE:
        images = scaled(images)
    descent = _descent(moving, rate, update)
    total, one = torch.zeros((), device=device), torch.ones((), device=device)
    shares: dict[int, Tensor] = {}  # each point's share in the loss of a batch, by the batch's size
    with seeded(device, seed, "update", round_number):
        for rows, known in _batches(plan, labeled, others, update.epochs, random):
            chosen = rows.to(device)
            raw = scaled(images[chosen])

            def view(augmentation: str = update.augmentation, raw: Tensor = raw) -> Tensor:
                return augment(augmentation, raw, random)

            batch = Batch(view(), labels[chosen], known, network, view)
            objective = losses_of(network, batch)
            if objective.dim():
                size = len(rows)
                if size not in shares:
                    shares[size] = weights / size
                objective = torch.dot(objective, shares[size][chosen])
            for addition in active:
                term = addition.loss(batch)
                objective = objective if term is None else objective + term
            _run_backward((objective,), (one,), False, False, (), allow_unreachable=True, accumulate_grad=True)
            with torch.no_grad():
                for addition in active:
                    addition.gradients(batch)
                descent.step()
                for addition in active:
                    addition.after_step()
                total += objective.detach()
    steps = run.steps
    ends = [addition.finish() for addition in active]
    sent, keeps = tuple(end[0] for end in ends), tuple(end[1] for end in ends)
    loss = float(total) / steps if steps else math.nan
    return Trained(flatten(network), sent, keeps, steps, loss, private=private_numbers(network))


def _fitted(
    spec: ModelSpec, network: NeuralNetwork, data: LocalData, update: LocalUpdate, rows: NDArray[np.int64],
    plan: Batches, round_number: int, seed: int | bytes,
) -> Trained:  # fmt: skip
    """The result of local training of one's own, on these `rows` of the data."""
    device, steps = choose_device(update.device), plan.steps * update.epochs
    if not steps:
        return Trained(flatten(network), private=private_numbers(network))
    images, targets, weights = on_device(spec, data, device)
    chosen = torch.from_numpy(np.sort(rows)).to(device)
    known = int(data.labeled.sum())
    settings = FitSettings(update, update.rate(known, round_number), round_number, task_of(spec.task))
    points = FitData(scaled(images[chosen]), targets[chosen], weights[chosen])
    with seeded(device, seed, "update", round_number):
        figures = FITS[update.fit].fit(network, points, settings, generator(seed, "batches", round_number))
    if not isinstance(figures, Mapping | None):
        raise TypeError(f"training.fit = {update.fit!r} must return its figures by name, not {figures!r:.80}")
    found = {name: float(value) for name, value in (figures or {}).items()}
    loss, private = found.get("loss", math.nan), private_numbers(network)
    return Trained(flatten(network), steps=steps, loss=loss, figures=tuple(found.items()), private=private)


_run_backward = torch.autograd.Variable._execution_engine.run_backward
"""The function that `Tensor.backward` calls at its end; the checks before it take longer than a small layer."""


def _descent(parameters: list[Tensor], rate: float, update: LocalUpdate) -> "_Descent | _Optimized":
    """The steps of one update, with a new state."""
    plain = update.optimizer == "sgd" and not update.optimizer_options and not update.gradient_clip
    return _Descent(parameters, rate, update) if plain else _Optimized(parameters, rate, update)


class _Optimized:
    """The steps of an optimiser of torch, each of which clips the gradients first and discards them."""

    def __init__(self, parameters: list[Tensor], rate: float, update: LocalUpdate) -> None:
        from tacit.parties.learning.optimizers import optimizer

        self._parameters, self._clip = parameters, update.gradient_clip
        decay, momentum = update.weight_decay, update.momentum
        self._own = optimizer(update.optimizer, parameters, rate, decay, momentum, update.optimizer_options)

    def step(self) -> None:
        if self._clip:
            nn.utils.clip_grad_norm_(self._parameters, self._clip)
        self._own.step()
        self._own.zero_grad()


class _Descent:
    """Gradient steps v <- momentum v + g + decay w, w <- w - rate v, each of which discards the gradients g."""

    def __init__(self, parameters: list[Tensor], rate: float, update: LocalUpdate) -> None:
        self._parameters, self._rate = parameters, rate
        self._momentum, self._decay = update.momentum, update.weight_decay
        self._velocity: dict[Tensor, Tensor] = {}

    def step(self) -> None:
        # These are the calls inside torch's optimisers, whose own overhead is as large as a layer of a small network.
        moving = self._parameters
        moves = [parameter.grad for parameter in moving if parameter.grad is not None]
        if len(moves) < len(moving):  # the batch does not reach all: as in torch, the others stay as they are
            moving = [parameter for parameter in moving if parameter.grad is not None]
        if self._decay:
            torch._foreach_add_(moves, moving, alpha=self._decay)
        if self._momentum:
            pairs = [(move, self._velocity.get(one)) for move, one in zip(moves, moving, strict=True)]
            before = [velocity for _, velocity in pairs if velocity is not None]
            if before:
                later = (
                    moves if len(before) == len(moves) else [move for move, velocity in pairs if velocity is not None]
                )
                torch._foreach_add_(later, before, alpha=self._momentum)
            self._velocity.update(zip(moving, moves, strict=True))
        torch._foreach_add_(moving, moves, alpha=-self._rate)
        for parameter in self._parameters:
            parameter.grad = None


def _begin(run: Run, additions: Sequence[Addition], received: Sequence[bytes], kept: Sequence[bytes]) -> list[Active]:
    """Begin each of the `additions`. Raises InvalidReceived where what was `received` for them cannot be used."""
    if max(len(received), len(kept)) > len(additions):
        count = max(len(received), len(kept))
        raise InvalidReceived(f"state for {count} additions, but the update has {len(additions)}")
    states = list(zip_longest(received, kept, fillvalue=b""))
    states += [(b"", b"")] * (len(additions) - len(states))
    try:
        return [addition.begin(run, *state) for addition, state in zip(additions, states, strict=True)]
    except ValueError as error:
        raise InvalidReceived(str(error)) from error


def as_images(spec: ModelSpec, images: NDArray[np.generic]) -> Tensor:
    """`images` (n, ...) as a tensor (n, *spec.shape) of uint8 or float32. Raises ValueError if they do not fit."""
    shape = images.shape[1:]
    if len(spec.shape) == 3 and (images.ndim == 2 or images.dtype == np.uint8):  # channels last, as in data sets
        channels, height, width = spec.shape
        fits = shape in ((height, width, channels), (height * width * channels,))
        kept = images.reshape(-1, height, width, channels).transpose(0, 3, 1, 2) if fits else images
    else:
        fits, kept = shape == spec.shape or (len(spec.shape) == 1 and math.prod(shape) == spec.shape[0]), images
    if not fits:
        raise ValueError(f"model {spec.name!r} takes points of shape {spec.shape}, not {shape}")
    kept = np.ascontiguousarray(kept, np.uint8 if images.dtype == np.uint8 else np.float32)
    if not kept.flags.writeable:
        kept = kept.copy()
    return torch.from_numpy(kept).reshape(-1, *spec.shape)


def as_targets(targets: NDArray[np.generic]) -> Tensor:
    """Targets (n, ...) as a tensor: classes and tokens int64, numbers and zeros and ones float32."""
    return torch.from_numpy(np.array(targets, np.int64 if targets.dtype.kind == "i" else np.float32))


def scaled(images: Tensor) -> Tensor:
    """Images as float32; uint8 stands for value / 255."""
    return images.float() / 255 if images.dtype == torch.uint8 else images


def on_device(spec: ModelSpec, data: LocalData, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Images, targets and weights as tensors on `device`. Raises ValueError for labels out of range."""
    if data.targets is None:
        _check_labels(spec, data.labels)
        labels = torch.from_numpy(data.labels.astype(np.int64))
    else:
        labels = as_targets(data.targets)
    weights = torch.from_numpy(data.weights.astype(np.float32))
    return as_images(spec, data.images).to(device), labels.to(device), weights.to(device)


def _check_labels(spec: ModelSpec, labels: NDArray[np.int64]) -> None:
    if len(labels) and not -1 <= labels.min() <= labels.max() < spec.classes:
        raise ValueError(f"labels are in [{labels.min()}, {labels.max()}], not in [-1, {spec.classes - 1}]")


def _batches(
    plan: Batches, labeled: NDArray[np.int64], others: NDArray[np.int64], epochs: int, random: torch.Generator
) -> Iterator[tuple[Tensor, int]]:
    """Yield the rows of each batch of all epochs, labeled ones first, and the number of labeled ones."""
    shuffled = partial(_shuffled, random=random)
    if not plan.others:
        for _ in range(epochs):
            order = shuffled(labeled)
            for step in range(plan.steps):
                rows = order[step * plan.labeled : (step + 1) * plan.labeled]
                yield rows, len(rows)
        return
    ahead = shuffled(labeled)
    for _ in range(epochs):
        order = shuffled(others)
        for step in range(plan.steps):
            while len(ahead) < plan.labeled:
                ahead = torch.cat([ahead, shuffled(labeled)])
            first, ahead = ahead[: plan.labeled], ahead[plan.labeled :]
            yield torch.cat([first, order[step * plan.others : (step + 1) * plan.others]]), plan.labeled


def _shuffled(rows: NDArray[np.int64], random: torch.Generator) -> Tensor:
    return torch.from_numpy(rows)[torch.randperm(len(rows), generator=random)]
