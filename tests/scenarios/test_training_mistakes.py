"""Invalid scenarios of federated training."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import tacit.protocols.federated.checks
from tacit import ScenarioError, load
from tacit.scenarios.files.reading import read

TRAINING_KEYS = ("rounds", "epochs", "learning_rate", "device")

MISTAKES = [
    ("protocol.name=fedavgg", "protocol.name", "did you mean fedavg?"),
    ("model.name=linaer", "model.name", "did you mean linear?"),
    ("model.name=cnn13", "model.name", "takes images of at least 12 x 12 pixels, not shape"),
    ("model.width=2.0", "model.width", "must be 1"),
    ("training.averaging=secure protocol.name=fedmatch", "training.averaging", "hides what the algorithm needs"),
    ("protocol.name=scaffold training.momentum=0.9", "training.momentum", "must be 0"),
    ("training.update=scaffold training.momentum=0.9", "training.momentum", "must be 0"),
    ("protocol.name=fedprox training.update=scaffold", "training.update", "which has its own"),
    ("data.name=breast_cancer training.augmentation=strong", "training.augmentation", "are 30 numbers; allowed"),
    ("protocol.name=fedavg+network training.label_from=9", "training.label_from", "after the last round"),
    ("protocol.name=fedbuff training.averaging=secure", "training.averaging", "each model is taken by itself; allowed"),
    ("protocol.name=fedbuff training.update=scaffold", "training.update", 'allowed: "fedavg", "fedprox"'),
    ("protocol.name=fedbuff training.buffer=5", "training.buffer", "is called once a round; allowed: 1 to 4"),
    ("protocol.name=fedbuff training.concurrency=9", "training.concurrency", "allowed: 1 to 4"),
    ("training.share=0.5 training.extra=3", "training.extra", "more clients than there are to call; allowed: 0 to 2"),
    ("training.averaging=secure training.extra=1 training.share=0.75", "training.averaging", "or training.extra = 0"),
    ("training.share=0.2 training.averaging=secure", "training.share", "needs 2"),
    ("training.min_clients=9", "training.min_clients", "9 is too large: 1 of 4 clients with labels are 4 in a round"),
    ("protocol.name=fedavg+xclp training.share=0.5", "data.clients", "0.5 of 4 clients are too few: 2 is too small"),
    ("protocol.name=fedavg+xclp protocol.k=500", "protocol.k", "is too large"),
    ("model.embedding=1000000000 model.name=linear_embedding", "model.name", "cannot be built here"),
    ("training.rounds=0", "training.rounds", "too small"),
]


@pytest.mark.parametrize(("changes", "key", "problem"), MISTAKES, ids=[key for _, key, _ in MISTAKES])
def test_invalid_keys_of_training_are_refused_in_one_line(tiny: Path, changes: str, key: str, problem: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load(tiny, ["protocol.name=fedavg", *changes.split()])
    assert caught.value.key == key and problem in str(caught.value)
    assert "\n" not in str(caught.value)


CODED = "training.averaging=lightsecagg sum.value_bits=16"
BY_COMMITTEE = "training.averaging=committee sum.value_bits=16"
FLAMINGO = "training.averaging=flamingo"
PROVED = "training.averaging=prio3 sum.value_bits=16"

IMPOSSIBLE = [
    (f"{CODED} training.min_clients=9", "training.min_clients", "9 is too large: 1 of 4 clients"),
    (f"{CODED} sum.tolerated_dropouts=0.5", "sum.tolerated_dropouts", "at most 1 may be lost; allowed: less"),
    (f"{CODED} sum.value_bits=32", "sum.value_bits", "32 is too large"),
    (f"{BY_COMMITTEE} training.min_clients=9", "training.min_clients", "9 is too large: 1 of 4 clients"),
    (
        f"{BY_COMMITTEE} sum.tolerated_dropouts=0.5",
        "sum.tolerated_dropouts",
        "the loss of 1, not of 2; allowed",
    ),
    (f"{FLAMINGO} training.min_clients=9", "training.min_clients", "9 is too large: 1 of 4 clients"),
    (
        f"{FLAMINGO} sum.decryptors=5",
        "sum.decryptors",
        "5 is more than the 4 clients of a round; allowed: 3 to",
    ),
    (f"{FLAMINGO} sum.decryptors=1", "sum.decryptors", "1 is too small; allowed: 3 or more"),
    (
        f"{FLAMINGO} sum.tolerated_dropouts=0.75",
        "sum.tolerated_dropouts",
        "of 4 decryptors 4 may be corrupt or lost, and at most 1, fewer than a third, may be",
    ),
    (
        f"{FLAMINGO} sum.corrupt_clients=0.5",
        "sum.corrupt_clients",
        "2 of 4 clients that were called may collude",
    ),
    (
        f"{FLAMINGO} sum.tolerated_dropouts=0.9",
        "sum.tolerated_dropouts",
        "0.9 leaves nobody beside the corrupt",
    ),
    (f"{PROVED} training.min_clients=9", "training.min_clients", "9 is too large: 1 of 4 clients"),
    (f"{PROVED} training.min_clients=1", "training.min_clients", "1 is too small"),
    ("training.averaging=secagg+ sum.tolerated_dropouts=0.9", "sum.tolerated_dropouts", "0.9 leaves nobody"),
    ("training.averaging=secure training.min_clients=5", "training.min_clients", "5 is too large"),
]


@pytest.mark.parametrize(("changes", "key", "problem"), IMPOSSIBLE, ids=[changes for changes, _, _ in IMPOSSIBLE])
def test_thresholds_that_no_sum_can_reach_are_refused_in_one_line(
    tiny: Path, changes: str, key: str, problem: str
) -> None:
    test_invalid_keys_of_training_are_refused_in_one_line(tiny, changes, key, problem)


def test_the_tolerance_of_decryptors_follows_from_the_tolerated_dropouts(tiny: Path) -> None:
    few = ["protocol.name=fedavg", *FLAMINGO.split(), "sum.decryptors=3"]
    assert load(tiny, [*few, "sum.tolerated_dropouts=0.2"]).sum.decryptors == 3  # one may be corrupt
    with pytest.raises(ScenarioError, match=r"sum\.decryptors: .* of 3 decryptors 2 may be corrupt or lost"):
        load(tiny, [*few, "sum.tolerated_dropouts=0.25"])


def test_models_that_do_not_fit_into_memory_are_refused_before_the_run(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = SimpleNamespace(available=4 * 650 * 10)
    monkeypatch.setattr(tacit.protocols.federated.checks.psutil, "virtual_memory", lambda: few)
    problem = r"training\.share: 4 models of 2\.60 kB at a time, of linear, need about 36\.4 kB of memory and 26 kB"
    with pytest.raises(ScenarioError, match=problem):
        load(tiny, ["protocol.name=fedavg"])
    assert load(tiny, ["protocol.name=fedavg", "training.share=0.25"]).training.share == 0.25


def test_faults_at_steps_of_other_algorithms_are_refused(tiny: Path) -> None:
    text = tiny.read_text()
    for step, name in (("hamming.evaluate", "fedavg"), ("train.label", "fedavg+mt"), ("sum.mask", "fedavg")):
        tiny.write_text(f'{text}\n[[fault]]\nkind = "crash"\nparty = "client/1"\nat = "{step}"\n')
        with pytest.raises(ScenarioError, match="is not a step"):
            load(tiny, [f"protocol.name={name}"])


def test_without_torch_the_extra_is_named(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.parties.learning import extras

    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ScenarioError, match=r"training needs torch, which is not installed: pip install .tacit-fl.train."
    ):
        load(tiny, ["protocol.name=fedavg"])
    assert load(tiny).protocol.name == "xclp"


def test_keys_of_other_algorithms_are_listed_as_unused(tiny: Path) -> None:
    assert read(tiny, ["protocol.name=fedavg"]).unused == ("protocol.hamming", "protocol.bits", "protocol.k")
    assert read(tiny, ["protocol.name=fedavg+perclient-lp"]).unused == ("protocol.hamming",)
    assert read(tiny, ["protocol.name=fedavg+xclp"]).unused == ()
    assert set(read(tiny).unused) == {"model.name", *(f"training.{key}" for key in TRAINING_KEYS)}
