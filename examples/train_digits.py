"""Train a small neural network on handwritten digits, in plain NumPy.

    trimtab run -- python examples/train_digits.py --pipeline slow
    trimtab run -- python examples/train_digits.py --pipeline fast

Every image is enlarged, turned, shifted and bent again in every epoch, which is what makes so small
a network generalise. The two pipelines do the same work: `slow` prepares one image after the other
inside the training loop, which then waits for data most of the time; `fast` prepares whole batches
at once, in a second thread, ahead of the loop. Runs without Trimtab as well.
"""

from __future__ import annotations

import argparse
import os
import queue
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise

# One core computes; the other is left to the pipeline. Must be set before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy import ndimage
from sklearn.datasets import load_digits

try:
    import trimtab
except ImportError:
    trimtab = None

SIDE = 16
HIDDEN = (1280, 1024)
BATCH = 128
PREPARED_AHEAD = 8
TURN_DEGREES, SHIFT_PIXELS, NOISE = 12.0, 1.5, 0.05
BENDS = ((2.5, 6.0), (1.5, 2.0))  # standard deviation of the smoothing, height, in pixels
Batch = tuple[np.ndarray, np.ndarray]


# Data


def digits() -> tuple[Batch, Batch]:
    """Images of 16 x 16 in [0, 1] and labels: 1,437 to learn from, 360 to test on."""
    digits = load_digits()
    images = ndimage.zoom(digits.images / 16.0, (1, SIDE / 8, SIDE / 8), order=1)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order].astype(np.float32), digits.target[order]
    return (images[:1437], labels[:1437]), (images[1437:], labels[1437:])


@dataclass(frozen=True)
class Changes:
    """Random changes of a batch: a turn, a shift, fields to bend by (elastic distortion), noise."""

    angles: np.ndarray
    shifts: np.ndarray
    fields: list[np.ndarray]
    noise: np.ndarray


def draw_changes(count: int, random: np.random.Generator) -> Changes:
    """Both pipelines draw the same, so that they learn from the same images."""
    shape = (count, SIDE, SIDE)
    return Changes(
        np.deg2rad(random.uniform(-TURN_DEGREES, TURN_DEGREES, count)),
        random.uniform(-SHIFT_PIXELS, SHIFT_PIXELS, (2, count)),
        [random.uniform(-1, 1, (2, *shape)) for _ in BENDS],
        random.normal(0, NOISE, shape).astype(np.float32),
    )


def bend_one(image: np.ndarray, changes: Changes, index: int) -> np.ndarray:
    """One image, turned, shifted and bent."""
    angle, shift = changes.angles[index], changes.shifts[:, index]
    rows, columns = np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij")
    middle = (SIDE - 1) / 2
    rows, columns = rows - middle, columns - middle
    bend = np.zeros((2, SIDE, SIDE))
    for (smooth, height), fields in zip(BENDS, changes.fields, strict=True):
        for axis in range(2):
            bend[axis] += ndimage.gaussian_filter(fields[axis, index], smooth) * height
    source = [
        np.cos(angle) * rows - np.sin(angle) * columns + middle + shift[0] + bend[0],
        np.sin(angle) * rows + np.cos(angle) * columns + middle + shift[1] + bend[1],
    ]
    bent = ndimage.map_coordinates(image, source, order=1)
    return bent + changes.noise[index]


def bend_all(images: np.ndarray, changes: Changes) -> np.ndarray:
    """The same for a whole batch in one go."""
    count = len(images)
    angle, shift = changes.angles[:, None, None], changes.shifts[:, :, None, None]
    middle = (SIDE - 1) / 2
    rows = np.arange(SIDE)[None, :, None] - middle
    columns = np.arange(SIDE)[None, None, :] - middle
    bend = np.zeros((2, count, SIDE, SIDE))
    for (smooth, height), fields in zip(BENDS, changes.fields, strict=True):
        bend += ndimage.gaussian_filter(fields, (0, 0, smooth, smooth)) * height
    source_rows = np.cos(angle) * rows - np.sin(angle) * columns + middle + shift[0] + bend[0]
    source_columns = np.sin(angle) * rows + np.cos(angle) * columns + middle + shift[1] + bend[1]
    which = np.broadcast_to(np.arange(count)[:, None, None], source_rows.shape)
    bent = ndimage.map_coordinates(images, [which, source_rows, source_columns], order=1)
    return bent + changes.noise


class SlowPipeline:
    """One image after the other, while the training loop waits."""

    def __init__(self, data: Batch) -> None:
        self.images, self.labels = data
        self.random = np.random.default_rng(1)

    def __iter__(self) -> Iterator[Batch]:
        order = self.random.permutation(len(self.images))
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            changes = draw_changes(len(chosen), self.random)
            bent = np.stack([bend_one(self.images[n], changes, i) for i, n in enumerate(chosen)])
            yield bent.reshape(len(chosen), -1), self.labels[chosen]


