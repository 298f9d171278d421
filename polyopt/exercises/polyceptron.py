"""The Polyceptron: a criterion that is the same at any scale, and what a margin mends."""

from typing import Any

import numpy as np

from formulations import polyceptron
from formulations.language.toy_data import two_blobs
from polyopt.exercises.exercise import exercises_of, finite

_X = np.array([[-2.0], [0.0], [1.0], [2.0]])
_Y = np.array([-1.0, 1.0, 1.0, -1.0])
_DATA = {"X": _X, "y": _Y}
_W = np.array([[1.0, 1.0], [-1.0, 0.5]])


def _least_scores(W: Any) -> Any:
    W = finite(W, (2, 2), "there are two faces, rows of two numbers: the weight of x, and the bias")
    return (_X @ W[:, :1].T + W[:, 1]).min(axis=1)


def _judge_trap(W: Any) -> str | None:
    h = _least_scores(W)
    if np.maximum(0.0, -_Y * h).sum() > 0:
        return "The criterion is not 0."
    return None if (_Y * h <= 0).any() else "All samples are on their right sides."


def _judge_inside(W: Any) -> str | None:
    h = _least_scores(W)
    if not (_Y * h > 0).all():
        return f"Samples {np.flatnonzero(_Y * h <= 0).tolist()} are not on their right sides."
    return None


EXERCISES = exercises_of(
    "polyceptron",
    polyceptron_1={"data": {**_DATA, "W": _W}},
    polyceptron_2={"judge": _judge_trap, "data": _DATA},
    polyceptron_3={"judge": _judge_inside, "data": _DATA},
    polyceptron_4={"data": _DATA},
    polyceptron_5={"program": lambda: polyceptron.cell_dual(*two_blobs(6, 2, 0), radius=3.0)},
)
