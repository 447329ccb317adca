"""The state of a network: what of it is trained, averaged, frozen or kept, and the vector that travels.

| role | which tensors | in a job | sent |
| --- | --- | --- | --- |
| trained | parameters that require gradients as built | begin as sent | yes |
| averaged | buffers of floating point that a state dict holds | begin as sent | yes |
| private | those of both that `ModelSpec.private` names | begin as the client kept them, at first as built | no |
| frozen | other parameters, and those that `ModelSpec.frozen` names | are those of the built network | no |
| kept | buffers of integers, outside the state dict, or that `ModelSpec.kept` names | begin as built | no |

All parties build the same frozen and kept tensors; the private ones of each client are its own.

The vector has the trained tensors in the network's own order, then the averaged ones, each number in its own width
(`vectors.Layout`). A parameter that requires gradients and gets none stays as it is and travels all the same: which
parameters get some may differ from batch to batch. Counters (batch normalisation's `num_batches_tracked`) begin as
built, at 0, so that a cumulative mean is that of one update: a mean of counters of clients is no count of anything, and
a model's numbers must follow from the vector alone. Where the network begins from a file of weights
(`ModelSpec.weights`), "as built" means: as in the file.

Nothing else of a network outlives a job: attributes of modules, hooks, the mode of each module and what requires
gradients are put back (`memory`). If that cannot be done, the network is built again. Networks are built inside a
fixed stream of random numbers, so frozen and kept tensors are the same in every process and every run.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from weakref import WeakKeyDictionary

import numpy as np

from tacit.parties.learning import networks
from tacit.parties.learning.backend import Tensor, choose_device, nn, seeded, torch
from tacit.parties.learning.memory import Memory
from tacit.parties.learning.networks import NeuralNetwork, Parts, build, builder, quickened
from tacit.parties.learning.spec import MODELS, ModelError, ModelSpec
from tacit.parties.learning.state_dict import Named, load_weights
from tacit.parties.learning.tasks import TASKS, Batch, Task, task_of
from tacit.parties.learning.vectors import WIDTHS, Layout
from tacit.sim.setting_error import SettingError

__all__ = [
    "Entry", "Role", "cached", "check", "entries", "entries_of", "feature_count", "flatten", "fresh", "initial", "join",
    "layout", "least_batch", "load", "load_private", "loaded", "metric_names", "private_layout", "private_numbers",
    "size", "split", "stepped", "trained_layout", "trained_size",
]  # fmt: skip

_ROOM = 8  # the most networks that a process keeps; each is as large as its parameters


class Role(Enum):
    """The role of a tensor of the network; the table above says which tensor has which."""

    TRAINED = "trained"
    AVERAGED = "averaged"
    PRIVATE = "private"
    FROZEN = "frozen"
    KEPT = "kept"


@dataclass(frozen=True)
class Entry:
    """A tensor of a network's state: its name in the state dict, its shape, the name of its type, and its role."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role

    @property
    def numbers(self) -> int:
        """How many numbers it has."""
        return int(np.prod(self.shape, dtype=np.int64))


_FIXED = (Role.PRIVATE, Role.FROZEN, Role.KEPT)
"""The roles of tensors that begin each job as built, unless the client has kept them."""

_networks: "OrderedDict[tuple[object, ...], NeuralNetwork]" = OrderedDict()
_states: "WeakKeyDictionary[NeuralNetwork, State]" = WeakKeyDictionary()


