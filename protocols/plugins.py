"""The functions by which plugins add things; built-in things are in the same registries.

A plugin is one Python file. It is imported before the scenario is read, in each process that runs a part of it;
scenarios can then name its additions. A name that is taken, or something of the wrong kind, is an error at the line
that adds it. Plugins import these functions from `tacit`.

>>> from tacit import ServerUpdate, add_server_update
>>> class Half(ServerUpdate):
...     def step(self, state, model, mean):
...         return (model + mean) / 2, ()
>>> add_server_update("half", "the mean of the old model and the new one", server=Half())  # doctest: +SKIP
"""

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tacit.parties.data.dataset import Dataset
from tacit.parties.data.sets import DATASETS, READERS, Own
from tacit.parties.datasets.catalogue import About
from tacit.parties.learning import learners, spec
from tacit.parties.learning.fits import FITS, Fit, FitData, FitKind, FitSettings
from tacit.parties.learning.learner import Learner
from tacit.parties.learning.local_update import Active, Addition, Run
from tacit.parties.learning.spec import LEARNERS, MODELS, ModelSpec
from tacit.parties.learning.tasks import TASKS, Batch, Classification, MultiLabel, NextToken, Regression, Task, TaskKind
from tacit.protocols.declaration import check_keys
from tacit.protocols.federated.algorithms import Update
from tacit.protocols.federated.method import Averaged, Companion, ServerUpdate
from tacit.protocols.federated.registry import UPDATES
from tacit.protocols.own_classes import check_class
from tacit.protocols.parts import Step
from tacit.protocols.sums.keys import CollusionKeys, DropoutKeys, SumKeys
from tacit.protocols.sums.registry import SUMS, own_keys
from tacit.protocols.sums.sum import Requests, Sum
from tacit.protocols.xclp.hamming import SecureHamming
from tacit.protocols.xclp.keys import ROW_SUMS, VARIANTS
from tacit.protocols.xclp.rowsums import STEPS, SecureRowSums
from tacit.protocols.xclp.variants import Beside, HammingOptions, RowSums, Variant
from tacit.sim.table import joined
from tacit.sim.wire import Message

if TYPE_CHECKING:
    from tacit.parties.learning.backend import nn

__all__ = [
    "Active",
    "Addition",
    "Averaged",
    "Batch",
    "Classification",
    "Companion",
    "Dataset",
    "FitData",
    "FitSettings",
    "HammingOptions",
    "Learner",
    "ModelSpec",
    "MultiLabel",
    "NextToken",
    "Regression",
    "Run",
    "SecureHamming",
    "SecureRowSums",
    "ServerUpdate",
    "Sum",
    "Task",
    "add_dataset",
    "add_fit",
    "add_hamming",
    "add_learner",
    "add_model",
    "add_row_sums",
    "add_server_update",
    "add_sum",
    "add_task",
]


def add_model(
    name: str,
    description: str,
    build: "Callable[[ModelSpec], nn.Module | tuple[nn.Module, nn.Module]]",
    *,
    smallest: int = 0,
    channels: int = 0,
    normalised: bool = False,
) -> None:
    """Add a network for `model.name`: `build` makes it, as one torch module, from a spec (shape, classes, task).

    Protocols that use features of points (XCLP, `fedavg+xclp`) need two modules instead, the body and the last, linear
    layer: the body computes the features, which are scaled to length 1 if `normalised`. `smallest` is the least height
    and width of an image, `channels` the required number of channels, 0 for any. Raises TypeError and ValueError.
    """
    _check("build", build, callable(build), "a function of a ModelSpec")
    _check_text(description)
    MODELS.add(name, spec.ModelKind(description, smallest, channels, False, normalised, build))


def add_task(name: str, description: str, task: Task) -> None:
    """Add a task for `training.task`: an object of a class derived from `Task`, with `loss` and `metrics`.

    Raises TypeError and ValueError.
    """
    _check("task", task, isinstance(task, Task), "an object of a class derived from Task")
    _check("loss", task, type(task).loss is not Task.loss, "a task with a method `loss(model, batch)`")
    _check_text(description)
    check_class(type(task))
    TASKS.add(name, TaskKind(description, task))


