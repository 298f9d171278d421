"""The Polyceptron: a criterion that is the same at any scale, and what a margin mends."""

from typing import Any

import numpy as np

from formulations import polyceptron
from formulations.language.toy_data import two_blobs
from polyopt.exercises.exercise import Find, Formula, Number, finite, words_of

_WORDS = words_of("polyceptron")

_X = np.array([[-2.0], [0.0], [1.0], [2.0]])
_Y = np.array([-1.0, 1.0, 1.0, -1.0])
_W = np.array([[1.0, 1.0], [-1.0, 0.5]])


def _least_scores(W: Any) -> Any:
    W = finite(W, (2, 2), "there are two faces, rows of two numbers: the weight of x, and the bias")
    return (_X @ W[:, :1].T + W[:, 1]).min(axis=1)


polyceptron_1 = Number(**_WORDS["polyceptron_1"], data={"X": _X, "y": _Y, "W": _W})


def _judge_trap(W: Any) -> str | None:
    h = _least_scores(W)
    if np.maximum(0.0, -_Y * h).sum() > 0:
        return "The criterion is not 0."
    return None if (_Y * h <= 0).any() else "All samples are on their right sides."


polyceptron_2 = Find(**_WORDS["polyceptron_2"], data={"X": _X, "y": _Y}, judge=_judge_trap)


def _judge_inside(W: Any) -> str | None:
    h = _least_scores(W)
    if not (_Y * h > 0).all():
        return f"Samples {np.flatnonzero(_Y * h <= 0).tolist()} are not on their right sides."
    return None


polyceptron_3 = Find(**_WORDS["polyceptron_3"], data={"X": _X, "y": _Y}, judge=_judge_inside)
polyceptron_4 = Number(**_WORDS["polyceptron_4"], data={"X": _X, "y": _Y})

polyceptron_5 = Formula(
    **_WORDS["polyceptron_5"], program=lambda: polyceptron.cell_dual(*two_blobs(6, 2, 0), radius=3.0)
)