class State:
    """The tensors of `network`, as it was built, by role; `restore` puts back all that does not travel."""

    def __init__(self, network: NeuralNetwork) -> None:
        declared = _Declared(network.spec)
        self._slots: list[tuple[dict[str, Tensor | None], str, Tensor]] = []
        found: dict[int, tuple[Entry, Tensor, dict[str, Tensor | None], str]] = {}
        for own in ("_parameters", "_buffers"):  # in the order of network.parameters() and network.buffers()
            for path, module in network.named_modules():
                tensors: dict[str, Tensor | None] = getattr(module, own)
                for name, tensor in tensors.items():
                    if tensor is None:
                        continue
                    self._slots.append((tensors, name, tensor))
                    if id(tensor) not in found:
                        whole = (f"{path}.{name}" if path else name).removeprefix(network.prefix)
                        role = declared.role(whole, module, _role(module, name, tensor, own == "_parameters"))
                        if role is Role.FROZEN:
                            tensor.requires_grad_(False)
                        entry = Entry(whole, tuple(tensor.shape), _type(tensor), role)
                        found[id(tensor)] = entry, tensor, tensors, name
        order = sorted(found.values(), key=lambda one: (*Role,).index(one[0].role))
        self.entries = tuple(one[0] for one in order)
        self.trained = [one[1] for one in order if one[0].role is Role.TRAINED]
        self._averaged = [one for one in order if one[0].role is Role.AVERAGED]
        self._private = [one for one in order if one[0].role is Role.PRIVATE]
        self.private_trained = [one[1] for one in self._private if isinstance(one[1], nn.Parameter)]
        self.problem = declared.problem(self.entries)
        fixed = [one[1] for one in order if one[0].role in _FIXED]
        self._fixed = [(tensor, tensor.detach().clone()) for tensor in fixed]
        self._parameters = [(one[1], one[1].requires_grad) for one in order if isinstance(one[1], nn.Parameter)]
        self._shapes = [(one[1], one[1].shape, one[1].dtype) for one in order]
        self._memory = Memory(network, [one[1] for one in order])

    @cached_property
    def layout(self) -> Layout:
        """The layout of the vector."""
        travel = (one for one in self.entries if one.role in (Role.TRAINED, Role.AVERAGED))
        return Layout.of((one.dtype, one.numbers) for one in travel)

    @property
    def averaged(self) -> list[Tensor]:
        """The averaged tensors as they are now: a module may have put others in the place of those that were built.

        Raises ValueError if one has got another shape or type.
        """
        return _now(self._averaged)

    @property
    def private(self) -> list[Tensor]:
        """The private tensors as they are now. Raises ValueError as `averaged` does."""
        return _now(self._private)

    @cached_property
    def private_layout(self) -> Layout:
        """The layout of the private numbers."""
        return Layout.of((one[0].dtype, one[0].numbers) for one in self._private)

    def restore(self) -> bool:
        """Put back what does not travel; return false if the network must be built again for it."""
        if not all([tensor.shape == shape and tensor.dtype == dtype for tensor, shape, dtype in self._shapes]):
            return False
        for tensors, name, tensor in self._slots:
            if tensors.get(name) is not tensor:
                tensors[name] = tensor
        for parameter, requires_grad in self._parameters:
            if parameter.requires_grad is not requires_grad:
                parameter.requires_grad_(requires_grad)
            parameter.grad = None
        with torch.no_grad():
            for tensor, built in self._fixed:
                tensor.copy_(built)
        return self._memory.restore()

    def differing(self, other: "State") -> str:
        """The name of a private, frozen or kept tensor that has other numbers than in `other`, the same network; or
        ""."""
        names = [entry.name for entry in self.entries if entry.role in _FIXED]
        pairs = zip(names, self._fixed, other._fixed, strict=True)
        return next((name for name, own, theirs in pairs if _bytes(own[1].cpu()) != _bytes(theirs[1].cpu())), "")

    def adopt(self, other: "State") -> None:
        """Take the frozen and kept tensors of `other`, the state of the same network, also for later restoring."""
        self._fixed = [(own[0], theirs[1]) for own, theirs in zip(self._fixed, other._fixed, strict=True)]


def _now(those: list[tuple[Entry, Tensor, dict[str, Tensor | None], str]]) -> list[Tensor]:
    """The tensors that are now in the places of `those` that were built. Raises ValueError for another shape or
    type."""
    found = []
    for entry, built, tensors, name in those:
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != built.shape or tensor.dtype != built.dtype:
            now = "None" if tensor is None else f"{tensor.dtype} {tuple(tensor.shape)}"
            raise ValueError(f"buffer {entry.name} was built as {entry.dtype} {entry.shape} and is now {now}")
        found.append(tensor)
    return found