def add_fit(name: str, description: str, fit: Fit, *, passes: float = 1.0) -> None:
    """Add local training of your own for `training.fit`: `fit(model, data, settings, generator)` trains `model`.

    It replaces the loop over batches of one client in one round. `model` is the network with the numbers that the
    client received, `data` a `FitData`, `settings` a `FitSettings`, and `generator` a torch.Generator for shuffling,
    the same in each repetition; the global generators are seeded, too. It changes the model and returns its figures by
    name: "loss" is reported and averaged. `passes` is its work for virtual time, as a multiple of that of the loop.
    Raises TypeError and ValueError.
    """
    _check("fit", fit, callable(fit), "a function of model, data, settings and generator")
    _check("passes", passes, isinstance(passes, int | float) and 0 < passes < float("inf"), "a number > 0")
    _check_text(description)
    FITS.add(name, FitKind(description, fit, float(passes)))


def add_learner(name: str, description: str, learner: Callable[..., Learner], *, texts: bool = False) -> None:
    """Add a learner of co-training for `learner.name`: a frozen dataclass with the methods of `Learner`.

    Its fields are `columns` and `classes`, or `classes` and `device` if it reads `texts`, and options with defaults,
    which are read from the keys of [learner] with the same names. Raises TypeError and ValueError.
    """
    is_class = isinstance(learner, type) and hasattr(learner, "__dataclass_fields__")
    _check("learner", learner, is_class, "a dataclass")
    _check_methods("learner", learner, ("initial", "fit", "predict", "probabilities", "fit_work", "predict_work"))
    _check_text(description)
    LEARNERS.add(name, learners.LearnerKind(description, learner, texts=texts))


def add_server_update(
    name: str,
    description: str,
    *,
    client: Addition | None = None,
    beside: Callable[[], Companion] = Companion,
    server: ServerUpdate | None = None,
) -> None:
    """Add a way to train for `training.update`, which can be combined with every federated algorithm.

    `client` is a term in the clients' training (as FedProx's), `beside` makes its server side, which handles vectors
    sent beside the model (by default none), and `server` is the server's step from the mean of the models. Raises
    TypeError and ValueError.
    """
    _check("client", client, client is None or isinstance(client, Addition), "an Addition")
    _check("server", server, server is None or isinstance(server, ServerUpdate), "a ServerUpdate")
    _check("beside", beside, callable(beside), "a function or class that makes a Companion")
    _check_text(description)
    for part in (client, server):
        check_class(type(part))
    additions = () if client is None else ((client, beside),)
    UPDATES.add(name, Update(description, lambda mu: additions, server))


def add_dataset(
    name: str, description: str, read: Callable[[], Dataset], *, terms: str = "", shuffle: bool = True
) -> None:
    """Add a data set for `data.name`: `read` returns all its rows, the same ones in each call.

    It is called whenever a run needs them: cache slow results. The rows are put into a fixed order that looks random,
    the same for all seeds, as those of fetched data sets: files are often in the order of their classes. `shuffle`
    false leaves them as they are, such as in the order of time. The last fifth of them is the test part. A run checks
    types, shapes, labels, clients and names (see `Dataset`). Raises TypeError and ValueError.
    """
    _check("read", read, callable(read), "a function that returns a Dataset")
    _check_text(description)
    DATASETS.add(name, About(description, 0, 0, 0, (), terms))
    READERS.add(name, Own(name, read, bool(shuffle)))


def add_hamming(
    name: str,
    description: str,
    make: Callable[[HammingOptions], SecureHamming],
    messages: Sequence[type[Message]],
    *,
    payloads: Callable[[HammingOptions, Mapping[str, int]], dict[str, int]] | None = None,
) -> None:
    """Add a variant of SecureHamming for `protocol.hamming`: `make` builds it from the keys of [protocol].

    `messages` are its own message types, which faults may name; `payloads` gives their bytes by type, from the number
    of each client's points, for `tacit bytes`. Raises TypeError and ValueError.
    """
    _check("make", make, callable(make), "a function of HammingOptions")
    _check_text(description)
    VARIANTS.add(name, Variant(description, make, _message_types(messages), payloads))


