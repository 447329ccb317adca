"""GPT-2 with a classification head, fine-tuned: GPT2ForSequenceClassification of the package transformers.

Radford et al., Language models are unsupervised multitask learners, 2019; the head is a linear layer on the last token
of a text, as in federated co-training's experiments (Abourayya et al. 2024, appendix D.2 and table 17). The model and
its tokenizer are read from a folder of the user in the format of `save_pretrained`. Nothing is downloaded, and only
weights in the format safetensors are read, which contains no code. Packages: the extra `language`.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.parties.learning.extras import require
from tacit.parties.learning.learner import Learner
from tacit.sim.compute import Work
from tacit.sim.setting_error import SettingError

if TYPE_CHECKING:
    from tacit.parties.learning.backend import Tensor

__all__ = ["GPT2Learner"]

Points = NDArray[np.generic]
Labels = NDArray[np.int64]

_COUNTER = 8  # bytes
_BATCH = 16
"""The number of texts in a batch of predictions."""


@dataclass(frozen=True)
class GPT2Learner(Learner):
    """The model in the folder `path`, all its parameters trained by Adam on the first `tokens` tokens of each text.

    `fit` takes `steps` batches of `batch` texts from shuffled passes. The state is the number of steps so far, as 8
    bytes, little-endian, the parameters, and Adam's two moments of them, each little-endian float32: twelve bytes a
    parameter. A learner that is not `warm` goes back to the folder's model for each `fit`. Raises ValueError.
    """

    classes: int
    path: str = ""
    learning_rate: float = 5e-5
    batch: int = 8
    steps: int = 10
    tokens: int = 256
    warm: bool = True
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.classes < 2 or not self.learning_rate > 0:
            before = f"classes(={self.classes}) and "
            raise SettingError("learning_rate", self.learning_rate, "must be >= 2 and > 0", before)
        if min(self.batch, self.tokens) < 1 or self.steps < 0:
            problem = f"must be >= 1, tokens(={self.tokens}) >= 1 and steps(={self.steps}) >= 0"
            raise SettingError("batch", self.batch, problem)
        for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
            if not (Path(self.path) / name).is_file():
                wanted = "path must be a folder with a GPT-2 and its tokenizer, as save_pretrained writes them"
                raise SettingError("path", self.path, f"has no {name}; {wanted}")
        if (kind := self._configuration.get("model_type")) != "gpt2":
            raise SettingError("path", self.path, f"holds a model of type {kind!r}, not 'gpt2'")

    def initial(self, seed: int | bytes) -> bytes:
        """The folder's model, with a head drawn from the stream (seed, "initial") unless the model has a head."""
        from tacit.parties.learning.backend import seeded, torch
        from tacit.parties.learning.parameters import join

        with seeded(torch.device("cpu"), seed, "initial"):
            model, _ = _loaded(self.path, self.classes)
        vector = join(list(model.parameters()))
        return bytes(_COUNTER) + vector + bytes(2 * len(vector))

    def fit(self, state: bytes, points: Points, labels: Labels, seed: int | bytes) -> bytes:
        """The state after training on cross-entropy; shuffles and dropout from streams of (seed, steps so far)."""
        from tacit.parties.learning.backend import choose_device, generator, nn, seeded, torch
        from tacit.parties.learning.parameters import join

        if len(labels) and not 0 <= labels.min() <= labels.max() < self.classes:
            raise ValueError(f"labels are in [{labels.min()}, {labels.max()}], not in [0, {self.classes - 1}]")
        texts, device = _texts(points), choose_device(self.device)
        if not len(labels):
            return state
        model, encode, done, moments = self._at(state if self.warm else self.initial(seed), device)
        trained = list(model.parameters())
        optimiser = torch.optim.Adam(trained, lr=self.learning_rate)
        for parameter, mean, square in zip(trained, *moments, strict=True):
            optimiser.state[parameter] = {"step": torch.tensor(float(done)), "exp_avg": mean, "exp_avg_sq": square}
        random, ahead = generator(seed, "batches", done), torch.empty(0, dtype=torch.int64)
        targets, count = torch.from_numpy(labels.astype(np.int64)).to(device), min(self.batch, len(labels))
        model.train()
        with seeded(device, seed, "fit", done):
            for _ in range(self.steps):
                if len(ahead) < count:
                    ahead = torch.cat([ahead, torch.randperm(len(labels), generator=random)])
                rows, ahead = ahead[:count], ahead[count:]
                logits = model(**encode([texts[row] for row in rows.tolist()])).logits
                loss: Tensor = nn.functional.cross_entropy(logits, targets[rows.to(device)])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        optimiser.zero_grad()
        return (done + self.steps).to_bytes(_COUNTER, "little") + b"".join(map(join, (trained, *moments)))

    def probabilities(self, state: bytes, points: Points) -> NDArray[np.float32]:
        from tacit.parties.learning.backend import choose_device, torch

        texts = _texts(points)
        model, encode, _, _ = self._at(state, choose_device(self.device))
        found = np.empty((len(texts), self.classes), np.float32)
        model.eval()
        with torch.inference_mode():
            for at in range(0, len(texts), _BATCH):
                found[at : at + _BATCH] = model(**encode(texts[at : at + _BATCH])).logits.softmax(1).cpu().numpy()
        return found

    def fit_work(self, points: int) -> Work:
        """The work of `fit` on `points` texts, each of the full length that the model reads."""
        texts, numbers = self.steps * min(self.batch, points), self._numbers
        return {
            "train.multiply-add": 3.0 * texts * self._multiply_adds,
            "train.parameter": float(self.steps * numbers),
            "train.step": float(self.steps),
            "model.load": 3.0 * numbers,
            "model.store": 3.0 * numbers,
        }

    def predict_work(self, points: int) -> Work:
        """The work of `predict` for `points` texts, each of the full length that the model reads."""
        batches = float(-(-points // _BATCH))
        load = {"embed.batch": batches, "model.load": 3.0 * self._numbers}
        return load | {"embed.multiply-add": float(points * self._multiply_adds)}

    @property
    def _configuration(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((Path(self.path) / "config.json").read_text(encoding="utf-8"))
        return found

    @property
    def _numbers(self) -> int:
        """The number of parameters: embeddings, 12 d^2 + 13 d for the block of each layer, last normalisation, head."""
        config = self._configuration
        width, inner = config["n_embd"], config.get("n_inner") or 4 * config["n_embd"]
        block = 4 * width * width + 2 * width * inner + 9 * width + inner
        embeddings = (config["vocab_size"] + config["n_positions"]) * width
        return embeddings + config["n_layer"] * block + (2 + self.classes) * width

    @property
    def _multiply_adds(self) -> int:
        """The multiply-adds for one text: 4 d^2 + 2 d n_inner for each token and layer, 2 t d for attention to t
        tokens."""
        config = self._configuration
        width, inner = config["n_embd"], config.get("n_inner") or 4 * config["n_embd"]
        length = min(self.tokens, config["n_positions"])
        each = 4 * width * width + 2 * width * inner + 2 * length * width
        return int(length * config["n_layer"] * each)

    def _at(self, state: bytes, device: Any) -> tuple[Any, Callable[[list[str]], Any], int, list[list["Tensor"]]]:
        """The model with the parameters of `state`, its encoder of texts, the steps so far, and both moments."""
        from tacit.parties.learning.backend import torch
        from tacit.parties.learning.parameters import split

        model, tokenizer = _kept(self.path, self.classes, str(device))
        trained = list(model.parameters())
        third = (len(state) - _COUNTER) // 3
        parts = [state[_COUNTER + at * third : _COUNTER + (at + 1) * third] for at in range(3)]
        if len(state) != _COUNTER + 12 * sum(parameter.numel() for parameter in trained):
            raise ValueError(f"a state of {len(state)} bytes is not one of the model in {self.path}")
        values, *moments = (split(part, trained, "state of gpt2") for part in parts)
        with torch.no_grad():
            for parameter, value in zip(trained, values, strict=True):
                parameter.copy_(value)
                parameter.grad = None
        length = min(self.tokens, model.config.n_positions)

        def encode(texts: list[str]) -> Any:
            full = [text or tokenizer.eos_token for text in texts]  # the head needs a token to read
            return tokenizer(full, truncation=True, max_length=length, padding=True, return_tensors="pt").to(device)

        return model, encode, int.from_bytes(state[:_COUNTER], "little"), moments


def _texts(points: Points) -> list[str]:
    if points.dtype != object:
        raise ValueError(f"gpt2 reads texts, not points of {points.dtype} {points.shape[1:]}")
    return [str(text) for text in points]


@lru_cache(maxsize=2)
def _kept(path: str, classes: int, device: str) -> tuple[Any, Any]:
    """This process's cached model and tokenizer; the parameters are those of the last use."""
    model, tokenizer = _loaded(path, classes)
    return model.to(device), tokenizer


def _loaded(path: str, classes: int) -> tuple[Any, Any]:
    """The model and tokenizer of a folder; a missing head is drawn from torch's global generator."""
    require("transformers", "language", "the learner gpt2")
    from tacit.parties.learning.vision import torchvision

    torchvision()  # transformers imports it if it is installed
    from transformers import AutoTokenizer, GPT2ForSequenceClassification
    from transformers.utils import logging

    logging.disable_progress_bar()
    before = logging.get_verbosity()
    logging.set_verbosity_error()  # it would warn that the head is new, which is intended
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        model = GPT2ForSequenceClassification.from_pretrained(
            path, num_labels=classes, local_files_only=True, use_safetensors=True, attn_implementation="eager"
        )
    finally:
        logging.set_verbosity(before)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    tokenizer.padding_side = "right"
    model.config.pad_token_id = tokenizer.pad_token_id
    return model, tokenizer