class _Declared:
    """The roles that patterns of a spec declare. A pattern fits names in the state dict, the names of modules, or with
    ``type:`` in front the types of modules."""

    def __init__(self, spec: ModelSpec) -> None:
        self._patterns = [
            (key, role, pattern)
            for key, role in (("private", Role.PRIVATE), ("frozen", Role.FROZEN), ("kept", Role.KEPT))
            for pattern in getattr(spec, key)
        ]
        self._fitted: dict[tuple[str, str], list[str]] = {(key, pattern): [] for key, _, pattern in self._patterns}
        self._problem: SettingError | None = None

    def role(self, name: str, module: nn.Module, default: Role) -> Role:
        """The role of a tensor whose role is the `default` if no pattern fits it."""
        found = default
        for key, role, pattern in self._patterns:
            if not _fits(pattern, name, module):
                continue
            self._fitted[key, pattern].append(name)
            if role is Role.KEPT and default in (Role.TRAINED, Role.FROZEN):
                problem = f"fits {name}, which is a parameter and no buffer"
                self._problem = self._problem or SettingError(key, pattern, problem)
            elif default in (Role.FROZEN, Role.KEPT):
                continue  # it stays at all parties as it is built
            else:
                declared = Role.KEPT if default is Role.AVERAGED and role is Role.FROZEN else role
                if found not in (default, declared):
                    self._problem = self._problem or SettingError(key, pattern, f"fits {name}, which is {found.value}")
                found = declared
        return found

    def problem(self, entries: tuple[Entry, ...]) -> SettingError | None:
        """The first mistake in the patterns, or None."""
        for (key, pattern), names in self._fitted.items():
            if not names:
                known = [entry.name for entry in entries if entry.role is not Role.KEPT]
                shown = ", ".join(known[:_SHOWN]) + (f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else "")
                return SettingError(key, pattern, f"fits no tensor of the network; it has {shown}")
        return self._problem


_SHOWN = 12
"""The most tensors that an error names."""


def _fits(pattern: str, name: str, module: nn.Module) -> bool:
    if pattern.startswith("type:"):
        return fnmatchcase(type(module).__name__, pattern.removeprefix("type:"))
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")


def _role(module: nn.Module, name: str, tensor: Tensor, is_parameter: bool) -> Role:
    if is_parameter:
        return Role.TRAINED if tensor.requires_grad else Role.FROZEN
    persistent = name not in module._non_persistent_buffers_set
    return Role.AVERAGED if persistent and tensor.is_floating_point() else Role.KEPT


def cached(spec: ModelSpec, device: torch.device, role: str = "student") -> NeuralNetwork:
    """The network for `spec` on `device`, as it was built, except for the tensors that travel: `load` them.

    It is built once in this process, and put back into that state at each call. Each `role` has a separate network.
    """
    key = (spec, builder(spec), str(device), role)
    network = _networks.get(key)
    if network is None:
        network = _networks[key] = quickened(fresh(spec, device))
        if len(_networks) > _ROOM:
            _networks.popitem(last=False)
    elif not _states[network].restore():
        before, network = _states[network], quickened(fresh(spec, device))
        _states[network].adopt(before)
        _states[network].restore()
        _networks[key] = network
    _networks.move_to_end(key)
    return network


def fresh(spec: ModelSpec, device: torch.device) -> NeuralNetwork:
    """A network for `spec` on `device` that nobody else uses, as it was built."""
    with seeded(torch.device("cpu"), 0):
        network = _begun(spec).to(device)
    _states[network] = _checked(spec, State(network))
    return network


def _checked(spec: ModelSpec, state: State) -> State:
    """Raise ModelError if the network has nothing to train, or a vector cannot hold its numbers; returns its state."""
    where = f"model {spec.name!r}"
    if state.problem:
        raise state.problem
    if not state.trained:
        why = "all are private" if state.private_trained else "none requires gradients"
        raise ModelError(f"{where} has no parameter to train for all clients: {why}")
    for entry in state.entries:
        if entry.role in (Role.TRAINED, Role.AVERAGED, Role.PRIVATE) and entry.dtype not in WIDTHS:
            known = ", ".join(WIDTHS)
            raise ModelError(
                f"{where}: {entry.name} is of type {entry.dtype}; what is trained, averaged or private must be {known}"
            )
    return state


def _state(network: NeuralNetwork) -> State:
    state = _states.get(network)
    if state is None:
        state = _states[network] = State(network)
    return state


def entries(network: NeuralNetwork) -> tuple[list[Tensor], list[Tensor]]:
    """The trained and the averaged tensors, in the vector's order."""
    state = _state(network)
    return state.trained, state.averaged


def stepped(network: NeuralNetwork) -> list[Tensor]:
    """The tensors that local training moves: the trained ones, in the vector's order, then the private ones."""
    state = _state(network)
    return state.trained + state.private_trained


def private_numbers(network: NeuralNetwork) -> bytes:
    """The numbers of the private tensors, as `join` writes them; b"" without any."""
    state = _state(network)
    return join(state.private) if state.private_layout.numbers else b""


def load_private(network: NeuralNetwork, data: bytes) -> None:
    """Load the private numbers `data` into `network`; b"" leaves them as built. Raises ValueError for another
    length."""
    if data:
        _load(_state(network).private, data, f"private parameters of {network.spec.name}")


