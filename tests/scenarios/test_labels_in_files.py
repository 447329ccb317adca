"""Labels in CSV and NPZ files that are no classes: numbers of a regression, and several labels."""

from pathlib import Path

import numpy as np
import pytest

from tacit import ScenarioError, load, run
from tacit.parties.data.files import load_file
from tacit.parties.datasets.content import DataError
from tacit.scenarios.files.splits import parts_of

SCENARIO = """
seed = 1
engine = "inline"
[data]
path = "{path}"
label_column = "{column}"
partition = "natural"
labeled = 1.0
test = 20
[protocol]
name = "fedavg"
[model]
name = "linear"
[training]
task = "{task}"
rounds = 3
labeled_batch = 10
learning_rate = 0.1
"""

POINTS = np.random.default_rng(1).standard_normal((120, 3)).round(3)
NUMBERS = np.stack([POINTS @ [2.0, -1.0, 0.5], POINTS[:, 0]], axis=1).round(3)
SEVERAL = (POINTS[:, :2] > 0).astype(np.uint8)
CLIENTS = np.arange(120) % 3


def written(folder: Path, kind: str, labels: np.ndarray, names: tuple[str, ...], unknown: int = -1) -> Path:
    path = folder / f"own.{kind}"
    if kind == "npz":
        labels = labels.astype(np.float64) if unknown >= 0 else labels
        if unknown >= 0:
            labels[unknown] = np.nan
        np.savez(path, features=POINTS, labels=labels, clients=CLIENTS, names=np.array(names))
        return path
    rows = [",".join(("x", names[0], "y", "z", "client", *names[1:]))]
    for place, (point, own, client) in enumerate(zip(POINTS, labels, CLIENTS, strict=True)):
        first, *more = ["" if place == unknown else str(one) for one in own]
        rows.append(",".join((str(point[0]), first, str(point[1]), str(point[2]), f"site {client}", *more)))
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("kind", ["csv", "npz"])
@pytest.mark.parametrize(
    ("task", "labels", "names", "score"),
    [
        ("regression", NUMBERS[:, :1], ("height",), "rmse"),
        ("regression", NUMBERS, ("height", "weight"), "rmse"),
        ("multi-label", SEVERAL, ("red", "large"), "f1"),
    ],
    ids=["number", "numbers", "several"],
)
def test_a_file_with_other_labels_is_learned(
    tmp_path: Path, kind: str, task: str, labels: np.ndarray, names: tuple[str, ...], score: str
) -> None:
    path = written(tmp_path, kind, labels, names)
    (tmp_path / "own.toml").write_text(SCENARIO.format(path=path.name, column=", ".join(names), task=task))
    scenario = load(tmp_path / "own.toml")
    parts = parts_of(scenario)
    assert parts.held.classes == names
    every = [one.targets for one in (parts.held, parts.test, parts.validation) if one is not None]
    assert len(every) == 3 and parts.held.targets is not None
    if kind == "csv":
        assert parts.held.columns == ("x", "y", "z")
    both = np.concatenate([one for one in every if one is not None])
    if parts.held.targets.dtype == np.float32:
        np.testing.assert_allclose(np.sort(both, axis=0), np.sort(labels, axis=0), rtol=1e-6)
    result = run(scenario, out=tmp_path / "run")
    assert (result.outcome, result.score) == ("completed", score)
    first, last = (one.metrics[score] for one in (result.round_records[0], result.round_records[-1]))  # type: ignore[attr-defined]
    assert last < first if score == "rmse" else last > 0.6


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_a_missing_number_is_an_unknown_label(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path, kind, NUMBERS[:, :1], ("height",), unknown=7)
    found = load_file(path, "height", form="numbers")
    assert np.flatnonzero(found.labels < 0).tolist() == [7]
    with pytest.raises(DataError, match="is empty; every label of a row is 0 or 1"):
        load_file(written(tmp_path, kind, SEVERAL, ("red", "large"), unknown=7), "red,large", form="several")


@pytest.mark.parametrize(
    ("column", "form", "said"),
    [
        ("height, depth", "numbers", "among them 'depth'"),
        ("height,height", "numbers", "'height' is named more than once"),
        ("client", "numbers", "row 2, column 'client': 'site 0' is not a finite number"),
        ("height", "several", "row 2, label 'height': .* is neither 0 nor 1"),
    ],
)
def test_mistakes_name_row_and_column(tmp_path: Path, column: str, form: str, said: str) -> None:
    path = written(tmp_path, "csv", NUMBERS[:, :1], ("height",))
    with pytest.raises(DataError, match=said):
        load_file(path, column, "site" if column == "client" else "client", form=form)


def test_arrays_of_another_shape_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez(path, features=POINTS, labels=NUMBERS[:5])
    with pytest.raises(DataError, match=r"it must hold real numbers, \(120,\) or \(120, k\)"):
        load_file(path, form="numbers")
    np.savez(path, features=POINTS, labels=NUMBERS, names=np.array(["a"]))
    with pytest.raises(DataError, match=r"array 'names' .* it must hold text, \(2,\)"):
        load_file(path, form="numbers")


def test_an_outline_has_classes_only(tmp_path: Path) -> None:
    rows = ["client,label,x", *("0,1,0" for _ in range(10)), *("1,2,0" for _ in range(10))]
    (tmp_path / "outline.csv").write_text("\n".join(rows) + "\n")
    text = SCENARIO.format(path="outline.csv", column="label", task="regression").replace("test = 20\n", "")
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(ScenarioError, match="is an outline, which has labels of classes only"):
        load(tmp_path / "own.toml")
