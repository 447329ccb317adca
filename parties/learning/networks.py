"""The networks: each a body, whose outputs are the features, and a last linear layer.

- Tarvainen and Valpola, Mean teachers are better role models, NeurIPS 2017, table 5: the 13-layer network, with weight
  normalisation and batch normalisation as in its PyTorch version, which the XCLP paper's experiments use.
- He et al., Deep residual learning for image recognition, CVPR 2016: ResNet-18, torchvision's.
- Tan and Le, EfficientNet, ICML 2019: EfficientNet-Lite0, which begins with its weights from ImageNet (`pretrained`).
- Abourayya et al., Little is enough: federated co-training, tables 12-16. Tables 14-16 contradict themselves: the
  number of parameters they give for the second convolution is that of 32 biases for 64 channels, and those of the last
  layers of tables 14 and 15 fit no size of image. Here the layers are the paper's, and the numbers follow from them.
  Rates of dropout are not in the paper; they are those of the code that its authors published.

Two linear layers without an activation are those of XCLP, appendix B.1.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from tacit.parties.learning.backend import Tensor, nn, seeded, torch
from tacit.parties.learning.extras import MissingExtra
from tacit.parties.learning.spec import MODELS, ModelError, ModelSpec
from tacit.parties.learning.tasks import task_of
from tacit.sim.plugged import PluginError, place_in
from tacit.sim.setting_error import SettingError

__all__ = [
    "BUILDERS", "NO_FEATURES", "MaxPool", "NeuralNetwork", "Whole", "blamed", "build", "builder", "check", "quickened",
]  # fmt: skip


# Max-pooling on the processor, in a third of the time that torch takes for it: with the same bits, both ways.

_WORTH = 20_000
"""The number of values from which this is faster."""

Module = TypeVar("Module", bound=nn.Module)

_aten = torch.ops.aten


class MaxPool(nn.MaxPool2d):
    """The largest value of each window of this size, at the same step, on a side; the first of equal ones."""

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu" or x.dim() != 4 or x.numel() < _WORTH:
            return super().forward(x)
        pooled: Tensor = _ByChannels.apply(x, [self.kernel_size, self.kernel_size])
        return pooled


class _OwnMaxPool(MaxPool):
    """The pooling of a user's network, which torch computes wherever the other way would not be the same."""

    def forward(self, x: Tensor) -> Tensor:
        size = self.kernel_size
        is_plain = type(size) is int and size == self.stride and self.padding == 0 and self.dilation == 1
        is_plain = is_plain and not (self.return_indices or self.ceil_mode) and x.dtype == torch.float32
        if is_plain and x.is_contiguous() and not (_are_functions_transformed() or _is_forward_differentiated()):
            return super().forward(x)
        return nn.MaxPool2d.forward(self, x)


_are_functions_transformed = torch._C._are_functorch_transforms_active


def _is_forward_differentiated() -> bool:
    return torch.autograd.forward_ad._current_level >= 0


def quickened(network: Module) -> Module:
    """Return `network`, whose plain max-pooling is computed in less time from now on."""
    for module in network.modules():
        if type(module) is nn.MaxPool2d:
            module.__class__ = _OwnMaxPool
    return network


class _ByChannels(torch.autograd.Function):
    """Pooling along channels.

    Torch compares many channels at once if they are adjacent; otherwise it branches for each.
    """

    @staticmethod
    def forward(context: Any, x: Tensor, window: list[int]) -> Tensor:
        pooled, places = _aten.max_pool2d_with_indices(x.contiguous(memory_format=torch.channels_last), window)
        context.save_for_backward(x, places.contiguous())
        context.window = window
        # With the strides, too, by which torch would choose what computes the next layer.
        found: Tensor = pooled.clone(memory_format=torch.contiguous_format)
        return found

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        x, places = context.saved_tensors
        window = context.window
        back = _aten.max_pool2d_with_indices_backward
        return back(gradients[0].contiguous(), x, window, window, [0, 0], [1, 1], False, places), None


