import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from tacit.parties.data.sets import (
    DATASETS,
    DataError,
    MissingDataError,
    _file_of_digits,
    load,
    load_drawn,
    load_file,
    load_split,
)  # fmt: skip
from tacit.parties.datasets.catalogue import BUNDLED, CATALOGUE

CSV = "height,client,label,weight\n1.5,b,cat,2\n\n-3e2,a,,0\n0,b,ant,7\n"


def write(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def archive(folder: Path, **arrays: np.ndarray) -> Path:
    path = folder / "table.npz"
    np.savez(path, **arrays)
    return path


def error_of(path: Path, **options: str | int) -> str:
    with pytest.raises(DataError) as caught:
        load_file(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_digits_are_pixels_over_16():
    digits = load("digits")
    assert digits.features.shape == (1797, 64)
    assert digits.features.dtype == np.float64
    assert digits.features.min() == 0.0
    assert digits.features.max() == 1.0
    assert digits.labels.dtype == np.int64
    assert digits.classes == tuple("0123456789")
    assert digits.clients is None


@pytest.mark.parametrize("found", [True, False])
def test_digits_equal_those_of_scikit_learn_even_without_its_file(monkeypatch, found):
    if not found:
        monkeypatch.setattr("tacit.parties.data.sets.Path.is_file", lambda path: False)
    pixels, labels = load_digits(return_X_y=True)
    read = _file_of_digits.__wrapped__()
    assert np.array_equal(read[0], pixels) and read[0].dtype == pixels.dtype
    assert np.array_equal(read[1], labels) and read[1].dtype == labels.dtype


def test_breast_cancer_is_standardised():
    data = load("breast_cancer")
    assert data.features.shape == (569, 30)
    np.testing.assert_allclose(data.features.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(data.features.std(axis=0), 1.0)
    assert data.classes == ("malignant", "benign")


@pytest.mark.parametrize("name", BUNDLED)
def test_a_limit_keeps_the_first_rows_unchanged(name):
    whole, cut = load(name), load(name, limit=40)
    assert np.array_equal(cut.features, whole.features[:40])
    assert np.array_equal(cut.labels, whole.labels[:40])
    assert cut.classes == whole.classes
    assert len(load(name, limit=10**6).labels) == len(whole.labels)


@pytest.mark.parametrize("name", BUNDLED)
def test_the_last_fifth_is_for_testing(name):
    whole, (train, test) = load(name), load_split(name)
    assert np.array_equal(np.concatenate([train.features, test.features]), whole.features)
    assert np.array_equal(np.concatenate([train.labels, test.labels]), whole.labels)
    assert len(test.labels) == len(whole.labels) // 5


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_data_set_has_its_stated_size_shape_and_classes(name):
    whole, about = load(name), DATASETS[name]
    assert len(whole.labels) == about.train + about.test
    assert whole.features.shape[1] == np.prod(about.shape)
    assert len(whole.classes) == about.classes


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize("read", [load, load_split])
def test_a_missing_data_set_is_named_with_the_command_that_fetches_the_data(name, read, tmp_path, monkeypatch):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    with pytest.raises(MissingDataError) as caught:
        read(name)
    assert str(caught.value) == f"{name} is not on this machine; get it by: tacit data fetch {name}"


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_has_a_one_line_description(name):
    assert DATASETS[name].description
    assert "\n" not in DATASETS[name].description


def test_unknown_names_and_limits_are_refused_with_the_allowed_values():
    with pytest.raises(
        DataError, match=r"no data set 'Fashion-MNIST'; known are digits, .*; did you mean fashion_mnist\?"
    ):
        load("Fashion-MNIST")
    with pytest.raises(DataError, match=r"no data set 'x'; known are digits, breast_cancer, .*, imdb$"):
        load_split("x")
    with pytest.raises(DataError, match=re.escape("limit(=0) must be >= 1")):
        load("digits", limit=0)


def test_the_representation_of_a_data_set_has_no_rows():
    shown = repr(load("digits", limit=5))
    assert "digits" in shown
    assert "array" not in shown


def test_a_csv_file_gives_features_labels_classes_and_clients(tmp_path):
    data = load_file(write(tmp_path, CSV))
    assert data.name == "table"
    assert data.features.tolist() == [[1.5, 2.0], [-300.0, 0.0], [0.0, 7.0]]
    assert data.labels.tolist() == [1, -1, 0]
    assert data.classes == ("ant", "cat")
    assert data.clients is not None
    assert data.clients.tolist() == [1, 0, 1]
    assert data.client_names == ("a", "b")


def test_a_csv_file_may_have_other_column_names_and_a_byte_order_mark(tmp_path):
    path = write(tmp_path, "\ufeffsite,x,y\n10,1,1\n9,2,0\n")
    data = load_file(path, label_column="y", client_column="site")
    assert data.features.tolist() == [[1.0], [2.0]]
    assert data.client_names == ("9", "10")  # numbers in the order of numbers
    assert load_file(path, label_column="y").features.tolist() == [[10.0, 1.0], [9.0, 2.0]]


def test_a_limit_renumbers_clients_but_never_classes(tmp_path):
    data = load_file(write(tmp_path, CSV), limit=1)
    assert data.classes == ("ant", "cat")
    assert data.labels.tolist() == [1]
    assert data.client_names == ("b",)
    assert data.clients is not None
    assert data.clients.tolist() == [0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the first line must name the columns, among them 'label'; it is empty"),
        ("x,y\n1,2\n", "the first line must name the columns, among them 'label'; it is 'x', 'y'"),
        ("x,x,label\n1,2,a\n", "the first line names 'x' more than once"),
        ("client,label\na,b\n", "no column is left for features beside 'label' and 'client'"),
        ("x,label\n", "holds no rows below the first line"),
        ("x,label\n1,\n", "no row has a label"),
        ("x,label\n1,a\n2\n", "row 3 has 1 cells; the first line names 2 columns"),
        ("x,label\n1,a\n\ntwo,b\n", "row 4, column 'x': 'two' is not a finite number"),
        ("x,label\nnan,a\n", "row 2, column 'x': 'nan' is not a finite number"),
        ("x,label\n1e999,a\n", "row 2, column 'x': '1e999' is not a finite number"),
        ("x,label\n1e308,a\n", "row 2, column 'x': '1e308' is too large; allowed: up to 1e+150"),
        ("x,label\n,a\n", "row 2, column 'x': '' is not a finite number"),
        ("x,label,client\n1,a, \n", "row 2, column 'client': is empty; every row needs a client"),
    ],
)
def test_csv_errors_name_the_place(tmp_path, text, message):
    assert error_of(write(tmp_path, text)) == message


def test_files_of_a_wrong_format_are_refused(tmp_path):
    assert error_of(tmp_path / "absent.csv").startswith("cannot be read (No such file")
    assert error_of(tmp_path / "table.xls") == "a data file ends in .csv or .npz"
    latin = tmp_path / "latin.csv"
    latin.write_bytes("x,label\n1,é\n".encode("latin-1"))
    assert error_of(latin).startswith("is not UTF-8 text")
    huge = write(tmp_path, "x,label\n1," + "a" * 200_000 + "\n", "huge.csv")
    assert error_of(huge).startswith("is not comma-separated values")
    for text in ("nothing of the kind", ""):
        message = error_of(write(tmp_path, text, "text.npz"))
        assert message == "is not a numpy archive, or its end is missing"
    with (tmp_path / "single.npz").open("wb") as single:
        np.save(single, np.zeros(3))
    assert error_of(tmp_path / "single.npz").startswith("is a single array, not an archive")
    objects = error_of(archive(tmp_path, features=np.array([{}]), labels=np.array([0])))
    assert objects.startswith("is damaged, or holds other things than plain arrays (Object arrays")


def test_an_npz_file_gives_features_labels_classes_and_clients(tmp_path):
    path = archive(
        tmp_path,
        features=np.arange(6).reshape(3, 2),
        labels=np.array([7, -1, 3]),
        clients=np.array(["x", "y", "x"]),
    )
    data = load_file(path)
    assert data.features.dtype == np.float64
    assert data.labels.tolist() == [1, -1, 0]
    assert data.classes == ("3", "7")
    assert data.client_names == ("x", "y")
    assert data.clients is not None
    assert data.clients.tolist() == [0, 1, 0]


FEATURES, LABELS = np.zeros((3, 2)), np.array([0, 1, -1])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": FEATURES}, "array 'labels' is missing; 'features' and 'labels' are required"),
        ({"labels": LABELS}, "array 'features' is missing; 'features' and 'labels' are required"),
        (
            {"features": FEATURES[0], "labels": LABELS},
            "array 'features' has shape (2,); it must be (rows, columns), "
            "or (rows, height, width, channels) of images, none of them 0",
        ),
        (
            {"features": np.zeros((0, 2)), "labels": LABELS[:0]},
            "array 'features' has shape (0, 2); it must be (rows, columns), "
            "or (rows, height, width, channels) of images, none of them 0",
        ),
        (
            {"features": np.array([["a"]]), "labels": LABELS[:1]},
            "array 'features' has type <U1; it must hold real numbers",
        ),
        (
            {"features": np.array([[0.0, 1.0], [2.0, np.inf]]), "labels": LABELS[:2]},
            "array 'features', row 1, column 1: inf is not a finite number",
        ),
        (
            {"features": np.array([[0.0, -1e308]]), "labels": LABELS[:1]},
            "array 'features', row 0, column 1: -1e+308 is too large; allowed: up to 1e+150",
        ),
        (
            {"features": FEATURES, "labels": LABELS[:2]},
            "array 'labels' has shape (2,); with these features it must be (3,)",
        ),
        (
            {"features": FEATURES, "labels": np.array(["a", "b", "c"])},
            "array 'labels' has type <U1; it must hold integers, -1 if unknown",
        ),
        (
            {"features": FEATURES, "labels": np.array([0.0, 1.5, 2.0])},
            "array 'labels', row 1: 1.5 is not an integer >= -1 (-1: unknown)",
        ),
        (
            {"features": FEATURES, "labels": np.array([0, 1, -2])},
            "array 'labels', row 2: -2 is not an integer >= -1 (-1: unknown)",
        ),
        ({"features": FEATURES, "labels": np.full(3, -1)}, "no row has a label"),
        (
            {"features": FEATURES, "labels": LABELS, "clients": np.zeros((3, 1), dtype=int)},
            "array 'clients' has shape (3, 1); with these features it must be (3,)",
        ),
        (
            {"features": FEATURES, "labels": LABELS, "clients": np.zeros(3)},
            "array 'clients' has type float64; it must hold integers or text",
        ),
    ],
)
def test_npz_errors_name_the_place(tmp_path, arrays, message):
    assert error_of(archive(tmp_path, **arrays)) == message


