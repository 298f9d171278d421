"""Relative Margin Machines and the Sigma-SVM."""

from functools import cache
from typing import Any

import numpy as np

from formulations import rmm, sigma_svm, svm
from formulations.language.toy_data import two_blobs
from polyopt.exercises.exercise import exercises_of, finite
from polyopt.margin.certify import certify_rmm

_X = np.array([[-4.0, 1.0], [-1.0, 0.0], [-1.0, -2.0], [1.0, 0.5], [1.5, -1.0], [5.0, 2.0]])
_Y = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
_DATA = {"X": _X, "y": _Y}


@cache
def _largest_score() -> float:
    found = svm.primal(_X, _Y, C=1.0).solve()
    return float(np.abs(_X @ found["w"] + found["b"]).max())


def _judge_bound(B: Any) -> str | None:
    B = float(finite(B, (), "B is a number"))
    if not B > 1.0:
        return "B must be above 1: samples beyond their margin have scores of at least 1."
    top = _largest_score()
    if abs(B - top) <= 1e-3 * top:
        return None
    return f"Not the least B: {'a smaller one does it' if top < B else 'it cuts off a score of the SVM'}."


def _judge_machine(answer: Any) -> str | None:
    w, b = answer
    w, b = finite(w, (2,), "w has two numbers"), float(finite(b, (), "b is a number"))
    top = float(np.abs(_X @ w + b).max())
    if top > 1.5 * (1 + 1e-9):
        return f"A score is {top:.4g}, beyond B = 1.5."
    found = certify_rmm(_X, _Y, w=w, b=b, C=1.0, B=1.5)
    if not found.relative_gap <= 0.02:
        return f"It is within {found.eps:.3g} of the optimum, proven: more than two hundredths of its value."
    return None


EXERCISES = exercises_of(
    "rmm",
    rmm_1={"program": lambda: rmm.qcqp(*two_blobs(6, 2, 0), B=1.5), "of": "spread"},
    rmm_2={"program": lambda: rmm.qp_dual(*two_blobs(6, 2, 0), B=1.5)},
    rmm_3={"judge": _judge_bound, "data": _DATA, "solution": 87 / 17},
    rmm_4={"judge": _judge_machine, "data": _DATA},
    rmm_5={"program": lambda: sigma_svm.primal(*two_blobs(6, 2, 0), D=0.3)},
)