class NeuralNetwork(nn.Module):
    """`embed` gives the features (n, d), `forward` the logits (n, classes), float32, of a batch (n, *shape).

    If all parameters are of one type, points are converted to it; tokens are int64. If body or last layer has several
    outputs, the first one counts: of a tuple or list the first element, of a mapping or a record `logits`, if there are
    some, else the first entry.
    """

    mean: Tensor | None
    std: Tensor | None
    prefix: ClassVar[str] = ""
    """The beginning of the names of parameters that is not of the user's modules."""

    def __init__(self, spec: ModelSpec, body: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.spec, self.body, self.head = spec, body, head
        for name, values in (("mean", spec.mean), ("std", spec.std)):
            tensor = torch.tensor(values).reshape(-1, *[1] * (len(spec.shape) - 1)) if values else None
            self.register_buffer(name, tensor, persistent=False)
        self._is_scaled, self._is_normalised = bool(spec.mean and spec.std), spec.unit_features
        types = {parameter.dtype for parameter in self.parameters() if parameter.is_floating_point()}
        self._type = types.pop() if len(types) == 1 else torch.float32
        if task_of(spec.task).form == "tokens":
            self._type = torch.int64

    def _prepared(self, x: Tensor) -> Tensor:
        if self._is_scaled:
            assert self.mean is not None and self.std is not None
            x = (x - self.mean) / self.std
        return x if x.dtype == self._type else x.to(self._type)

    def embed(self, x: Tensor) -> Tensor:
        features = self.body(self._prepared(x))
        if not isinstance(features, Tensor):
            features = _first(features)
        if features.dim() > 2:
            features = features.flatten(1)
        return nn.functional.normalize(features) if self._is_normalised else features

    def forward(self, x: Tensor) -> Tensor:
        logits = self.head(self.embed(x))
        if not isinstance(logits, Tensor):
            logits = _first(logits)
        return logits if logits.dtype == torch.float32 else logits.float()


class Whole(NeuralNetwork):
    """A network of one module. It has no features."""

    prefix = "body."

    def __init__(self, spec: ModelSpec, module: nn.Module) -> None:
        super().__init__(spec, module, nn.Identity())
        if spec.unit_features:
            raise ModelError(f"model {spec.name!r} is one module and has no features to scale to length 1")

    def embed(self, x: Tensor) -> Tensor:
        raise ModelError(f"model {self.spec.name!r} {NO_FEATURES}")

    def forward(self, x: Tensor) -> Tensor:
        outputs = self.body(self._prepared(x))
        if not isinstance(outputs, Tensor):
            outputs = _first(outputs)
        return outputs if outputs.dtype == torch.float32 else outputs.float()


NO_FEATURES = "has no features: its function must return two modules, the body, which computes them, and the last layer"


def _first(outputs: Any) -> Tensor:
    """The first of several outputs. Raises TypeError if there is no tensor."""
    found = outputs
    while not isinstance(found, Tensor):
        if isinstance(found, Mapping):
            found = found["logits"] if "logits" in found else next(iter(found.values()), None)
        elif isinstance(getattr(found, "logits", None), Tensor):
            found = found.logits
        elif isinstance(found, tuple | list) and found:
            found = found[0]
        else:
            raise TypeError(
                f"the output is no tensor, and no tuple or mapping that begins with one, but {outputs!r:.80}"
            )
    return found


def build(spec: ModelSpec) -> NeuralNetwork:
    """A network with new weights, drawn from torch's global generator: call it inside `backend.seeded`.

    Layers that take their size from their first input see one batch of zeros. The network is in training mode, except
    for modules that were built in evaluation mode (a frozen body, say).
    """
    parts = _parts(spec)
    modules = (parts,) if isinstance(parts, nn.Module) else parts
    still = [module for part in modules for module in part.modules() if not module.training]
    network = Whole(spec, parts) if isinstance(parts, nn.Module) else NeuralNetwork(spec, *parts)
    if any(nn.parameter.is_lazy(tensor) for tensor in (*network.parameters(), *network.buffers())):
        with torch.no_grad():
            network.eval()(torch.zeros(2, *spec.shape))
    network.train()
    for module in still:
        module.training = False
    return network


Parts = nn.Module | tuple[nn.Module, nn.Module]


def builder(spec: ModelSpec) -> Callable[[ModelSpec], Parts]:
    """The function that makes the parts of a network; a new function after a plugin has been edited."""
    return MODELS[spec.name].build or BUILDERS[spec.name]


def _parts(spec: ModelSpec) -> Parts:
    parts = builder(spec)(spec)
    two = isinstance(parts, tuple) and len(parts) == 2 and all(isinstance(part, nn.Module) for part in parts)
    if not (two or isinstance(parts, nn.Module)):
        given = f"a tuple of {len(parts)}" if isinstance(parts, tuple) else f"an object of type {type(parts).__name__}"
        wanted = "must return a module, or two modules, body and last layer"
        raise ValueError(f"model {spec.name!r}: its function {wanted}, not {given}")
    return parts


def check(spec: ModelSpec) -> None:
    """Raise PluginError if a plugin's network cannot be built, does not fit its inputs, or has wrong outputs.

    Two points of zeros pass through it. Networks that come with Tacit are not checked.
    """
    function, task = MODELS[spec.name].build, task_of(spec.task)
    if function is None:
        if (wanted := task.outputs(spec)) not in (None, (spec.classes,)) or task.form == "tokens":
            raise ModelError(
                f"model {spec.name!r} gives {spec.classes} numbers for a point, and the task {spec.task!r} needs "
                f"outputs of the shape {wanted}; add a network of your own by add_model"
            )
        return
    points = f"the points of this scenario, which have the shape {spec.shape}"
    with blamed(spec, ""), seeded(torch.device("cpu"), 0):
        network = build(spec).eval()
    unfit = blamed(spec, f"has layers that do not fit each other, or {points}")
    with unfit, torch.no_grad(), seeded(torch.device("cpu"), 0):
        outputs = network(torch.zeros(2, *spec.shape))
    wanted = task.outputs(spec)
    if wanted is not None and outputs.shape != (2, *wanted):
        what = "classes" if not spec.target else "names in the data's classes"
        problem = f"the model {spec.name!r} must have an output for each of {spec.classes} {what} (spec.classes): "
        path, line = _place(spec)
        raise PluginError(path, line, f"{problem}two points give the shape {tuple(outputs.shape)}, not {(2, *wanted)}")


@contextmanager
def blamed(spec: ModelSpec, what: str) -> Iterator[None]:
    """Raise any error in this context as a PluginError: the model of `spec`, then `what` is wrong with it.

    Errors of networks that come with Tacit stay as they are.
    """
    try:
        yield
    except (MissingExtra, PluginError, SettingError):
        raise
    except Exception as error:
        place = place_in(error)
        if MODELS[spec.name].build is None and place is None:
            raise
        path, line = place or _place(spec)
        said = str(error) if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"
        problem = f"the model {spec.name!r} {what}: {said}" if what and not isinstance(error, ModelError) else said
        raise PluginError(path, line, problem) from error


def _place(spec: ModelSpec) -> tuple[str, int]:
    """The file and line of the function that makes a plugin's network."""
    code = getattr(MODELS[spec.name].build, "__code__", None)
    return (str(code.co_filename), int(code.co_firstlineno)) if code else (f"model {spec.name!r}", 0)


def _inputs(spec: ModelSpec) -> int:
    return torch.Size(spec.shape).numel()


def _linear(spec: ModelSpec) -> Parts:
    return nn.Flatten(), nn.Linear(_inputs(spec), spec.classes)


def _linear_embedding(spec: ModelSpec) -> Parts:
    embedding = nn.Sequential(nn.Flatten(), nn.Linear(_inputs(spec), spec.embedding))
    return embedding, nn.Linear(spec.embedding, spec.classes)


def _features(body: nn.Module, spec: ModelSpec) -> int:
    """The number of outputs of `body` for one input. Its running statistics do not change."""
    was = body.training
    with torch.no_grad():
        size = body.eval()(torch.zeros(1, *spec.shape)).numel()
    body.train(was)
    return int(size)


def _small_cnn(spec: ModelSpec) -> Parts:
    convolutions = nn.Sequential(
        nn.Conv2d(spec.shape[0], 16, 3), nn.ReLU(), MaxPool(2),
        nn.Conv2d(16, 32, 3), nn.ReLU(), MaxPool(2), nn.Flatten(),
    )  # fmt: skip
    hidden = nn.Linear(_features(convolutions, spec), 128)
    return nn.Sequential(*convolutions, hidden, nn.ReLU()), nn.Linear(128, spec.classes)


def _cnn13(spec: ModelSpec) -> Parts:
    normed = nn.utils.parametrizations.weight_norm
    layers: list[nn.Module] = []
    channels = spec.shape[0]

    def convolution(outputs: int, kernel: int = 3, padding: int = 1) -> None:
        nonlocal channels
        layers.append(normed(nn.Conv2d(channels, outputs, kernel, padding=padding)))
        layers.extend((nn.BatchNorm2d(outputs), nn.LeakyReLU(0.1)))
        channels = outputs

    narrow, middle, wide = (max(1, round(count * spec.width)) for count in (128, 256, 512))
    for outputs in (narrow, middle):
        for _ in range(3):
            convolution(outputs)
        layers.extend((MaxPool(2), nn.Dropout(0.5)))
    convolution(wide, padding=0)
    convolution(middle, 1, 0)
    convolution(128, 1, 0)
    layers.append(nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*layers), normed(nn.Linear(128, spec.classes))


def _resnet18(spec: ModelSpec) -> Parts:
    from tacit.parties.learning.vision import torchvision

    network = torchvision().models.resnet18(num_classes=spec.classes)
    head, network.fc = network.fc, nn.Identity()
    return network, head


def _fedct_cifar10(spec: ModelSpec) -> Parts:
    layers: list[nn.Module] = []
    channels = spec.shape[0]
    for outputs, dropout in ((32, 0.5), (64, 0.6), (128, 0.7)):
        for inputs in (channels, outputs):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(outputs)]
        layers += [MaxPool(2), nn.Dropout2d(dropout)]
        channels = outputs
    convolutions = nn.Sequential(*layers, nn.Flatten())
    hidden = nn.Linear(_features(convolutions, spec), 128)
    body = nn.Sequential(*convolutions, hidden, nn.ReLU(), nn.BatchNorm1d(128), nn.Dropout(0.8))
    return body, nn.Linear(128, spec.classes)