def join(tensors: list[Tensor]) -> bytes:
    """Concatenate the numbers of `tensors`, little-endian, each in its own width."""
    return b"".join([_bytes(tensor.detach().cpu()) for tensor in tensors])


def _bytes(tensor: Tensor) -> "memoryview | bytes":
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.contiguous().view(torch.uint16)  # numpy has no such type
    numbers = tensor.numpy()
    return np.ascontiguousarray(numbers, numbers.dtype.newbyteorder("<")).data


def split(data: bytes, like: list[Tensor], what: str) -> list[Tensor]:
    """Split `data`, written by `join`, into tensors with the shapes, the types and the device of `like`.

    Raises ValueError, naming `what`, if the number of bytes differs.
    """
    # Copies, aligned by torch: on numbers at other addresses some operations round differently.
    return [part.clone().to(tensor.device) for part, tensor in zip(_parts(data, like, what), like, strict=True)]


def _parts(data: bytes, like: list[Tensor], what: str) -> list[Tensor]:
    """The numbers of `data` in the shapes and types of `like`, on the processor."""
    counts, kinds = [tensor.numel() for tensor in like], {tensor.dtype for tensor in like}
    if len(data) != sum(count * tensor.element_size() for count, tensor in zip(counts, like, strict=True)):
        Layout.of((_type(tensor), tensor.numel()) for tensor in like).check(data, what)
    if len(kinds) == 1 and data:  # nearly always: then one copy is enough
        whole = torch.from_numpy(np.frombuffer(data, np.uint8).copy()).view(kinds.pop())
        return [part.view(tensor.shape) for part, tensor in zip(whole.split(counts), like, strict=True)]
    found, at = [], 0
    for tensor in like:
        numbers = np.frombuffer(data, np.uint8, tensor.numel() * tensor.element_size(), at)
        found.append(torch.from_numpy(numbers.copy()).view(tensor.dtype).view(tensor.shape))
        at += len(numbers)
    return found


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def flatten(network: NeuralNetwork) -> bytes:
    """The vector of the network."""
    trained, averaged = entries(network)
    return join(trained + averaged)


def load(network: NeuralNetwork, data: bytes) -> None:
    """Load the vector `data` into `network`, without gradients.

    Raises ValueError if its length is not the network's.
    """
    trained, averaged = entries(network)
    _load(trained + averaged, data, f"parameters of {network.spec.name}")


def _load(tensors: list[Tensor], data: bytes, what: str) -> None:
    values = _parts(data, tensors, what)
    with torch.no_grad():
        if tensors:
            torch._foreach_copy_(tensors, values)
        for tensor in tensors:
            tensor.grad = None  # an update that failed may have left one


def loaded(spec: ModelSpec, device: torch.device, data: bytes, role: str = "student") -> NeuralNetwork:
    """The network of `cached` with the vector `data`. Raises ValueError if its length is not the network's."""
    network = cached(spec, device, role)
    load(network, data)
    return network


def initial(spec: ModelSpec, seed: int | bytes) -> bytes:
    """The vector of a new network, from its file of weights, or drawn from the stream (seed, "initial")."""
    with seeded(torch.device("cpu"), seed, "initial"):
        return flatten(_begun(spec))


def _begun(spec: ModelSpec) -> NeuralNetwork:
    """A new network with the weights of its file, if it has one. Raises Problem for a file that does not fit."""
    network = build(spec)
    if spec.weights is not None:
        load_weights(network, spec.weights)
    return network


@lru_cache(maxsize=64)
def _metric_names(spec: ModelSpec, task: Task) -> tuple[str, ...]:
    network = cached(spec, choose_device("cpu")).eval()
    with torch.inference_mode(), seeded(torch.device("cpu"), 0):
        outputs = network(torch.zeros(2, *spec.shape)).float().numpy()
    return tuple(task.metrics(outputs, task.blank(spec, 2).numpy()))


def metric_names(spec: ModelSpec) -> tuple[str, ...]:
    """The names of the metrics of the network's task, found by two points of zeros."""
    return _metric_names(spec, task_of(spec.task))


def finished(spec: ModelSpec, data: bytes) -> nn.Module:
    """A network with the vector `data`, in evaluation mode, which no job changes: the user's own module, if it is one.

    With `ModelSpec.mean`, points are standardised outside of that module.
    """
    with seeded(torch.device("cpu"), 0):
        network = _begun(spec)
    load(network, data)
    network.eval()
    return network.body if network.prefix else network


