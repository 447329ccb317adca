"""GPT-2 with a head, for a tiny model with random weights that the tests make."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.parties.learning.gpt2 import GPT2Learner
from tacit.parties.learning.learners import learner_of
from tacit.parties.learning.vision import torchvision

TEXTS = np.array([f"{'good' if place % 2 else 'bad'} film {'x' * place}" for place in range(20)], dtype=object)
LABELS = np.arange(20) % 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A GPT-2 of two layers of 16 numbers that reads bytes, without a head, as written by `save_pretrained`."""
    torchvision()  # transformers imports torchvision if installed, which takes seconds
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    place = tmp_path_factory.mktemp("gpt2")
    vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    vocabulary["<|endoftext|>"] = end = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(place)
    shape = {"vocab_size": end + 1, "n_positions": 64, "n_embd": 16, "n_layer": 2, "n_head": 2}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(**shape, bos_token_id=end, eos_token_id=end))
    model.save_pretrained(place)
    return str(place)


def small_learner(folder: str, **settings: float) -> GPT2Learner:
    return GPT2Learner(2, folder, **({"learning_rate": 3e-3, "steps": 30, "device": "cpu"} | settings))  # type: ignore[arg-type]


def test_gpt2_learns_labels_of_texts(folder: str) -> None:
    learner = small_learner(folder)
    fresh = learner.initial(1)
    state = learner.fit(fresh, TEXTS, LABELS, 1)
    assert (learner.predict(state, TEXTS) == LABELS).all()
    assert (learner.predict(fresh, TEXTS) != LABELS).any()
    shares = learner.probabilities(state, TEXTS)
    assert shares.dtype == np.float32
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-5)
    assert learner.probabilities(state, TEXTS[:0]).shape == (0, 2)


def test_the_same_seed_gives_the_same_state_in_a_copy_of_the_learner(folder: str) -> None:
    learner = small_learner(folder, steps=2)
    state = learner.fit(learner.initial(1), TEXTS, LABELS, 1)
    other = pickle.loads(pickle.dumps(learner))
    assert other.fit(other.initial(1), TEXTS, LABELS, 1) == state
    assert other.fit(other.initial(1), TEXTS, LABELS, 2) != state
    assert other.initial(2) != other.initial(1)  # the head is random


def test_fits_of_a_warm_learner_continue_and_those_of_a_cold_one_start_again(folder: str) -> None:
    warm, cold = small_learner(folder, steps=2), small_learner(folder, steps=2, warm=False)
    first = warm.fit(warm.initial(5), TEXTS, LABELS, 5)
    assert cold.fit(first, TEXTS, LABELS, 5) == first
    second = warm.fit(first, TEXTS, LABELS, 5)
    assert second != first
    assert int.from_bytes(second[:8], "little") == 4


def test_padding_and_other_texts_of_a_batch_change_no_prediction(folder: str) -> None:
    learner = small_learner(folder, steps=3)
    state = learner.fit(learner.initial(1), TEXTS, LABELS, 1)
    together = learner.probabilities(state, np.append(TEXTS, ""))
    for place in (0, 7, 19):
        np.testing.assert_allclose(
            learner.probabilities(state, TEXTS[place : place + 1])[0], together[place], atol=1e-5
        )
    assert np.isfinite(together).all()


def test_work_follows_from_the_size_of_the_model(folder: str) -> None:
    learner = small_learner(folder)
    numbers = (len(learner.initial(1)) - 8) / 12
    assert learner.fit_work(20)["train.parameter"] == 30 * numbers
    work = learner.predict_work(10)
    assert work["embed.multiply-add"] == 10 * 64 * 2 * (12 * 16 * 16 + 2 * 64 * 16)
    assert work["model.load"] == 3 * numbers


def test_invalid_folders_points_and_learners_are_refused_in_one_line(folder: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"learner 'gpt2': path\(=''\) has no config.json; path must be a folder"):
        learner_of("gpt2", {}, (), 2)
    for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
        os.symlink(Path(folder) / name, tmp_path / name)
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ValueError, match="holds a model of type 'bert', not 'gpt2'"):
        learner_of("gpt2", {"path": str(tmp_path)}, (), 2)
    with pytest.raises(ValueError, match="learner 'gpt2' reads texts, not points of numbers"):
        learner_of("gpt2", {"path": folder}, (4,), 2)
    with pytest.raises(ValueError, match="learner 'xgboost' does not read texts, but features of them"):
        learner_of("xgboost", {}, (), 2)
    learner = small_learner(folder)
    with pytest.raises(ValueError, match="gpt2 reads texts, not points of float64"):
        learner.predict(learner.initial(1), np.zeros((2, 3)))
    with pytest.raises(ValueError, match="a state of 4 bytes is not one of the model"):
        learner.predict(bytes(4), TEXTS)
    with pytest.raises(ValueError, match=r"labels are in \[1, 2\], not in \[0, 1\]"):
        learner.fit(learner.initial(1), TEXTS, LABELS + 1, 1)