def _fedct_fashionmnist(spec: ModelSpec) -> Parts:
    hidden = nn.Linear(_inputs(spec), 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU()
    return nn.Sequential(nn.Flatten(), *hidden), nn.Linear(512, spec.classes)


def _fedct_medical(spec: ModelSpec) -> Parts:
    layers: list[nn.Module] = []
    channels = spec.shape[0]
    for outputs, pool in ((32, False), (64, True), (64, True)):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
        layers += [MaxPool(2)] if pool else []
        channels = outputs
    body = nn.Sequential(*layers, nn.Flatten())
    return body, nn.Linear(_features(body, spec), spec.classes)


def _fedct_svhn(spec: ModelSpec) -> Parts:
    layers: list[nn.Module] = []
    channels = spec.shape[0]
    for outputs in (32, 64, 128):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(outputs)]
        layers += [nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU(), MaxPool(2), nn.Dropout2d(0.3)]
        channels = outputs
    convolutions = nn.Sequential(*layers, nn.Flatten())
    hidden = nn.Linear(_features(convolutions, spec), 128)
    return nn.Sequential(*convolutions, hidden, nn.ReLU(), nn.Dropout(0.4)), nn.Linear(128, spec.classes)


class _EfficientNet(nn.Module):
    """EfficientNet-Lite0 without its last layer, with its weights from ImageNet."""

    def __init__(self) -> None:
        super().__init__()
        from tacit.parties.learning import pretrained

        self.network = pretrained.network()

    def forward(self, x: Tensor) -> Tensor:
        from tacit.parties.learning import pretrained

        return pretrained.features_of(self.network, 255 * x)


def _efficientnet_lite0(spec: ModelSpec) -> Parts:
    from tacit.parties.learning import pretrained

    return _EfficientNet(), nn.Linear(pretrained.FEATURES, spec.classes)


BUILDERS: dict[str, Callable[[ModelSpec], Parts]] = {
    "linear": _linear,
    "linear_embedding": _linear_embedding,
    "small_cnn": _small_cnn,
    "cnn13": _cnn13,
    "resnet18": _resnet18,
    "efficientnet_lite0": _efficientnet_lite0,
    "fedct_cifar10": _fedct_cifar10,
    "fedct_fashionmnist": _fedct_fashionmnist,
    "fedct_pneumonia": _fedct_medical,
    "fedct_mri": _fedct_medical,
    "fedct_svhn": _fedct_svhn,
}
"""The functions that make body and last layer of each network in `tacit.parties.learning.spec.MODELS`."""
