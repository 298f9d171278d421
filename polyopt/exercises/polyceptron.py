"""The Polyceptron: a criterion that is the same at any scale, and what a margin mends."""

from __future__ import annotations

from typing import Any

import numpy as np

from formulations import polyceptron
from formulations.samples import two_blobs
from polyopt.exercises.exercise import Find, Formula, Number, finite

__all__ = ["polyceptron_1", "polyceptron_2", "polyceptron_3", "polyceptron_4", "polyceptron_5"]

_X = np.array([[-2.0], [0.0], [1.0], [2.0]])
_Y = np.array([-1.0, 1.0, 1.0, -1.0])
_W = np.array([[1.0, 1.0], [-1.0, 0.5]])


def _least_scores(W: Any) -> Any:
    W = finite(W, (2, 2), "there are two faces, rows of two numbers: the weight of x, and the bias")
    return (_X @ W[:, :1].T + W[:, 1]).min(axis=1)


polyceptron_1 = Number(
    title="The criterion",
    task=(
        "A sample is inside where the least score of the faces, h(x), is positive. For data['W'], "
        "rows (weight, "
        "bias), and data['X'], data['y'], what is E_P = Σᵢ [−yᵢ h(xᵢ)]₊?"
    ),
    hint="h is −1, 0.5, −0.5, −1.5. Which of the samples are on the wrong side?",
    solution=0.5,
    why="Only x = 1 is wrong, by ½.",
    data={"X": _X, "y": _Y, "W": _W},
    mistakes=(
        (3.5, "Only samples on the wrong side count, each with its own h."),
        (1.0, "It counts how far, not how many."),
        (0.0, "x = 1 is inside by its label, and outside by the second face."),
    ),
)


def _judge_trap(W: Any) -> str | None:
    h = _least_scores(W)
    if np.maximum(0.0, -_Y * h).sum() > 0:
        return "The criterion is not 0."
    return None if (_Y * h <= 0).any() else "All samples are on their right sides."


polyceptron_2 = Find(
    title="A criterion of 0 that means nothing",
    task=(
        "Give two faces W for data['X'], data['y'] with E_P = 0 (of polyceptron_1) that do not answer right "
        "for all samples."
    ),
    hint="What is E_P of a multiple of W?",
    solution=[[0.0, 0.0], [0.0, 0.0]],
    why="E_P(tW) = t E_P(W), so that W = 0 is a minimum on any data: exact minimisation needs a margin.",
    data={"X": _X, "y": _Y},
    judge=_judge_trap,
    mistakes=(
        ([[1.0, 1.0], [-1.0, 0.5]], "Its criterion is ½."),
        ([[1.0, 1.0], [-1.0, 1.5]], "It answers right for all."),
        ([[1.0, 0.0], [1.0, 0.0]], "Its criterion is not 0."),
    ),
)


def _judge_inside(W: Any) -> str | None:
    h = _least_scores(W)
    if not (_Y * h > 0).all():
        return f"Samples {np.flatnonzero(_Y * h <= 0).tolist()} are not on their right sides."
    return None


polyceptron_3 = Find(
    title="Faces by hand",
    task=(
        "Give two faces W, rows (weight, bias), with which the inside is exactly what data['y'] "
        "says of data['X']."
    ),
    hint="One face is to be 0 between x = −2 and x = 0, the other between x = 1 and x = 2.",
    solution=[[1.0, 1.0], [-1.0, 1.5]],
    why="The inside is −1 < x < 1.5: an interval is a polytope with two faces.",
    data={"X": _X, "y": _Y},
    judge=_judge_inside,
    mistakes=(
        ([[1.0, 1.0], [1.0, 1.0]], "One side only."),
        ([[-1.0, -1.0], [1.0, -1.5]], "Inside out."),
        ([[1.0, 1.0], [-1.0, 0.5]], "x = 1 is outside."),
    ),
)

polyceptron_4 = Number(
    title="The best scale",
    task=(
        "Brought to another scale, faces answer as before. Of t·W with W = [[1, 1], [−1, 1.5]] and "
        "data['X'], data['y'], "
        "for which least t is the margin error Σᵢ [1 − yᵢ t h(xᵢ)]₊ equal to 0?"
    ),
    hint="The least yᵢ h(xᵢ) must become 1.",
    solution=2.0,
    why="h is −1, 1, 0.5, −0.5: the least of yᵢ h(xᵢ) is ½.",
    data={"X": _X, "y": _Y},
    mistakes=(
        (1.0, "Two samples are only ½ on their right sides."),
        (0.5, "That is the least margin, not what it is to be multiplied with."),
        (4.0, "There is a smaller one."),
    ),
)

polyceptron_5 = Formula(
    title="The exact program's dual",
    task=(
        "A face's exact program minimises Σᵢ Cᵢ ξᵢ where yᵢ w·x̃ᵢ ≥ 1 − ξᵢ, with the multipliers "
        "uᵢ, and |wₗ| ≤ R, with "
        "s⁺ₗ and s⁻ₗ. What does its dual maximise?"
    ),
    hint="It is a linear program: only the right sides count, 1 for u, and R for s⁺ and s⁻.",
    solution="Σᵢ uᵢ − R Σₗ (s⁺ₗ + s⁻ₗ)",
    why="A pull that does not balance is held by the box, and that costs R for each unit.",
    program=lambda: polyceptron.cell_dual(*two_blobs(6, 2, 0), radius=3.0),
    mistakes=(
        ("Σᵢ uᵢ", "The box is lost: it holds what does not balance."),
        ("Σᵢ uᵢ + R Σₗ (s⁺ₗ + s⁻ₗ)", "The box costs; it does not pay."),
        ("Σᵢ uᵢ − R Σₗ (s⁺ₗ − s⁻ₗ)", "Both sides of the box cost."),
    ),
)
