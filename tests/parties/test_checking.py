"""Data are checked alike, whether they come from files, plugins or several sites: no nonsense gives a perfect score."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.parties.data.checking import check_part, checked
from tacit.parties.data.dataset import Dataset
from tacit.parties.data.files import check_against_outline, load_file, write_outline
from tacit.parties.data.sets import Own
from tacit.parties.datasets.content import DataError
from tacit.scenarios.command.main import app

NUMBERS = np.random.Generator(np.random.Philox(1)).standard_normal((12, 4))
LABELS = np.arange(12) % 3
PLAIN = Dataset("mine", NUMBERS, LABELS, ("a", "b", "c"))
IMAGES = np.zeros((12, 3, 8, 8), np.uint8)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"points": NUMBERS.tolist()}, "points must be a numpy array, not a list"),
        ({"points": NUMBERS.astype("f4")}, "points are float32; numbers must be float64: points.astype"),
        ({"points": NUMBERS * np.nan}, "points, row 0, column 0: nan is not finite"),
        ({"points": IMAGES}, r"the shape \(12, 3, 8, 8\); .* numpy.moveaxis\(features, 1, 3\) puts the channels last"),
        ({"points": np.zeros((12, 8, 8))}, r"points have the type float64 and the shape \(12, 8, 8\); they must be"),
        ({"points": np.array([1] * 12, object)}, "points, row 0: 1 is no text"),
        ({"labels": LABELS.astype("i4")}, r"labels have the type int32 .* they must be int64 \(12,\)"),
        ({"labels": LABELS.astype("f8")}, r"one for each column; labels of classes are int64: labels.astype"),
        ({"labels": LABELS[:5]}, r"labels have the type int64 and the shape \(5,\)"),
        ({"labels": LABELS + 1}, "labels, row 2: 3 is not an index into classes, 0 to 2, or -1"),
        ({"labels": LABELS - 4}, "labels, row 0: -4 is not an index"),
        ({"labels": np.full(12, -1)}, "no row has a label"),
        ({"classes": ["a", "b", "c"]}, "must be a tuple of texts"),
        ({"classes": ("a", "b", "b")}, "classes has 'b' twice"),
        ({"classes": ("1", "1.0", "2")}, "classes: '1' and '1.0' are the same number and would be two classes"),
        ({"classes": ("01", "1", "2")}, "'01' and '1' are the same number"),
        ({"classes": ("a", "b", "NaN")}, "'NaN' would be a class of its own"),
        ({"clients": LABELS}, "clients and client_names go together"),
        (
            {"clients": LABELS, "client_names": ("x", "y")},
            "clients, row 2: 2 is not an index into client_names",
        ),
        ({"clients": LABELS, "client_names": ("x", "y", "z", "empty")}, "client 'empty' has no row"),
        ({"columns": ("x",)}, r"1 columns are named, but points have the shape \(12, 4\)"),
        ({"grid": (3, 3, 1)}, r"grid\(=\(3, 3, 1\)\) must be"),
    ],
)
def test_a_data_set_of_a_plugin_is_checked_in_all_its_parts(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError, match=f"data set 'mine': .*{problem}"):
        Own("mine", lambda: replace(PLAIN, **changes), shuffle=True)()


def test_rows_of_a_plugin_are_put_into_an_order_that_looks_random_unless_it_says_otherwise() -> None:
    ordered = replace(PLAIN, points=np.arange(300.0)[:, None], labels=np.repeat(np.arange(3), 100))
    found = Own("mine", lambda: ordered, shuffle=True)()
    assert {*found.labels[-60:]} == {0, 1, 2}
    np.testing.assert_array_equal(found.labels, found.points[:, 0] // 100)
    np.testing.assert_array_equal(found.points, Own("mine", lambda: ordered, shuffle=True)().points)
    np.testing.assert_array_equal(Own("mine", lambda: ordered, shuffle=False)().points, ordered.points)


def test_a_part_of_one_class_is_refused() -> None:
    check_part(PLAIN, "the test part", "x.csv")
    with pytest.raises(DataError, match=r"x.csv: all 4 labels of the test part are 'a'; .* the order of the classes"):
        check_part(PLAIN.take(np.flatnonzero(LABELS == 0)), "the test part", "x.csv")
    signs = replace(PLAIN, labels=np.where(LABELS, 0, -1), classes=("1",))
    with pytest.raises(DataError, match=r"4 labels are -1, .* unknown label: number the classes from 0"):
        check_part(signs, "the data", "x.npz")
    signs = replace(PLAIN, labels=np.where(LABELS, 1, -1), classes=("no", "yes"))
    with pytest.raises(DataError, match=r"4 labels are -1, .* unknown label: number the classes from 0"):
        check_part(signs, "the training part", "data set 'mine'")


@pytest.mark.parametrize(
    ("head", "labels", "problem"),
    [
        (",y,label", "ab", "column 1 has no name in the first line"),
        ("Unnamed: 0,y,label", "ab", "column 1 has no name in the first line, but 'Unnamed: 0'"),
        ("x,y,label", ("1", "1.0"), r"column 'label': '1' \(row 2\) and '1.0' \(row 3\) are the same number"),
        ("x,y,label", ("a", "NaN"), r"column 'label': 'NaN' \(row 3\) would be a class of its own"),
    ],
)
def test_a_csv_file_with_nonsense_is_refused(tmp_path: Path, head: str, labels: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        load_file(_csv(tmp_path / "x.csv", head, labels))


def _csv(path: Path, head: str = "x,y,label", labels: Any = "ab", rows: int = 2) -> Path:
    lines = [f"{row},{row * row},{labels[row % len(labels)]}\n" for row in range(rows)]
    path.write_text(f"{head}\n{''.join(lines)}")
    return path


def test_what_may_be_meant_is_a_caution(tmp_path: Path) -> None:
    found = load_file(_csv(tmp_path / "x.csv", labels=("a", "A", "none"), rows=12))
    assert [line.removeprefix(f"{tmp_path}/") for line in found.cautions] == [
        "x.csv: 'none' is a class, of 4 rows; leave these labels empty if they are unknown",
        "x.csv: 'A' and 'a' are two classes",
        "x.csv: column 'x' counts the rows (0 to 11) and is a feature all the same",
    ]
    assert found.take(np.arange(3)).cautions == found.cautions
    assert not checked(PLAIN, "mine").cautions
    assert not checked(replace(PLAIN, labels=np.where(np.arange(12) < 6, LABELS, -1)), "mine").cautions
    (said,) = checked(replace(PLAIN, labels=LABELS - 1), "mine").cautions
    assert said.endswith("-1 stands for an unknown label; 4 rows have it, and no row is of the class 'c'")
    np.savez(tmp_path / "x.npz", features=NUMBERS, labels=LABELS - 1)
    (said,) = load_file(tmp_path / "x.npz").cautions
    assert said.endswith("array 'labels': -1 stands for an unknown label; 4 rows have it, and -1 is no class")


@pytest.mark.parametrize(
    ("head", "labels", "problem"),
    [
        (
            "y,x,label",
            "ab",
            "its columns are in another order: number 1 is 'y', in .*p.csv 'x'; .* be x, y",
        ),
        ("x,z,label", "ab", "it has no column 'y' as .*p.csv has, but 'z'"),
        ("x,y,label", "AB", "the class 'A' is written 'a' in .*p.csv"),
        ("x,y,label", ("a ", "b  c"), None),
    ],
)
def test_an_outline_of_sites_that_are_not_alike_names_site_column_and_value(
    tmp_path: Path, head: str, labels: Any, problem: str | None
) -> None:
    sites = [_csv(tmp_path / "p.csv"), _csv(tmp_path / "q.csv", head, labels)]
    sources = [(path, load_file(path)) for path in sites]
    out = tmp_path / "outline.csv"
    if problem is None:
        write_outline(out, sources)
        assert out.read_text().startswith("client,label,x,y\n")
        return
    with pytest.raises(DataError, match=f"q.csv: .*{problem}"):
        write_outline(out, sources)
    assert not out.exists()


def test_an_outline_shows_no_labels_that_are_numbers(tmp_path: Path) -> None:
    site, out = _csv(tmp_path / "p.csv", labels=("104.30", "105.09")), tmp_path / "outline.csv"
    with pytest.raises(DataError, match=r"p.csv: its label '104.30' is a number and not a class, and an outline would"):
        write_outline(out, [(site, load_file(site))])
    assert not out.exists()


def test_classes_that_are_one_number_at_two_sites_are_refused(tmp_path: Path) -> None:
    sites = [_csv(tmp_path / "p.csv", labels="01"), _csv(tmp_path / "q.csv", labels=("0.0", "1.0"))]
    with pytest.raises(DataError, match=r"q.csv: .*the class '0.0' is written '0' in .*p.csv"):
        write_outline(tmp_path / "outline.csv", [(path, load_file(path)) for path in sites])


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        ([str(25 + 3 * row) for row in range(30)], True),  # nearly all are different
        ([str(25 + 3 * (row % 25)) for row in range(200)], True),  # most between them are missing
        ([str(row % 25) for row in range(200)], False),  # 25 classes
        ([str(row % 10) for row in range(12)], False),
        ([f"c{25 + 3 * row}" for row in range(30)], False),
    ],
)
def test_an_outline_shows_no_amounts_that_are_whole(tmp_path: Path, labels: list[str], refused: bool) -> None:
    site, out = tmp_path / "p.csv", tmp_path / "outline.csv"
    site.write_text("x,label\n" + "".join(f"{row}.5,{label}\n" for row, label in enumerate(labels)))
    if refused:
        with pytest.raises(DataError, match=r"p.csv: its labels are \d+ whole numbers from 25 to .* look like amounts"):
            write_outline(out, [(site, load_file(site))])
        assert not out.exists()
    else:
        assert write_outline(out, [(site, load_file(site))]) == [(len(labels), len(labels))]
        # An outline of the outline says the same.
        assert write_outline(tmp_path / "both.csv", [(out, load_file(out))]) == [(len(labels), len(labels))]


def test_an_outline_names_the_whole_numbers_that_count_as_classes(tmp_path: Path) -> None:
    site, out = tmp_path / "p.csv", tmp_path / "outline.csv"
    site.write_text("x,label\n" + "".join(f"{row}.5,{row % 7}\n" for row in range(30)))
    done = CliRunner().invoke(app, ["outline", str(site), "--out", str(out)])
    assert done.exit_code == 0 and "note: the labels 0, 1, 2, 3, 4, ... count as names of classes" in done.output
    site.write_text("x,label\n" + "".join(f"{row}.5,c{row % 7}\n" for row in range(30)))
    assert "note" not in CliRunner().invoke(app, ["outline", str(site), "--out", str(out)]).output


def test_a_client_whose_columns_are_in_another_order_than_the_outline_is_refused(tmp_path: Path) -> None:
    site = _csv(tmp_path / "p.csv")
    write_outline(tmp_path / "outline.csv", [(site, load_file(site))])
    outline = load_file(tmp_path / "outline.csv")
    check_against_outline(site, load_file(site), outline, "the outline of client/0")
    other = _csv(tmp_path / "q.csv", "y,x,label")
    with pytest.raises(DataError, match=r"q.csv: its columns are in another order: .* in the outline of client/0 'x'"):
        check_against_outline(other, load_file(other), outline, "the outline of client/0")
