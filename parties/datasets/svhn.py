"""SVHN, house numbers in single digits (Netzer et al. 2011): ``train_32x32.mat`` and ``test_32x32.mat``.

A MATLAB file with ``X``, uint8 (32, 32, 3, n), and ``y``, (n, 1), in which 10 stands for the digit 0.
"""

from pathlib import Path

import numpy as np

from tacit.parties.datasets.content import Content, Part, Report
from tacit.parties.datasets.files import broken, find

__all__ = ["read_svhn"]


def read_svhn(folder: Path, report: Report) -> Content:
    """SVHN's training and test parts; the extra part is not used."""
    report("reading", 0, 2)
    train = _part(find(folder, "train_32x32.mat"))
    report("reading", 1, 2)
    return Content(train, _part(find(folder, "test_32x32.mat")), tuple("0123456789"))


def _part(path: Path) -> Part:
    from scipy.io import loadmat  # here, as few sets need it

    with broken(path):
        arrays = loadmat(path)
        images, labels = np.asarray(arrays["X"]), np.asarray(arrays["y"]).ravel()
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != len(labels):
            raise ValueError(f"X is {images.dtype} {images.shape} and y has {len(labels)} values")
        if not np.isin(labels, np.arange(1, 11)).all():
            raise ValueError("y has values that are not from 1 to 10")
    return Part(np.ascontiguousarray(images.transpose(3, 0, 1, 2)), labels.astype(np.int64) % 10)
