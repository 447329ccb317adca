"""Every upstream layout, with small files: the content that is read, and the errors for wrong files."""

import gzip
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tacit.parties.datasets.catalogue import CATALOGUE
from tacit.parties.datasets.content import Content, DataError, quiet

Layouts = dict[str, Callable[[Path], None]]


def read(name: str, folder: Path) -> Content:
    return CATALOGUE[name].read(folder, quiet)


@pytest.fixture
def laid(layouts: Layouts, tmp_path: Path) -> Callable[[str], Path]:
    """A function that writes the small data set of a name, and returns its folder."""

    def write(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        layouts[name](folder)
        return folder

    return write


def error_of(name: str, folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        read(name, folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_every_data_set_has_a_layout(layouts):
    assert set(layouts) == set(CATALOGUE)


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if len(entry.about.shape) == 3])
def test_images_have_the_announced_shape_and_classes(name, laid):
    content, about = read(name, laid(name)), CATALOGUE[name].about
    for part in content.parts.values():
        assert part.points.dtype == np.uint8
        assert part.points.shape == (len(part.labels), *about.shape)
        assert part.labels.min() >= 0 and part.labels.max() < about.classes
    assert set(content.parts) == {"train", "test"}
    assert len(content.classes) == about.classes


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_empty_folder_is_refused_with_the_missing_files(name, tmp_path):
    assert error_of(name, tmp_path).startswith(f"{tmp_path}: holds no ")


@pytest.mark.parametrize("name", CATALOGUE)
def test_unreadable_files_are_an_error_in_one_line(name, laid):
    folder = laid(name)
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.write_bytes(b"\x80rubbish,\n1")
    assert str(folder) in error_of(name, folder)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("spelling", ["-", "."])
def test_idx_files_are_read_compressed_or_not_under_both_names(packed, spelling, laid):
    folder = laid("mnist")
    expected = read("mnist", folder)
    for path in list(folder.iterdir()):
        content = path.read_bytes()
        name = path.name.replace("-idx", f"{spelling}idx") + (".gz" if packed else "")
        path.unlink()
        (folder / "MNIST" / "raw").mkdir(parents=True, exist_ok=True)
        (folder / "MNIST" / "raw" / name).write_bytes(gzip.compress(content) if packed else content)
    assert read("mnist", folder).digest() == expected.digest()


def test_truncated_or_mismatched_idx_files_are_refused(laid):
    folder = laid("mnist")
    labels = folder / "train-labels-idx1-ubyte"
    whole = labels.read_bytes()
    labels.write_bytes(whole[:-3])
    assert error_of("mnist", folder) == f"{labels}: holds 17 values; its header announces 20"
    labels.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 17]) + whole[8:-3])
    assert "does not fit the images'" in error_of("mnist", folder)
    labels.write_bytes(whole[:-1] + b"\x0a")
    assert "has label 10; allowed: 0 to 9" in error_of("mnist", folder)


def test_cifar_planes_become_channels(laid):
    folder = laid("cifar10")
    batch = pickle.loads((folder / "cifar-10-batches-py" / "data_batch_3").read_bytes(), encoding="bytes")
    assert batch[b"data"].shape == (10, 3072)
    content = read("cifar10", folder)
    planes = batch[b"data"][4].reshape(3, 32, 32)
    np.testing.assert_array_equal(content.train.points[24], np.stack(list(planes), axis=-1))
    assert len(content.train.labels) == 50 and len(content.test.labels) == 10


def test_cifar_as_image_files_equals_cifar_as_batches(laid, tmp_path):
    content = read("cifar10", laid("cifar10"))
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    batches = [*np.split(content.train.points, 5), content.test.points]
    for name, batch in zip([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"], batches, strict=True):
        Image.fromarray(batch.reshape(len(batch), 1024, 3)).save(pictures / f"{name}.png")
    for name, part in (("train", content.train), ("test", content.test)):
        (pictures / f"{name}_lables.json").write_text(json.dumps(part.labels.tolist()))
    assert read("cifar10", pictures).digest() == content.digest()
    (pictures / "train_lables.json").write_text("[1, 2]")
    assert "50 images and 2 labels" in error_of("cifar10", pictures)


def test_a_batch_pickled_again_is_read_alike(laid):
    folder = laid("cifar10")
    expected = read("cifar10", folder).digest()
    for path in (folder / "cifar-10-batches-py").iterdir():
        path.write_bytes(pickle.dumps(pickle.loads(path.read_bytes(), encoding="bytes"), protocol=4))
    assert read("cifar10", folder).digest() == expected


class Mischief:
    """A class whose pickle would run a command."""

    def __reduce__(self):
        return os.system, ("exit 1",)


def test_a_pickle_that_would_run_code_is_refused(laid):
    folder = laid("cifar10")
    (folder / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps({b"data": Mischief()}))
    assert "it contains a posix.system" in error_of("cifar10", folder)


def test_label_ten_of_house_numbers_is_the_digit_zero(laid):
    assert read("svhn", laid("svhn")).train.labels.tolist() == [*range(1, 10), 0] * 2


def test_writers_of_femnist_are_clients(laid):
    folder = laid("femnist")
    content = read("femnist", folder)
    assert content.client_names == ("f0_0", "f0_1", "f0_2", "f1_0", "f1_1", "f1_2")
    assert content.train.clients.tolist() == [writer for writer in range(6) for _ in range(4)]
    assert content.test.clients.tolist() == [writer for writer in range(6) for _ in range(2)]
    file = json.loads((folder / "data" / "train" / "part_0.json").read_text())
    expected = np.rint(np.array(file["user_data"]["f0_1"]["x"]) * 255).reshape(4, 28, 28, 1)
    np.testing.assert_array_equal(content.train.points[4:8], expected)


def test_without_a_split_each_writer_keeps_the_last_fifth_for_testing(laid):
    folder = laid("femnist")
    (folder / "data" / "train").rename(folder / "data" / "all_data")
    for path in (folder / "data" / "all_data").iterdir():
        file = json.loads(path.read_text())
        for own in file["user_data"].values():
            own["x"], own["y"] = own["x"] * 3, own["y"] * 3
        path.write_text(json.dumps(file))
    content = read("femnist", folder)
    assert np.bincount(content.train.clients).tolist() == [10] * 6
    assert np.bincount(content.test.clients).tolist() == [2] * 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": [[2.0] * 784], "y": [0]}, "pixels go from 2.0 to 2.0, not from 0 to 1"),
        ({"x": [[0.0] * 784], "y": [62]}, "labels go from 62 to 62; allowed: 0 to 61"),
        ({"x": [[0.0] * 784], "y": [1, 2]}, "cannot reshape"),
    ],
)
def test_wrong_images_of_a_writer_are_refused(change, message, laid):
    folder = laid("femnist")
    path = folder / "data" / "train" / "part_1.json"
    path.write_text(json.dumps({"users": ["a"], "user_data": {"a": change}}))
    found = error_of("femnist", folder)
    assert found.startswith(f"{path}: ")
    assert message in found


