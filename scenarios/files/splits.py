"""The points of a run: the clients' points, and those held out for measuring models."""

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import numpy as np
import psutil

from tacit.parties.data.checking import check_form, check_part
from tacit.parties.data.files import is_outline
from tacit.parties.data.sets import Dataset, drawn, load, load_drawn, load_file, load_split
from tacit.parties.data.splits import Shard, Shards, named, shards
from tacit.parties.datasets.content import DataError, DataSettingError
from tacit.parties.fleet.fleet import Fleet
from tacit.parties.learning.extras import MissingExtra
from tacit.parties.learning.tasks import TASKS, task_of
from tacit.protocols.experiment.experiment import Parts
from tacit.protocols.registry import PROTOCOLS
from tacit.scenarios.console.progress import progress
from tacit.scenarios.schema.scenario import Data, Scenario, ScenarioError
from tacit.sim.setting_error import Problem
from tacit.sim.streams import generator
from tacit.sim.toml_text import toml
from tacit.sim.units import format_bytes

__all__ = [
    "Material", "at_data_key", "checked_material", "data_of", "dealt", "fleet_of", "material_of",
    "parts_at_hand", "parts_of", "split", "split_data",
]  # fmt: skip

_at_hand: list[Parts] = []

_PLACEHOLDER = Dataset("none", np.zeros((1, 1)), np.zeros(1, np.int64), ("none",))
"""The data of clients, one point each, for a protocol that needs no points."""


PER_CLIENT = 12_000
"""The fewest bytes of memory that a client takes, with its links and its part of the record."""


@dataclass(frozen=True)
class Material:
    """The data of a scenario, the shares of clients, also by their names, and the devices and links."""

    parts: Parts
    shards: Shards
    named: Mapping[str, Shard]
    fleet: Fleet


def dealt(scenario: Scenario, *, clients_given: bool, evaluation_given: bool) -> tuple[Scenario, Material]:
    """Read the data of a checked `scenario` and deal them; return it with the values that the data determine.

    `clients_given`, `evaluation_given`: as in `checks.check`. Raises ScenarioError, without a file's name, and Problem.
    """
    data = scenario.data
    try:
        parts = parts_of(scenario)
    except Problem:
        raise
    except ValueError as error:  # a DataError, or an invalid file name
        raise at_data_key(error, "path" if data.path else "name") from None
    except MissingExtra as missing:
        raise ScenarioError("", "data.features", str(missing)) from None
    held, outlined = parts.held, bool(data.path) and is_outline(parts.held)
    if outlined and data.partition != "natural":
        problem = f"{toml(data.partition)} deals rows out, and those of an outline belong to the clients"
        raise Problem("data.partition", f'{problem} that it names; allowed: "natural"')
    if data.partition == "natural" and not clients_given and held.client_names:
        data = msgspec.structs.replace(data, clients=len(held.client_names))
        scenario = msgspec.structs.replace(scenario, data=data)
    if not evaluation_given and parts.test is None and outlined:
        scenario = _tested_by_clients(scenario)
    if data.clients > len(held.labels):
        problem = f"{data.clients} is too large for {len(held.labels)} points; allowed: 1 to {len(held.labels)}"
        raise ScenarioError("", "data.clients", problem)
    try:
        shares = split(held, data_of(scenario), scenario.seed)
    except DataError as error:
        raise at_data_key(error, "partition") from None
    material = Material(parts, shares, named(shares), Fleet(scenario))
    _last[:] = [(weakref.ref(scenario, _forget), material)]
    return scenario, material


_HELD_OUT = 0.2
"""The share of labeled points that the clients of a private study hold out by default."""


def _tested_by_clients(scenario: Scenario) -> Scenario:
    """The scenario with evaluation by clients, if its protocol has it and no privacy forbids it."""
    uses, privacy = PROTOCOLS[scenario.protocol.name].uses, scenario.privacy
    noisy = privacy.label_epsilon != "none" or privacy.votes_epsilon != "none"
    if "data.held_out" not in uses or "privacy.epsilon" in uses or noisy:
        return scenario
    data = msgspec.structs.replace(scenario.data, held_out=scenario.data.held_out or _HELD_OUT)
    return msgspec.structs.replace(
        scenario, data=data, training=msgspec.structs.replace(scenario.training, evaluation="plain")
    )


