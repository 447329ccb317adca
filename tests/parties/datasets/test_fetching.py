"""A fetched data set is stored completely, in the form in which it was read, or not at all."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from tacit.parties.data.sets import load, load_split
from tacit.parties.data.splits import shards
from tacit.parties.datasets import store
from tacit.parties.datasets.catalogue import CATALOGUE
from tacit.parties.datasets.content import Content, DataError, Part, Report, quiet
from tacit.parties.datasets.fetching import fetch, own_folder

Layouts = dict[str, Callable[[Path], None]]

KILLED = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from tacit.parties.datasets.catalogue import CATALOGUE
from tacit.parties.datasets.fetching import fetch
CATALOGUE["mnist"] = replace(CATALOGUE["mnist"], sha256=None)
def report(what, done, total):
    if what == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
fetch("mnist", report, Path(sys.argv[2]))
"""

WAITING = """
import sys
from tacit.parties.datasets import store
with store.locked(lambda: print("waiting", flush=True)):
    print("held", flush=True)
"""


@pytest.fixture
def laid(layouts: Layouts, tmp_path: Path) -> Callable[[str], Path]:
    """A function that writes the small data set of a name, and returns its folder."""

    def write(name: str) -> Path:
        folder = tmp_path / "source" / name
        folder.mkdir(parents=True)
        layouts[name](folder)
        return folder

    return write


@dataclass(frozen=True)
class Copied:
    """A way to fetch that copies a folder, or fails."""

    source: Path
    problem: str = ""
    kind: str = "copy"
    name: str = "a copy"

    def bring(self, folder: Path, report: Report) -> None:
        if self.problem:
            raise DataError(self.problem)
        shutil.copytree(self.source, folder, dirs_exist_ok=True)


def stored_names(root: Path) -> list[str]:
    """The contents of a store without its lock."""
    return sorted(path.name for path in root.iterdir() if path.name != ".lock")


def error_of(name: str, source: Path | None = None) -> str:
    with pytest.raises(DataError) as caught:
        fetch(name, quiet, source)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.usefixtures("unpinned")
def test_fetched_data_are_stored_as_read(name, laid):
    folder = laid(name)
    assert not store.present(name)
    assert fetch(name, quiet, folder) == str(folder)
    assert store.present(name)
    read = CATALOGUE[name].read(folder, quiet)
    expected = read.shuffled(name) if CATALOGUE[name].shuffle else read
    kept = store.stored(name)
    assert kept.content.digest() == kept.sha256 == expected.digest()
    assert fetch(name, quiet) == str(folder)  # the second call only checks the files


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.usefixtures("unpinned")
def test_stored_data_are_loaded_in_full_or_up_to_a_limit(name, laid):
    fetch(name, quiet, laid(name))
    content = store.stored(name).content
    train, test = load_split(name)
    whole = sum(len(part.labels) for part in content.parts.values())
    assert len(train.labels) + len(test.labels) == whole
    assert train.classes == test.classes == content.classes
    if content.train.points.dtype == object:
        assert train.texts is not None and train.images is None
        with pytest.raises(DataError, match="texts are not numbers"):
            _ = load(name).features
        return
    served = load(name)
    assert len(served.labels) == len(content.train.labels)
    assert served.features.dtype == np.float64 and served.features.shape[0] == len(served.labels)
    cut = load(name, limit=2)
    assert np.array_equal(cut.features, served.features[:2])
    if content.train.points.ndim == 4:
        assert np.array_equal(served.images, content.train.points)
        assert served.features.min() >= 0.0 and served.features.max() <= 1.0


@pytest.mark.parametrize("name", ["adult", "wine_quality"])
@pytest.mark.usefixtures("unpinned")
def test_numeric_columns_are_standardised_over_the_training_part(name, laid):
    fetch(name, quiet, laid(name))
    content = store.stored(name).content
    train, test = load_split(name)
    numbers = content.numbers
    np.testing.assert_allclose(train.features[:, :numbers].mean(axis=0), 0.0, atol=1e-12)
    deviations = train.features[:, :numbers].std(axis=0)
    assert (np.isclose(deviations, 0.0) | np.isclose(deviations, 1.0)).all()
    assert set(np.unique(np.concatenate([train.features, test.features])[:, numbers:])) <= {0.0, 1.0}


@pytest.mark.parametrize("name", ["femnist", "fed_isic2019"])
@pytest.mark.usefixtures("unpinned")
def test_natural_clients_hold_their_own_rows(name, laid):
    fetch(name, quiet, laid(name))
    data = load(name)
    dealt = shards(data, len(data.client_names), "natural", 0.5, seed=1)
    for client, shard in enumerate(dealt):
        assert (data.clients[shard.rows] == client).all()


def test_files_put_into_the_upstream_folder_are_found(layouts, unpinned):
    own_folder("svhn").mkdir(parents=True)
    layouts["svhn"](own_folder("svhn"))
    assert fetch("svhn", quiet) == str(own_folder("svhn"))


@pytest.mark.usefixtures("unpinned")
def test_ways_of_fetching_are_tried_in_their_order(laid, monkeypatch, store_root):
    folder = laid("mnist")
    ways = (Copied(folder, "no network"), Copied(folder.parent), Copied(folder, "not reached"))
    monkeypatch.setitem(CATALOGUE, "mnist", replace(CATALOGUE["mnist"], ways=ways))
    reports = []
    assert fetch("mnist", lambda what, done, total: reports.append(what)) == "a copy"
    assert reports.count("a copy") == 2
    assert stored_names(store_root) == ["mnist"]


