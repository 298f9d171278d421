"""Polytopes on streams of deformed digits, several at once: every digit is seen by all, and not kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.helpers.deformed_digits import DeformedDigits
from polyopt.cpm.sgd import CpmSgd
from polyopt.linalg.rows import Rows, as_rows

__all__ = ["TwoPolytopes", "show_stream"]

_ROWS = 50_000  # in a chunk: 39 MB of pixels


class TwoPolytopes:
    """Algorithms 1 and 2 for two polytopes, one with each class outside, for T steps each.

    `rate` is λT, which the paper's grid names (its C is 1/(λT)); `perplexity` is the floor of the effective
    number of faces in use, the exponential of the paper's h; a pixel counts times `scale`.
    """

    def __init__(
        self, n_faces: int, steps: int, rate: float, perplexity: float, width: int, scale: float, seed: int
    ):
        self.gain, self.scale, self.left, self.seconds = steps / rate, scale, steps, 0.0
        self.sides = [
            CpmSgd(width, n_faces, perplexity=perplexity, scale=scale, seed=2 * seed + side)
            for side in (0, 1)
        ]

    def show(self, rows: Rows, y: np.ndarray) -> None:
        """A step of each side for every sample, in their order, until T are made; y has labels of ±1."""
        started, n = time.process_time(), min(self.left, len(y))
        for sgd, outer in zip(self.sides, (1.0, -1.0), strict=True):
            faces = np.full(len(y), -1)
            gains = np.full(len(y), self.gain)
            arguments = sgd.step_arguments(rows, outer * y > 0, gains, faces, faces.copy())
            sgd.take_steps(arguments, rows, np.arange(n))
        self.left -= n
        self.seconds += time.process_time() - started

    def errors(self, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
        """Errors in per cent of the last iterates, and of their averages."""
        minus, plus = (sgd.iterates for sgd in self.sides)
        return {
            which: 100 * float(np.mean((self._score(X, out) - self._score(X, within) > 0) != (y > 0)))
            for which, out, within in zip(("last", "average"), minus, plus, strict=True)
        }

    def _score(self, X: np.ndarray, W: np.ndarray) -> Any:
        return (X @ (self.scale * W[:, :-1].T) + W[:, -1]).max(axis=1)


def show_stream(machines: Sequence[TwoPolytopes], source: DeformedDigits) -> float:
    """Show digits to machines until all have made their steps; the CPU seconds of making the digits."""
    seconds = 0.0
    while any(machine.left for machine in machines):
        started = time.process_time()
        X, y = source.chunk(min(_ROWS, max(machine.left for machine in machines)))
        rows = as_rows(X)
        seconds += time.process_time() - started
        for machine in machines:
            if machine.left:
                machine.show(rows, y)
    return seconds