def add_row_sums(
    name: str,
    description: str,
    make: Callable[[int | None], SecureRowSums],
    *,
    steps: Sequence[Step] = STEPS,
    messages: Sequence[type[Message]] = (),
    payloads: Callable[[Collection[str]], dict[str, int]] = lambda clients: {},
) -> None:
    """Add a strategy of SecureRowSums for `protocol.recovery`: `make` builds it from `protocol.threshold`.

    `steps` are all its steps, `messages` its types in addition to those of `tacit.protocols.xclp.rowsums`, and
    `payloads` the bytes of these, from the clients' names. Raises TypeError and ValueError.
    """
    _check("make", make, callable(make), "a function of the threshold")
    _check("steps", steps, all(isinstance(step, Step) for step in steps), "Steps")
    _check_text(description)
    ROW_SUMS.add(name, RowSums(description, make, tuple(steps), name, Beside(_message_types(messages), payloads)))


def add_sum(name: str, description: str, kind: type[Sum]) -> None:
    """Add a secure sum of vectors for `training.averaging` and all else that sums: a class derived from `Sum`.

    The class says in `takes` its steps, in `requests` the messages of the server that a client waits for, in `masked`
    those by which a client's masked values leave it, and has the methods `client` and `server`, and `helper` with
    `has_helper`. Its `keys`, a struct that derives from `CollusionKeys` or `DropoutKeys`, are part of the table [sum].
    Raises TypeError and ValueError.
    """
    _check("kind", kind, isinstance(kind, type) and issubclass(kind, Sum), "a class derived from Sum")
    _check_text(description)
    if name == "plain":
        raise ValueError(f"there is a way to average {name!r} already, which comes with Tacit; choose another name")
    for method in ("client", "server", *(("helper",) if kind.has_helper else ())):
        if getattr(kind, method) is getattr(Sum, method):
            raise TypeError(f"the sum {kind.__qualname__} does not say what the {method} does: it needs a {method}")
    requests, masked = getattr(kind, "requests", None), getattr(kind, "masked", ())
    _check("requests", requests, isinstance(requests, Requests), "Requests(done, others)")
    _check("masked", masked, len(_message_types(masked)) > 0, "types of Message, the first of which the server gets")
    check_class(kind)
    _check_keys_of(kind)
    SUMS.add(name, kind)
    kind.name, kind.description = name, description


def _check_keys_of(kind: type[Sum]) -> None:
    """Raise TypeError and ValueError for keys that [sum] cannot have, or that are not those of the program of a sum."""
    _check("keys", kind.keys, isinstance(kind.keys, type) and issubclass(kind.keys, CollusionKeys), "a CollusionKeys")
    if kind.tolerates_share and not issubclass(kind.keys, DropoutKeys):
        raise TypeError(f"keys of {kind.__qualname__} must derive from DropoutKeys, or tolerates_share must be False")
    check_keys(kind.keys)
    joined("SumKeys", "", SumKeys, *own_keys(), kind.keys)


def _check(name: str, value: object, holds: bool, wanted: str) -> None:
    if not holds:
        raise TypeError(f"{name}(={value!r}) must be {wanted}")


def _check_text(description: object) -> None:
    _check("description", description, isinstance(description, str), "text")


def _check_methods(name: str, value: Callable[..., object], wanted: Sequence[str]) -> None:
    if lacking := [method for method in wanted if not callable(getattr(value, method, None))]:
        others = [one for one in vars(value) if one not in wanted]
        close = {method: difflib.get_close_matches(method, others, 1, 0.75) for method in lacking}
        said = [f"{method} (did you mean {close[method][0]}?)" if close[method] else method for method in lacking]
        raise TypeError(f"the {name} {value.__qualname__} has no {', '.join(said)}")


def _message_types(messages: Sequence[Any]) -> tuple[type[Message], ...]:
    for kind in messages:
        _check("messages", kind, isinstance(kind, type) and issubclass(kind, Message), "types of Message")
    return tuple(messages)
