"""A plugin that adds a character model: an LSTM that predicts the next character of texts, by `next-token`.

The texts are the descriptions of six data sets in scikit-learn; each description is a client.
"""

import numpy as np
from sklearn import datasets
from torch import nn

from tacit import Dataset, ModelSpec, add_dataset, add_model

LENGTH = 32
SETS = ("breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine")


def descriptions() -> Dataset:
    texts = [getattr(datasets, f"load_{name}")().DESCR for name in SETS]
    characters = sorted(set("".join(texts)))
    points, labels, clients = [], [], []
    for client, text in enumerate(texts):
        codes = np.array([characters.index(one) for one in text])
        for begin in range(0, len(codes) - LENGTH, LENGTH):
            points.append(codes[begin : begin + LENGTH])
            labels.append(codes[begin + 1 : begin + LENGTH + 1])  # the next character at each place
            clients.append(client)
    codes = np.array(points, np.float64), np.array(labels, np.int64)
    return Dataset("descriptions", *codes, tuple(characters), np.array(clients), SETS)


class CharLSTM(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 16)
        self.lstm = nn.LSTM(16, 48, batch_first=True)
        self.head = nn.Linear(48, vocabulary)

    def forward(self, tokens):  # int64 (n, length)
        states, _ = self.lstm(self.embedding(tokens))
        return self.head(states)  # (n, length, vocabulary)


def char_lstm(spec: ModelSpec) -> nn.Module:
    return CharLSTM(spec.classes)


add_dataset("descriptions", "texts on six data sets, by character", descriptions)
add_model("char_lstm", "an LSTM over characters", char_lstm)