def at_data_key(error: ValueError, key: str) -> ScenarioError:
    """The error at the data setting that it concerns, if it names one, otherwise at `key`."""
    if isinstance(error, DataSettingError):
        return ScenarioError("", f"data.{error.key}", f"{error.shown} {error.problem}")
    return ScenarioError("", f"data.{key}", str(error))


_last: list[tuple[weakref.ref[Scenario], Material]] = []
"""The material of the scenario that was last checked, until it is run or deleted; `material_of` returns it."""


def _forget(dead: weakref.ref[Scenario]) -> None:
    _last[:] = [one for one in _last if one[0] is not dead]


def material_of(scenario: Scenario, parts: Parts | None = None, *, taken: bool = False) -> Material:
    """The data, shares and devices of `scenario`, from its check or read now; or those of other `parts`.

    `taken`: the caller runs the scenario and owns the material alone, because hosts of the fleet count running jobs.
    Raises DataError and Problem.
    """
    found = checked_material(scenario) if parts is None else None
    if found is None:
        parts = parts or parts_of(scenario)
        shares = split(parts.held, data_of(scenario), scenario.seed)
        found = Material(parts, shares, named(shares), Fleet(scenario))
    elif taken:
        _last.clear()
    return found


def checked_material(scenario: Scenario) -> Material | None:
    """The data, shares and devices of `scenario` from its check; None if another one was checked since, or it was
    run."""
    return None if _at_hand else next((material for kept, material in _last if kept() is scenario), None)


def fleet_of(scenario: Scenario) -> Fleet:
    """The devices and links of `scenario`, from its check or listed now; no data are read. Raises Problem."""
    return next((material.fleet for kept, material in _last if kept() is scenario), None) or Fleet(scenario)


@contextmanager
def parts_at_hand(parts: Parts) -> Iterator[None]:
    """Inside this context the data of every scenario are `parts`, which another machine has read for the current
    scenario."""
    _at_hand.append(parts)
    try:
        yield
    finally:
        _at_hand.pop()


def parts_of(scenario: Scenario) -> Parts:
    """The data in the form for the scenario's protocol.

    Models are trained on the training part only, and tested on the test part of a named data set, or on `data.test`
    rows; `data.limit` bounds both. The public points are first removed from the training part; then, for training,
    `training.validation` is drawn from the stream (seed, "validation"), except from an outline, whose points nobody can
    select a model by. With an [attack], half of the rest is the
    attacker's. Raises DataError, and Problem if the attacker has too few points.
    """
    if _at_hand:
        return _at_hand[-1]
    parts = _parts_of(scenario)
    if PROTOCOLS[scenario.protocol.name].needs.classes:
        where, name = scenario.data.path or f"data set {scenario.data.name!r}", scenario.training.task
        if name in TASKS:  # else the check of keys says so
            fitting = [one for one, kind in TASKS.items() if kind.task.form == parts.held.form]
            check_form(parts.held, task_of(name).form, f"the task {name!r}", fitting, where)
        check_part(parts.held, "the training part" if parts.test is not None else "the data", where)
        if parts.test is not None:
            check_part(parts.test, "the test part", where)
    if scenario.attack.kind and parts.held.targets is not None:
        problem = f"needs probabilities of classes, and training.task = {toml(scenario.training.task)} has none"
        raise Problem("attack.kind", f'{toml(scenario.attack.kind)} {problem}; allowed: ""')
    if not scenario.attack.kind:
        return parts
    from tacit.protocols.experiment.probe import attacked

    return attacked(parts, scenario)