def test_if_every_way_of_fetching_fails_one_line_says_why_and_how_to_continue(monkeypatch, tmp_path, store_root):
    ways = (Copied(tmp_path, "no network"), Copied(tmp_path, "no npm"))
    monkeypatch.setitem(CATALOGUE, "svhn", replace(CATALOGUE["svhn"], ways=ways))
    assert error_of("svhn") == (
        "svhn: a copy: no network; a copy: no npm; put train_32x32.mat and test_32x32.mat into "
        f"{store_root}/upstream/svhn, then: tacit data fetch svhn (or --from FOLDER)"
    )
    assert error_of("femnist").startswith("femnist: there is no way to download it; put LEAF's folders")
    assert stored_names(store_root) == []


def test_arrays_with_another_hash_are_refused(laid, store_root):
    folder = laid("mnist")
    assert error_of("mnist", folder).startswith(f"{folder}: is not mnist as expected (its arrays' SHA-256 is ")
    assert stored_names(store_root) == []
    assert error_of("mnist", folder / "none") == f"{folder}/none: there is no such folder"


@pytest.mark.usefixtures("unpinned")
def test_an_interrupted_fetch_leaves_no_files(laid, store_root):
    folder, reports = laid("cifar10"), []
    fetch("cifar10", lambda *progress: reports.append(progress), folder)
    shutil.rmtree(store_root / "cifar10")
    for stop in range(len(reports)):
        moments = iter(range(len(reports)))

        def report(what: str, done: int, total: int, stop: int = stop, moments=moments) -> None:
            if next(moments) == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fetch("cifar10", report, folder)
        assert stored_names(store_root) == []
    fetch("cifar10", quiet, folder)
    assert stored_names(store_root) == ["cifar10"]


@pytest.mark.usefixtures("unpinned")
def test_remains_of_a_killed_fetch_are_deleted(laid, store_root):
    folder = laid("mnist")
    done = subprocess.run([sys.executable, "-c", KILLED, "storing", str(folder)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not store.present("mnist")
    assert stored_names(store_root) != []
    fetch("mnist", quiet, folder)
    assert stored_names(store_root) == ["mnist"]


def test_two_processes_do_not_fetch_a_data_set_at_once():
    with store.locked(lambda: None):
        other = subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True)
        assert other.stdout.readline() == "waiting\n"
    assert other.communicate()[0] == "held\n"


@pytest.mark.usefixtures("unpinned")
def test_a_damaged_store_is_reported_with_its_folder(laid, store_root):
    fetch("mnist", quiet, laid("mnist"))
    path = store_root / "mnist" / "test.points.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    again = "delete the folder, then: tacit data fetch mnist"
    assert error_of("mnist") == f"{store_root}/mnist: is damaged (SHA-256); {again}"
    path.write_bytes(whole[:200])
    for damaged in (path, store_root / "mnist" / "about.json"):
        damaged.write_bytes(damaged.read_bytes()[:150])
        with pytest.raises(DataError) as caught:
            load("mnist")
        assert str(caught.value).startswith(f"{store_root}/mnist: is damaged (")
        assert str(caught.value).endswith(again)


def test_the_store_follows_the_environment(monkeypatch, tmp_path):
    assert store.root() == tmp_path / "store"
    monkeypatch.delenv("TACIT_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert store.root() == tmp_path / "tacit"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.root() == tmp_path / ".local" / "share" / "tacit"


def test_the_digest_of_data_depends_on_every_part():
    points, labels = np.zeros((2, 3)), np.array([0, 1])
    base = Content(Part(points, labels), None, ("a", "b"))
    texts = np.array(["ab", "c"], dtype=object)
    others = [
        Content(Part(points, labels[::-1]), None, ("a", "b")),
        Content(Part(points + 1, labels), None, ("a", "b")),
        Content(Part(points.astype(np.float32), labels), None, ("a", "b")),
        Content(Part(points.reshape(2, 3, 1), labels), None, ("a", "b")),
        Content(Part(points, labels), Part(points, labels), ("a", "b")),
        Content(Part(points, labels, labels), None, ("a", "b"), ("x", "y")),
        Content(Part(points, labels), None, ("a", "c")),
        Content(Part(points, labels), None, ("a", "b"), columns=("x", "y", "z")),
        Content(Part(points, labels), None, ("a", "b"), numbers=1),
        Content(Part(texts, labels), None, ("a", "b")),
        Content(Part(np.array(["a", "bc"], dtype=object), labels), None, ("a", "b")),
    ]
    assert len({content.digest() for content in [base, *others]}) == len(others) + 1
    assert Content(Part(points.copy(), labels.copy()), None, ("a", "b")).digest() == base.digest()


def test_shuffling_moves_whole_rows_in_a_reproducible_order():
    content = Content(Part(np.arange(50)[:, None], np.arange(50), np.arange(50)), None, ("a",), ("x",))
    shuffled = content.shuffled("some")
    assert shuffled.digest() == content.shuffled("some").digest() != content.shuffled("other").digest()
    assert shuffled.train.points[:, 0].tolist() == shuffled.train.labels.tolist() == shuffled.train.clients.tolist()
    assert sorted(shuffled.train.labels.tolist()) == list(range(50)) != shuffled.train.labels.tolist()
