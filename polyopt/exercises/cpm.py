"""The Convex Polytope Machine: faces, assignments, and what stochastic steps leave."""

import warnings
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from formulations import cpm
from formulations.language.toy_data import two_blobs
from polyopt.exercises.exercise import exercises_of, finite, whole

# The inside class is in the middle; +1 is outside, and each outer sample answers at one face.
_X = np.array([[-3.0], [-2.0], [-1.5], [-0.5], [0.5], [1.5], [2.5], [3.5]])
_Y = np.array([1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
_DATA = {"X": _X, "y": _Y}
_MAX_PASSES = 10_000  # over eight samples: some seconds
_OUTER = np.flatnonzero(_Y > 0)


def _dual() -> Any:
    X, y = two_blobs(6, 2, 0)
    return cpm.fixed_assignment_dual(X, y, 2, np.arange(6) % 2)


@cache
def _value(assignment: tuple[int, ...]) -> float:
    z = np.full(len(_Y), -1)
    z[_OUTER] = assignment
    return float(cpm.fixed_assignment(_X, _Y, 2, z).solve().objective or np.inf)


def _judge_assignment(answer: Any) -> str | None:
    words = "an assignment has a 0 or a 1 for each of the six outer samples"
    given = whole(answer, words)
    if len(given) != len(_OUTER) or not set(given) <= {0, 1}:
        raise ValueError(words)
    # A better assignment splits the line in two: all others cost more, as the tests show.
    least = min(_value(tuple(int(x > t) for x in _X[_OUTER, 0])) for t in (-9.0, -2.5, -1.8, 0.0, 2.0, 3.0))
    found = _value(given)
    if found <= least * (1 + 1e-6):
        return None
    return f"The best machine of that assignment costs {found:.4g}; there is one that costs {least:.4g}."


def loss(W: ArrayLike) -> float:
    """Evaluate ‖W‖² and the hinges, for C = 1, of faces W (K, 2) on the data of this chapter."""
    faces = np.asarray(W, dtype=float)
    s = _X @ faces[:, :1].T + faces[:, 1]
    outer = np.maximum(0.0, 1.0 - s.max(axis=1))[_OUTER].sum()
    return float((faces**2).sum() + outer + np.maximum(0.0, 1.0 + s)[_Y < 0].sum())


def _after_steps(**settings: Any) -> float:
    """Objective after the stochastic steps."""
    from polyopt import ConvexPolytopeMachine

    machine = ConvexPolytopeMachine(2, solver="sgd", inside_label=-1.0, n_init=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the steps did not settle is the point
        return loss(machine.set_params(**settings).fit(_X, _Y).solution_["W"])


@cache
def _of_steps() -> float:
    return _after_steps(max_iter=2)


def _judge_faces(W: Any) -> str | None:
    words = "there are two faces of two numbers each: the weight of x, and the bias"
    found = loss(finite(W, (2, 2), words))
    text = f"It costs {found:.4g}; two passes of steps end at {_of_steps():.4g}."
    return None if found < _of_steps() else text


def _judge_settings(settings: Any) -> str | None:
    known = {"max_iter", "random_state", "sgd__perplexity", "sgd__average"}
    if not isinstance(settings, dict) or not set(settings) <= known:
        raise ValueError("settings is a dict of max_iter, random_state, sgd__perplexity and sgd__average")
    if isinstance(passes := settings.get("max_iter"), int) and passes > _MAX_PASSES:
        raise ValueError(f"max_iter is at most {_MAX_PASSES} here")
    found, best = _after_steps(**settings), loss(EXERCISES["cpm_4"].solution)
    text = f"The steps end at {found:.4g}, less than a quarter above {best:.4g}."
    return None if found > 1.25 * best else text


EXERCISES = exercises_of(
    "cpm",
    cpm_1={"program": _dual},
    cpm_3={"judge": _judge_assignment, "data": _DATA},
    cpm_4={"judge": _judge_faces, "data": _DATA},
    cpm_5={"judge": _judge_settings},
)