def _parts_of(scenario: Scenario) -> Parts:
    data = scenario.data
    needs = PROTOCOLS[scenario.protocol.name].needs
    if not needs.points:
        _check_memory(data.clients)
        return Parts(replace(_PLACEHOLDER, points=np.zeros((data.clients, 1)), labels=np.zeros(data.clients, np.int64)))
    if not needs.testing:
        return Parts(_all_rows(scenario))
    test: Dataset | None = None
    if data.path and data.test is None:
        held = _all_rows(scenario)
    else:
        whole, rest = load_split(data.name) if data.test is None else _test_split(scenario, data.test)
        held, test = (
            part.first(data.limit).with_features(data.features, progress, texts=needs.texts) for part in (whole, rest)
        )
    public: Dataset | None = None
    if scenario.public.size:
        from tacit.scenarios.files.public import set_apart

        source = partial(_other_source, data)
        held, public = set_apart(held, scenario.public, data.clients, scenario.seed, source)
    share, n = scenario.training.validation, len(held.labels)
    count = round(share * n) if needs.validation and not (data.path and is_outline(held)) else 0
    if not 1 <= count < n:
        return Parts(held, test, public=public)
    order = generator(scenario.seed, "validation").permutation(n)
    return Parts(held.take(np.sort(order[count:])), test, held.take(np.sort(order[:count])), public=public)


def _check_memory(clients: int) -> None:
    """Raise Problem if parties without points do not fit into the memory of this machine."""
    needed, free = clients * PER_CLIENT, psutil.virtual_memory().available
    if needed > free:
        problem = f"{clients} clients need about {format_bytes(needed)} of memory and {format_bytes(free)} are free"
        raise Problem("data.clients", f"{problem}; allowed here: 1 to {free // PER_CLIENT}")


def split_data(scenario: Scenario) -> tuple[Dataset, Shards]:
    """The clients' data, and each client's share. Raises DataError."""
    material = material_of(scenario)
    return material.parts.held, material.shards


def data_of(scenario: Scenario) -> Data:
    """The table [data] by which `scenario` splits points; nothing is held out unless clients test models."""
    tests = scenario.training.evaluation != "none" and "data.held_out" in PROTOCOLS[scenario.protocol.name].uses
    return scenario.data if tests else msgspec.structs.replace(scenario.data, held_out=0.0)


def split(held: Dataset, data: Data, seed: int) -> Shards:
    """Split `held` into the shares of clients. Raises DataError."""
    if held.name == _PLACEHOLDER.name:
        data = Data(clients=data.clients, labeled=1.0)
    names = [f"client/{i}" for i in range(data.clients)]
    for name in data.without_labels:
        if name not in names:
            raise DataSettingError("without_labels", name, f"must be clients, {names[0]} to {names[-1]}")
    return shards(
        held,
        data.clients,
        data.partition,
        data.labeled,
        seed,
        labeled_clients=data.labeled_clients,
        labels_per_client=data.labels_per_client,
        labels_of_classes=data.labels_of_classes,
        new=data.new,
        without_labels=[names.index(name) for name in data.without_labels],
        unlabeled=data.unlabeled,
        held_out=data.held_out,
    )


def _all_rows(scenario: Scenario) -> Dataset:
    """All data to distribute when no rows are held out for testing, unless `data.test` sets some."""
    data = scenario.data
    if data.test is not None:
        whole = _test_split(scenario, data.test)[0].first(data.limit)
    elif data.path:
        whole = _in_file(scenario).first(data.limit)
    else:
        whole = load(data.name, data.limit)
    return whole.with_features(data.features, progress)


def _test_split(scenario: Scenario, test: int) -> tuple[Dataset, Dataset]:
    """All rows but `test` of them, and these `test` rows, drawn with the seed. Numbers of a file are used unchanged."""
    if scenario.data.path:
        return drawn(_in_file(scenario), test, scenario.seed)
    return load_drawn(scenario.data.name, test, scenario.seed)


def _in_file(scenario: Scenario) -> Dataset:
    """The data in the file `data.path`, with labels of the form that the task learns. Raises DataError."""
    data, name = scenario.data, scenario.training.task
    learns = "training.task" in PROTOCOLS[scenario.protocol.name].uses and name in TASKS
    form = task_of(name).form if learns else "class"
    found = load_file(data.path, data.label_column, data.client_column, form=form)
    if found.targets is not None and is_outline(found):
        use = f"the task {name!r} needs the labels themselves; choose a task of classes"
        raise DataError(f"{data.path}: is an outline, which has labels of classes only; {use}")
    return found


def _other_source(data: Data, name: str) -> Dataset:
    """The training part of another data set, named `name`, with the same features."""
    return load_split(name)[0].with_features(data.features, progress)
