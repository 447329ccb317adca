"""Training is a function of its arguments: nothing of a network outlives a job in a worker."""

import hashlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tacit.parties.learning import adam, jobs, parameters
from tacit.parties.learning.local_update import LocalData, LocalUpdate
from tacit.parties.learning.parameters import Role, cached
from tacit.parties.learning.spec import MODELS, ModelKind, ModelSpec
from tacit.protocols.federated.fedmatch import FedMatch
from tacit.protocols.federated.mean_teacher import MeanTeacher
from tacit.protocols.federated.scaffold import Scaffold
from tacit.sim.plugged import PluginError
from tacit.sim.streams import generator

torch = pytest.importorskip("torch")
SHAPE, CLASSES = (1, 8, 8), 3
UPDATE = LocalUpdate(epochs=2, labeled_batch=4, learning_rate=0.1, momentum=0.5, device="cpu")


def _zoo() -> ModuleType:
    place = importlib.util.spec_from_file_location("zoo_of_modules", Path(__file__).with_name("zoo.py"))
    assert place is not None and place.loader is not None
    module = importlib.util.module_from_spec(place)
    place.loader.exec_module(module)
    return module


ZOO = _zoo().ZOO
KINDS = {f"zoo_{name}": MODELS[f"zoo_{name}"] for name in ZOO}
NAMES = sorted(ZOO)
for known in KINDS:
    MODELS.remove(known)


@contextmanager
def known_models() -> Iterator[None]:
    """Inside this context the networks of the zoo are models."""
    for name, kind in KINDS.items():
        MODELS.add(name, kind)
    try:
        yield
    finally:
        for name in KINDS:
            MODELS.remove(name)


@pytest.fixture(autouse=True, scope="module")
def _known() -> Iterator[None]:
    with known_models():
        yield


def spec_of(name: str) -> ModelSpec:
    return ModelSpec(f"zoo_{name}", SHAPE, CLASSES)


def data(client: int) -> LocalData:
    random = generator(7, "points", client)
    return LocalData.supervised(random.random((10, *SHAPE), dtype=np.float32), random.integers(0, CLASSES, 10))


def digest(spec: ModelSpec, client: int, update: LocalUpdate = UPDATE) -> str:
    trained = jobs.train(spec, jobs.initial(spec, 1), data(client), update, 1, client)
    assert trained.steps
    return hashlib.sha256(trained.parameters + b"".join(trained.sent)).hexdigest()


def all_digests() -> list[str]:
    """The result of client 0 alone, for each network."""
    found = []
    for name in NAMES:
        parameters._networks.clear()
        found.append(digest(spec_of(name), 0))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_job_gives_the_same_bytes_alone_and_after_ten_others(name: str) -> None:
    spec = spec_of(name)
    jobs.check_network(spec)
    parameters._networks.clear()
    alone = digest(spec, 0)
    for client in range(1, 6):
        digest(spec, client)
        jobs.embed_all(spec, jobs.initial(spec, client), data(client).images, "cpu")
    assert digest(spec, 0) == alone
    answers = jobs.logits(spec, jobs.initial(spec, 1), data(0).images, "cpu")
    digest(spec, 1)
    assert np.array_equal(jobs.logits(spec, jobs.initial(spec, 1), data(0).images, "cpu"), answers)


def test_a_job_gives_the_same_bytes_in_another_process() -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_state as t"
    code += "\nwith t.known_models(): print(*t.all_digests())"
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert there == all_digests()


@pytest.mark.parametrize("addition", [MeanTeacher(), Scaffold(), FedMatch()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("name", ["bn_cumulative", "attribute_list", "lora", "half", "lstm"])
def test_additions_leave_nothing_behind(name: str, addition: MeanTeacher) -> None:
    update = LocalUpdate(epochs=2, labeled_batch=4, learning_rate=0.1, device="cpu", additions=(addition,))
    parameters._networks.clear()
    alone = digest(spec_of(name), 0, update)
    for client in (1, 2):
        digest(spec_of(name), client, update)
    assert digest(spec_of(name), 0, update) == alone


@pytest.mark.parametrize("name", ["bn_cumulative", "attribute_later", "draws_torch", "lora", "bfloat", "lstm"])
def test_adam_leaves_nothing_behind(name: str) -> None:
    def fitted(client: int) -> bytes:
        own = data(client)
        return adam.fit(
            spec_of(name), adam.initial(spec_of(name), 1), own.images, own.labels, client, 0.01, 4, 3, "cpu"
        )

    parameters._networks.clear()
    alone = fitted(0)
    assert fitted(1) != alone
    assert fitted(0) == alone


def test_frozen_numbers_are_not_sent_and_do_not_move() -> None:
    spec = spec_of("lora")
    entries = parameters.entries_of(spec)
    assert [(entry.name, entry.dtype) for entry in entries if entry.role is Role.FROZEN] == [
        ("body.table", "int8"), ("body.layer.weight", "float32"), ("body.layer.bias", "float32"),
    ]  # fmt: skip
    trained = [entry.numbers for entry in entries if entry.role is Role.TRAINED]
    assert jobs.size(spec) == jobs.trained_size(spec) == sum(trained) == 2 * 64 + 2 * 6 + 3 * 3 + 3 + 6 * 3 + 3
    network = cached(spec, torch.device("cpu"))
    before = network.body.layer.weight.clone()
    first = jobs.initial(spec, 1)
    after = jobs.train(spec, first, data(0), UPDATE, 0, 0).parameters
    assert torch.equal(network.body.layer.weight, before)
    split = {entry.name: entry for entry in entries}
    spare = split["body.spare.weight"]
    at = 4 * sum(entry.numbers for entry in entries[: entries.index(spare)])
    assert after[at : at + 4 * 9] == first[at : at + 4 * 9]  # no batch reaches it: it travels, and stays as it was
    assert after != first


def test_a_kept_counter_begins_as_built_and_floating_buffers_travel() -> None:
    roles = {entry.name: entry.role for entry in parameters.entries_of(spec_of("bn_cumulative"))}
    assert roles["body.2.num_batches_tracked"] is Role.KEPT
    assert roles["body.2.running_mean"] is Role.AVERAGED
    roles = {entry.name: entry.role for entry in parameters.entries_of(spec_of("mask"))}
    assert (roles["body.2.kept"], roles["body.2.scale"]) == (Role.KEPT, Role.KEPT)


def test_numbers_travel_in_their_own_width() -> None:
    layout = jobs.layout(spec_of("half"))
    assert layout.stretches == (("float16", 64 * 6 + 6), ("float32", 6 + 6 + 6 * 3 + 3 + 6 + 6))
    assert len(jobs.initial(spec_of("half"), 1)) == layout.size == 2 * 390 + 4 * 45


def test_a_network_with_nothing_to_train_is_refused() -> None:
    def build(spec: ModelSpec) -> tuple[Any, Any]:
        body, head = ZOO["bn"](spec)
        return body.requires_grad_(False), head.requires_grad_(False)

    MODELS.add("zoo_fixed", ModelKind("all of it is frozen", build=build))
    try:
        with pytest.raises(PluginError, match="no parameter to train"):
            jobs.check_network(ModelSpec("zoo_fixed", SHAPE, CLASSES))
    finally:
        MODELS.remove("zoo_fixed")