def test_one_in_six_pictures_of_a_class_is_for_testing(laid):
    content = read("mini_imagenet", laid("mini_imagenet"))
    assert np.bincount(content.train.labels).tolist() == [5] * 100
    assert np.bincount(content.test.labels).tolist() == [1] * 100


def test_centres_are_clients_and_folds_are_parts(laid):
    folder = laid("fed_isic2019")
    content = read("fed_isic2019", folder)
    assert content.client_names == tuple(f"center {number}" for number in range(6))
    assert content.test.labels.tolist() == [0, 4] * 3
    assert content.test.clients.tolist() == [0, 4, 2] * 2
    (folder / "ISIC_2019_Training_Input_preprocessed" / "ISIC_7.jpg").unlink()
    assert error_of("fed_isic2019", folder) == f"{folder}: holds no ISIC_7.jpg, which its table names"


def test_categories_become_columns_of_0_and_1(laid):
    content = read("adult", laid("adult"))
    assert content.numbers == 6
    assert content.columns[:7] == (
        *("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"),
        "workclass=State-gov",
    )
    assert content.columns[-3:] == ("native-country=?", "native-country=Cuba", "native-country=United-States")
    assert content.train.points[:, -3:].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert content.test.points[:, -3:].tolist() == [[0, 1, 0]]
    assert content.train.points[0, :6].tolist() == [39, 77516, 13, 2174, 0, 40]
    assert content.train.labels.tolist() == [0, 1] and content.test.labels.tolist() == [1]


def test_a_row_with_too_few_cells_is_named(laid):
    folder = laid("adult")
    with (folder / "adult.data").open("a") as file:
        file.write("1, 2\n")
    assert error_of("adult", folder) == f"{folder / 'adult.data'}: row 3 has 2 cells, not 15"


def test_mushroom_attributes_become_columns_of_0_and_1(laid):
    content = read("mushroom", laid("mushroom"))
    assert content.columns == ("Cap=b", "Cap=x", "Odor=a", "Odor=s")
    assert content.train.points.tolist() == [[0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 1, 0]]
    assert content.train.labels.tolist() == [1, 0, 0]


def test_wines_of_both_colours_have_their_grade_as_label(laid):
    content = read("wine_quality", laid("wine_quality"))
    assert content.classes == ("5", "6", "10")  # in the order of numbers
    assert content.columns == ("pH", "alcohol", "white")
    assert content.train.points.tolist()[1:4] == [[3.2, 10.0, 0.0], [3.0, 9.0, 0.0], [3.5, 9.4, 1.0]]
    assert content.train.labels.tolist() == [0, 2, 1] * 2


def test_duplicate_wines_count_once(laid):
    folder = laid("wine_colour")
    with (folder / "winequality-red.csv").open("a") as file:
        file.write("3;9;6\n3;9;5\n")  # the first pair occurred before; the second has another mark
    content = read("wine_colour", folder)
    assert content.classes == ("red", "white")
    assert content.columns == ("pH", "alcohol")
    assert content.train.points.tolist() == [
        [3.5, 9.4],
        [3.2, 10.0],
        [3.0, 9.0],
        [3.0, 9.0],
        *[[3.5, 9.4], [3.2, 10.0], [3.0, 9.0]],
    ]
    assert content.train.labels.tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_cover_types_numbered_from_one_become_labels_from_zero(laid):
    content = read("covertype", laid("covertype"))
    assert content.train.labels.tolist() == list(range(7))
    assert content.train.points.shape == (7, 54)
    assert content.train.points[3, :2].tolist() == [3, 4]


def test_reviews_of_other_sources_are_left_out(laid):
    content = read("imdb", laid("imdb"))
    assert content.train.points.tolist() == ['Good, "really" <br /> good.', "Bad – naïve."]
    assert content.train.labels.tolist() == [1, 0]
