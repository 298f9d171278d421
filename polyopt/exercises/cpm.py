"""The Convex Polytope Machine: faces, assignments, and what stochastic steps leave."""

from __future__ import annotations

import warnings
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations import cpm
from formulations.samples import two_blobs
from polyopt.exercises.exercise import Find, Formula, Number, finite, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["cpm_1", "cpm_2", "cpm_3", "cpm_4", "cpm_5"]

# The inside class is in the middle; +1 is outside, and each outer sample answers at one face.
_X = np.array([[-3.0], [-2.0], [-1.5], [-0.5], [0.5], [1.5], [2.5], [3.5]])
_Y = np.array([1.0, 1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
_PASSES = 10_000  # over eight samples: some seconds
_OUTER = np.flatnonzero(_Y > 0)


def _dual() -> Any:
    X, y = two_blobs(6, 2, 0)
    return cpm.fixed_assignment_dual(X, y, 2, np.arange(6) % 2)


cpm_1 = Formula(
    title="The dual of a fixed assignment",
    task=(
        "With the assignment fixed the machine minimises ‖W‖² + Σᵢₖ Cᵢ Zᵢₖ ξᵢₖ where yᵢ Wₖ·x̃ᵢ ≥ 1 "
        "− ξᵢₖ, with the "
        "multipliers αᵢₖ. Its norm has no ½. What does the dual maximise?"
    ),
    hint="Per face: ‖w‖² − w·v is least at w = v/2. What is it worth there?",
    solution="Σᵢₖ αᵢₖ − ¼ Σₖ ‖Σᵢ αᵢₖ yᵢ x̃ᵢ‖²",
    why="At Wₖ = ½ Σᵢ αᵢₖ yᵢ x̃ᵢ the terms in Wₖ are worth −¼ of the square of the pull.",
    program=_dual,
    mistakes=(
        ("Σᵢₖ αᵢₖ − ½ Σₖ ‖Σᵢ αᵢₖ yᵢ x̃ᵢ‖²", "That is of ½‖W‖²; here the norm has no half."),
        ("Σᵢₖ αᵢₖ − ¼ Σₖ ‖Σᵢ αᵢₖ x̃ᵢ‖²", "The labels are lost."),
        (
            "Σᵢₖ αᵢₖ − ¼ Σₖ Σᵢ ‖αᵢₖ yᵢ x̃ᵢ‖²",
            "The square is of the sum over the samples, not the sum of squares.",
        ),
    ),
)

cpm_2 = Number(
    title="How many assignments there are",
    task="Five outer samples, two faces that may change places: how many different assignments are there?",
    hint="Each sample goes to one of two faces. How many of these are the same but for the faces' names?",
    solution=16.0,
    why="2⁵ = 32 ways to name them, and each twice but for the names: 16. It doubles with every sample.",
    mistakes=(
        (32.0, "Faces that change places make the same machine."),
        (25.0, "Each sample has two choices: 2⁵, not 5²."),
        (10.0, "Each sample has two choices, and they multiply."),
    ),
)


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


cpm_3 = Find(
    title="The best assignment",
    task=(
        "On the line of data['X'] the outer samples, data['y'] = 1, are on both sides of the inner "
        "ones. Give the "
        "best assignment to two faces for C = 1: a 0 or 1 for each outer sample, in order."
    ),
    hint="A face is one threshold, with all of its samples beyond it.",
    solution=[0, 0, 0, 1, 1, 1],
    why="Each face has the samples of one side; no face can answer for both sides.",
    data={"X": _X, "y": _Y},
    judge=_judge_assignment,
    mistakes=(
        ([0, 0, 0, 0, 0, 0], "One face for both sides."),
        ([0, 1, 0, 1, 0, 1], "Both faces for both sides."),
        ([0, 0, 1, 1, 1, 1], "One sample at the wrong face."),
    ),
)


def loss(W: ArrayLike) -> float:
    """The machine's objective on the data of this chapter, for C = 1: ‖W‖² and the hinges.

    Parameters
    ----------
    W : array_like of shape (K, 2)
        Faces: the weight of x, and the bias.
    """
    faces = np.asarray(W, dtype=float)
    s = _X @ faces[:, :1].T + faces[:, 1]
    outer = np.maximum(0.0, 1.0 - s.max(axis=1))[_OUTER].sum()
    return float((faces**2).sum() + outer + np.maximum(0.0, 1.0 + s)[_Y < 0].sum())


def _after_steps(**settings: Any) -> float:
    """What stochastic steps leave, by the same objective."""
    from polyopt import ConvexPolytopeMachine

    made = {"n_faces": 2, "solver": "sgd", "inside_label": -1.0, "n_init": 1, "random_state": 0, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the steps did not settle is the point
        return loss(ConvexPolytopeMachine(**made).fit(_X, _Y).solution_["W"])


@cache
def _of_steps() -> float:
    return _after_steps(max_iter=2)


def _judge_faces(W: Any) -> str | None:
    words = "there are two faces of two numbers each: the weight of x, and the bias"
    found = loss(finite(W, (2, 2), words))
    return (
        None
        if found < _of_steps()
        else f"It costs {found:.4g}; two passes of steps end at {_of_steps():.4g}."
    )


cpm_4 = Find(
    title="Beat the stochastic steps",
    task=(
        "Two passes of stochastic gradient steps end above the optimum on data['X'], data['y'] "
        "with C = 1. Give two faces "
        "W, rows (weight, bias), with a lower polyopt.exercises.cpm.loss(W), by any means. A sample is "
        "outside, +1, where the larger of the two scores is positive."
    ),
    hint=(
        "By cpm_3 each face has one side: its score is to be 1 at x = 1.5 and -1 at x = 0.5, if "
        "that is not too dear."
    ),
    solution=[[0.75, -0.5], [-0.75, -0.5]],
    why=(
        "Steps only come near; ConvexPolytopeMachine(solver='exact') solves, and its certificate "
        "says how near."
    ),
    data={"X": _X, "y": _Y},
    judge=_judge_faces,
    mistakes=(
        ([[0.0, 0.0], [0.0, 0.0]], "All pay."),
        ([[5.0, -5.0], [-5.0, -5.0]], "The norm costs more than all slacks."),
        ([[1.0, 0.0], [1.0, 0.0]], "Two faces for one side."),
    ),
)

_BEST = loss(cpm_4.solution)


def _judge_settings(settings: Any) -> str | None:
    if not isinstance(settings, dict) or not set(settings) <= {
        "max_iter",
        "random_state",
        "perplexity",
        "average",
    }:
        raise ValueError("settings is a dict of max_iter, random_state, perplexity and average")
    if isinstance(passes := settings.get("max_iter"), int) and passes > _PASSES:
        raise ValueError(f"max_iter is at most {_PASSES} here")
    found = _after_steps(**settings)
    return (
        None
        if found > 1.25 * _BEST
        else f"The steps end at {found:.4g}, less than a quarter above {_BEST:.4g}."
    )


cpm_5 = Find(
    title="Make the stochastic steps fail",
    task=(
        "Give settings of ConvexPolytopeMachine(2, solver='sgd'), a dict of some of max_iter, "
        "random_state, perplexity "
        "and average, with which the steps end at more than a quarter above the best value of cpm_4."
    ),
    hint="How many passes do eight samples need? And what becomes of a face that no sample goes to?",
    solution={"max_iter": 1, "random_state": 1},
    why="Eight steps are too few. A value alone does not show that: the gap of a certificate does.",
    judge=_judge_settings,
    mistakes=(
        ({"max_iter": 300}, "Many passes come near."),
        ({"max_iter": 500, "random_state": 3}, "So they do from elsewhere."),
        ({"tol": 1.0}, "That is none of these settings."),
    ),
)