class FastPipeline:
    """Whole batches, prepared ahead of the training loop by a second thread."""

    def __init__(self, data: Batch) -> None:
        self.images, self.labels = data
        self.random = np.random.default_rng(1)
        self.ready: queue.Queue[Batch] = queue.Queue(PREPARED_AHEAD)
        threading.Thread(target=self._prepare, daemon=True).start()

    def _prepare(self) -> None:
        while True:
            order = self.random.permutation(len(self.images))
            for start in range(0, len(order), BATCH):
                chosen = order[start : start + BATCH]
                changes = draw_changes(len(chosen), self.random)
                bent = bend_all(self.images[chosen], changes)
                self.ready.put((bent.reshape(len(chosen), -1), self.labels[chosen]))

    def __iter__(self) -> Iterator[Batch]:
        for _ in range(0, len(self.images), BATCH):
            yield self.ready.get()


PIPELINES = {"slow": SlowPipeline, "fast": FastPipeline}


# Network


class Network:
    """A multi-layer perceptron with ReLU, trained by gradient descent with momentum."""

    def __init__(self, rate: float) -> None:
        random = np.random.default_rng(2)
        sizes = (SIDE * SIDE, *HIDDEN, 10)
        self.weights = [
            (random.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs)).astype(np.float32)
            for inputs, outputs in pairwise(sizes)
        ]
        self.biases = [np.zeros(size, np.float32) for size in sizes[1:]]
        self.speeds = [np.zeros_like(each) for each in (*self.weights, *self.biases)]
        self.rate, self.momentum = np.float32(rate), np.float32(0.9)

    def forward(self, images: np.ndarray) -> list[np.ndarray]:
        """The activations of every layer, the input first, the logits last."""
        layers = [images]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            layers.append(np.maximum(layers[-1] @ weight + bias, 0))
        return [*layers, layers[-1] @ self.weights[-1] + self.biases[-1]]

    def learn(self, images: np.ndarray, labels: np.ndarray) -> float:
        """One step; returns the mean cross-entropy before it."""
        layers = self.forward(images)
        logits = layers.pop()
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances = odds / odds.sum(axis=1, keepdims=True)
        picked = np.arange(len(labels)), labels
        loss = -np.log(chances[picked] + 1e-9).mean()
        chances[picked] -= 1
        self._descend(layers, chances / np.float32(len(labels)))
        return float(loss)

    def _descend(self, layers: list[np.ndarray], error: np.ndarray) -> None:
        slopes: list[np.ndarray] = []
        for index in reversed(range(len(layers))):
            slopes[:0] = [layers[index].T @ error]
            slopes.append(error.sum(axis=0))
            if index:
                error = (error @ self.weights[index].T) * (layers[index] > 0)
        weights, biases = slopes[: len(layers)], slopes[len(layers) :][::-1]
        values = (*self.weights, *self.biases)
        for value, speed, slope in zip(values, self.speeds, (*weights, *biases), strict=True):
            speed *= self.momentum
            speed -= self.rate * slope
            value += speed

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        logits = self.forward(images.reshape(len(images), -1))[-1]
        return float((logits.argmax(axis=1) == labels).mean())


def train(pipeline: str, epochs: int) -> float:
    """Train, and return the accuracy on images that were never learned from."""
    learn_from, test_on = digits()
    network = Network(rate=0.02)
    loader = PIPELINES[pipeline](learn_from)
    batches = trimtab.wrap(loader) if trimtab else loader
    for epoch in range(epochs):
        if trimtab:
            trimtab.epoch(epoch)
        losses = []
        for images, labels in batches:
            losses.append(network.learn(images, labels))
            if trimtab:
                trimtab.step(samples=len(labels))
        with trimtab.phase("evaluate") if trimtab else nullcontext():
            loss, accuracy = float(np.mean(losses)), network.accuracy(*test_on)
        if trimtab:
            trimtab.log(loss=loss, accuracy=accuracy)
        print(f"epoch {epoch + 1:3d}  loss {loss:.3f}  accuracy {accuracy:.1%}", flush=True)
    return accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a digit classifier in NumPy.")
    parser.add_argument("--pipeline", choices=sorted(PIPELINES), default="slow")
    parser.add_argument("--epochs", type=int, default=150)
    options = parser.parse_args()
    started = time.monotonic()
    accuracy = train(options.pipeline, options.epochs)
    took = time.monotonic() - started
    print(f"{options.pipeline} pipeline: accuracy {accuracy:.1%} in {took:.1f} s")


if __name__ == "__main__":
    main()