def test_a_damaged_archive_is_an_error_about_the_file(tmp_path):
    path = tmp_path / "table.npz"
    np.savez_compressed(path, features=np.random.default_rng(1).random((50, 4)), labels=np.zeros(50, dtype=int))
    content = bytearray(path.read_bytes())
    content[200:260] = bytes(60)
    path.write_bytes(content)
    assert error_of(path).startswith("is damaged, or holds other things than plain arrays (")


@given(at=st.integers(0, 10**6), change=st.integers(1, 255), cut=st.booleans())
def test_a_damaged_archive_gives_its_rows_or_an_error_in_one_line(at, change, cut, tmp_path_factory):
    path = tmp_path_factory.mktemp("damaged") / "table.npz"
    np.savez_compressed(path, features=np.arange(6.0).reshape(3, 2), labels=np.array([0, 1, -1]))
    content = bytearray(path.read_bytes())
    place = at % len(content)
    content[place] ^= change
    path.write_bytes(content[:place] if cut else content)
    try:
        data = load_file(path)
    except DataError as error:
        assert str(error).startswith(f"{path}: ")
        assert "\n" not in str(error)
    else:
        assert data.features.shape == (3, 2)


def test_points_for_testing_are_drawn_from_all_rows_and_the_others_standardised():
    whole = load("breast_cancer")
    held, tested = load_drawn("breast_cancer", 114, 3)
    assert (len(held.labels), len(tested.labels)) == (455, 114)
    np.testing.assert_allclose(held.features.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(held.features.std(axis=0), 1.0)
    # each column of both parts has one affine map, so sorted columns keep their proportions
    ranks = np.sort(np.concatenate([held.features, tested.features]), axis=0)
    before = np.sort(whole.features, axis=0)
    proportions = [(values - values[0]) / (values[-1] - values[0]) for values in (ranks, before)]
    np.testing.assert_allclose(*proportions, atol=1e-9)
    assert sorted(np.concatenate([held.labels, tested.labels])) == sorted(whole.labels)


def test_another_seed_draws_other_points_and_the_same_seed_the_same():
    first, again, other = (load_drawn("digits", 300, seed)[1] for seed in (1, 1, 2))
    assert np.array_equal(first.features, again.features)
    assert not np.array_equal(first.features, other.features)
    assert first.features.max() == 1.0  # pixels are not standardised


@pytest.mark.parametrize("test", [0, 569])
def test_a_test_part_of_all_rows_is_refused(test):
    with pytest.raises(DataError, match=rf"test\(={test}\) must be 1 to 568, as breast_cancer has 569 rows"):
        load_drawn("breast_cancer", test, 1)


_PRESSED_AS_IT_LOADS = """
import signal, sys
from tacit.parties.data.sets import load
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == "sklearn.datasets":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Press())
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    load("breast_cancer", 1)
except KeyboardInterrupt:
    print("interrupted,", "whole" if hasattr(sys.modules.get("sklearn.datasets"), "load_digits") else "half")
"""


def test_an_interrupt_leaves_no_library_partly_imported() -> None:
    house = str(Path(__file__).parents[2])
    ended = subprocess.run(
        [sys.executable, "-c", _PRESSED_AS_IT_LOADS],
        env={**os.environ, "PYTHONPATH": house}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "interrupted, whole\n"), ended.stderr
