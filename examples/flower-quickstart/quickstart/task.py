"""The model, multinomial logistic regression, and the data, the 1,797 digits that come with scikit-learn."""

from functools import cache

import numpy as np
from sklearn.datasets import load_digits

CLASSES, PIXELS = 10, 64


def initial_model():
    """The initial weights and biases, all 0."""
    return [np.zeros((PIXELS, CLASSES), np.float32), np.zeros(CLASSES, np.float32)]


@cache
def _digits():
    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels


def load_data(partition, partitions):
    """The points and labels of one client, four fifths to train on and the rest to evaluate on."""
    images, labels = _digits()
    own = np.random.default_rng(0).permutation(len(labels))[partition::partitions]
    split = len(own) * 4 // 5
    return (images[own[:split]], labels[own[:split]]), (images[own[split:]], labels[own[split:]])


def _probabilities(model, images):
    scores = images @ model[0] + model[1]
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def train(model, images, labels, epochs, rate, batch=32):
    """Train by gradient descent; returns the mean loss of the last epoch.

    Batches come from numpy's global generator.
    """
    losses = []
    for _ in range(epochs):
        losses = []
        order = np.random.permutation(len(labels))
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            found = _probabilities(model, images[rows])
            losses.append(-np.log(found[np.arange(len(rows)), labels[rows]] + 1e-9).mean())
            found[np.arange(len(rows)), labels[rows]] -= 1
            model[0] -= rate * images[rows].T @ found / len(rows)
            model[1] -= rate * found.mean(axis=0)
    return float(np.mean(losses))


def test(model, images, labels):
    """The mean loss and the accuracy."""
    found = _probabilities(model, images)
    loss = -np.log(found[np.arange(len(labels)), labels] + 1e-9).mean()
    return float(loss), float((found.argmax(axis=1) == labels).mean())
