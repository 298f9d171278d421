"""PLUME: responsibilities, the M-step, its dual, and what a sharp gate does."""

from typing import Any

import numpy as np

from formulations import plume
from formulations.language.toy_data import two_blobs
from formulations.mixture import responsibilities
from polyopt.exercises.exercise import exercises_of, finite

_X = np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
_Y = np.array([-1.0, 1.0, 1.0, 1.0, -1.0])


def _program(make: Any) -> Any:
    X, y = two_blobs(6, 2, 0)
    R = responsibilities(X, y, np.random.default_rng(0).normal(size=(2, 3)), 0.8)
    return make(X, y, R, 0.8, ridge=1.2)


def _judge_inside(W: Any) -> str | None:
    W = finite(W, (2, 2), "there are two faces of two numbers: the weight of x, and the bias")
    S = _X @ W[:, :1].T + W[:, 1]
    gate = np.exp(-(S - S.min(axis=1, keepdims=True)))
    p = (gate / gate.sum(axis=1, keepdims=True) / (1.0 + np.exp(-S))).sum(axis=1)
    share = float(np.where(_Y > 0, p, 1.0 - p).min())
    return None if share >= 0.8 else f"The least probability of a right label is {share:.3g}."


EXERCISES = exercises_of(
    "plume",
    plume_1={"tolerance": 6e-4},
    plume_2={"program": lambda: _program(plume.m_step)},
    plume_3={"program": lambda: _program(plume.m_step_dual), "of": "gate"},
    plume_4={"judge": _judge_inside, "data": {"X": _X, "y": _Y}},
)
