"""Few support vectors: the one-norm machine, patterns, and the cross-entropy method."""

from typing import Any

import numpy as np

from formulations import one_norm
from polyopt.exercises.exercise import exercises_of, whole

_X = np.array([-2.0, -1.5, 1.5, 2.0])
_Y = np.array([1.0, -1.0, -1.0, 1.0])


def _program(make: Any) -> Any:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5, 2)), np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    return make(X @ X.T, y, 1.5)


def _judge_pattern(pattern: Any) -> str | None:
    words = "a pattern is a list of places from 0 to 3"
    chosen = sorted(set(whole(pattern, words)))
    if not chosen or not set(chosen) <= set(range(4)):
        raise ValueError(words)
    if len(chosen) > 2:
        return f"These are {len(chosen)} samples; two are enough."
    K = (1.0 + np.outer(_X, _X)) ** 2
    from scipy.optimize import linprog

    # a >= 0, b free: y (sum of K y a + b) >= 1
    expansion = _Y[:, None] * K[:, chosen] * _Y[chosen]
    A = -np.column_stack([expansion, _Y, -_Y])
    found = linprog(np.zeros(A.shape[1]), A, -np.ones(4), bounds=(0.0, None))
    return None if found.status == 0 else "No α on these samples brings all four beyond their margins."


EXERCISES = exercises_of(
    "l0",
    l0_1={"program": lambda: _program(one_norm.primal)},
    l0_2={"program": lambda: _program(one_norm.dual)},
    l0_3={"judge": _judge_pattern, "data": {"X": _X, "y": _Y}},
)