def named(spec: ModelSpec) -> list[Named]:
    """The tensors of the vector, in its order, by their names in the state dict."""
    travel = (one for one in entries_of(spec) if one.role in (Role.TRAINED, Role.AVERAGED))
    return [Named(one.name, one.shape, one.dtype) for one in travel]


def size(spec: ModelSpec) -> int:
    """The length of the vector, in numbers."""
    return layout(spec).numbers


def trained_size(spec: ModelSpec) -> int:
    """The number of trained numbers in the vector, which come first."""
    return trained_layout(spec).numbers


def layout(spec: ModelSpec) -> Layout:
    """The types and widths of the vector's numbers."""
    return _layouts(spec, builder(spec))[0]


def trained_layout(spec: ModelSpec) -> Layout:
    """The layout of the trained numbers, which come first."""
    return _layouts(spec, builder(spec))[1]


def private_layout(spec: ModelSpec) -> Layout:
    """The layout of the private numbers, which stay with each client."""
    return _state(cached(spec, choose_device("cpu"))).private_layout


def entries_of(spec: ModelSpec) -> tuple[Entry, ...]:
    """The tensors of the network's state: the trained ones, then the averaged, the frozen and the kept ones."""
    return _state(cached(spec, choose_device("cpu"))).entries


@lru_cache(maxsize=64)
def _layouts(spec: ModelSpec, built_by: Callable[[ModelSpec], Parts]) -> tuple[Layout, Layout]:
    state = _state(cached(spec, choose_device("cpu")))
    return state.layout, state.layout.first(sum(tensor.numel() for tensor in state.trained))


@lru_cache(maxsize=64)
def feature_count(spec: ModelSpec) -> int:
    """The number of features that the network computes for a point."""
    network = cached(spec, choose_device("cpu"))
    with torch.no_grad(), seeded(torch.device("cpu"), 0):
        return int(network.eval().embed(torch.zeros(1, *spec.shape)).shape[1])


def check(spec: ModelSpec) -> None:
    """Raise PluginError if a plugin's network cannot be built or trained, or does not fit its inputs and classes.

    A batch of two points of zeros passes through it, forward and back. The network must be the same each time that it
    is built, apart from what travels. Raises ModelError for any network that has nothing to train, or numbers that no
    vector can hold.
    """
    networks.check(spec)
    if spec.weights is not None:
        with seeded(torch.device("cpu"), 0):
            _begun(spec)  # so that no error in the file is said to be one of the network
    device = choose_device("cpu")
    with networks.blamed(spec, "cannot be trained"):
        network = cached(spec, device)
        if MODELS[spec.name].build is None and not any(one.name == spec.task for one in TASKS.added()):
            return
        inputs, task = torch.zeros(2, *spec.shape), task_of(spec.task)
        with seeded(device, 0):
            batch = Batch(inputs, task.blank(spec, 2), 2, network, lambda augmentation="none": inputs)
            losses = task.loss(network, batch)
            if not isinstance(losses, Tensor) or losses.shape not in ((), (2,)):
                given = f"of the shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else f"{losses!r:.80}"
                raise ValueError(
                    f"the task {spec.task!r} must give the loss of each point, (2,) for two points, or their mean, (), "
                    f"as a tensor, not {given}"
                )
            losses.mean().backward()
        entries(network)
        again = _states[fresh(spec, device)]
        state = _states[cached(spec, device)]
        if again.entries != state.entries:
            raise ValueError("it has other parameters and buffers each time that it is built")
        if other := again.differing(state):
            wanted = "draw its numbers from the global generator of torch, numpy or Python, or from one with a seed"
            raise ValueError(f"{other} is not sent, and has other numbers each time that it is built: {wanted}")


def least_batch(spec: ModelSpec) -> int:
    """The fewest points with which the network can be trained: 2 if it normalises each number over a batch, else 1."""
    return _least_batch(spec, builder(spec))


@lru_cache(maxsize=64)
def _least_batch(spec: ModelSpec, built_by: Callable[[ModelSpec], Parts]) -> int:
    network = fresh(spec, choose_device("cpu"))  # a job may be at work with the cached one
    with torch.no_grad(), seeded(torch.device("cpu"), 0):
        try:
            if network(torch.zeros(1, *spec.shape)).isfinite().all():
                return 1
        except Exception:  # "Expected more than 1 value per channel when training", or that of somebody's own layer
            pass
        return 2 if network(torch.zeros(2, *spec.shape)).isfinite().all() else 1
