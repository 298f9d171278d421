"""Relative Margin Machines and the Sigma-SVM."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from formulations import rmm, rmm_qcqp, sigma_svm, svm
from formulations.samples import two_blobs
from polyopt.certificates import certify_rmm
from polyopt.exercises.exercise import Find, Formula, finite

__all__ = ["rmm_1", "rmm_2", "rmm_3", "rmm_4", "rmm_5"]

_X = np.array([[-4.0, 1.0], [-1.0, 0.0], [-1.0, -2.0], [1.0, 0.5], [1.5, -1.0], [5.0, 2.0]])
_Y = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])


rmm_1 = Formula(
    title="The bound as a square",
    task=(
        "A Relative Margin Machine keeps every score w·xᵢ + b between −B and B. Write that as one "
        "inequality in a "
        "square, with ½ in front of both sides as the paper has it."
    ),
    hint="A number is between −B and B where its square is at most B².",
    solution="½(w·xᵢ + b)² ≤ ½B²",
    why="One quadratic row stands for two linear ones; the machine is then a QCQP.",
    program=lambda: rmm_qcqp.qcqp(*two_blobs(6, 2, 0), B=1.5),
    of="spread",
    mistakes=(
        ("½(w·xᵢ + b)² ≤ B²", "The ½ stands on one side only."),
        ("½(w·xᵢ + b)² ≤ ½B", "B must be squared, too."),
        ("½(w·xᵢ + b)² ≥ ½B²", "That keeps the scores out of the bounds."),
    ),
)

rmm_2 = Formula(
    title="The dual of the Relative Margin Machine",
    task=(
        "The linear rows w·xᵢ + b ≤ B and −(w·xᵢ + b) ≤ B have the multipliers λᵢ and λ*ᵢ; βᵢ is "
        "αᵢ yᵢ − λᵢ + λ*ᵢ. "
        "What does the dual maximise? Write λ* with its star."
    ),
    hint=(
        "As of the SVM, with β in the place of αᵢ yᵢ; and each bound costs B for each unit of its multiplier."
    ),
    solution="−½ β'Kβ + Σᵢ αᵢ − B Σᵢ λᵢ − B Σᵢ λ*ᵢ",
    why="w = Σᵢ βᵢ xᵢ, and the constants of the rows are 1 for α and −B for λ and λ*.",
    program=lambda: rmm.qp_dual(*two_blobs(6, 2, 0), B=1.5),
    mistakes=(
        ("−½ β'Kβ + Σᵢ αᵢ + B Σᵢ λᵢ + B Σᵢ λ*ᵢ", "A bound that is pulled at costs: the sign of B."),
        ("−½ β'Kβ + Σᵢ αᵢ", "The constants B of the bounds are lost."),
        ("−½ β'Kβ + Σᵢ αᵢ − Σᵢ λᵢ − Σᵢ λ*ᵢ", "The right side of a bound is B, not 1."),
    ),
)


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


rmm_3 = Find(
    title="Choose B",
    task=(
        "For the samples data['X'], data['y'] and C = 1, which is the least B at which the Relative Margin "
        "Machine is the SVM itself? To a thousandth."
    ),
    hint="Solve the SVM, and look at its largest score.",
    solution=87 / 17,
    why="From the largest score of the SVM on no bound is pulled at, and all λ are 0.",
    data={"X": _X, "y": _Y},
    judge=_judge_bound,
    mistakes=((1.0, "Too small."), (1.5, "It cuts off scores."), (10.0, "It does it, but is not the least.")),
)


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


rmm_4 = Find(
    title="Near the optimum by hand",
    task=(
        "For the samples data['X'], data['y'], C = 1 and B = 1.5, give (w, b) whose value is "
        "within 2 % of the "
        "optimum, by any means but ours: scipy, a grid, a pencil."
    ),
    hint="The bound holds at both ends, x = (−4, 1) and x = (5, 2).",
    solution=([0.315, 0.15], -0.38),
    why="The certificate bounds the optimum from below, so that a value near that is near the optimum.",
    data={"X": _X, "y": _Y},
    judge=_judge_machine,
    mistakes=(
        (([0.0, 0.0], 0.0), "All slacks are 1."),
        (([1.0, 0.0], 0.0), "The bounds are broken."),
        (([0.1, 0.0], 0.0), "There is room up to the bounds."),
    ),
)

rmm_5 = Formula(
    title="The Sigma-SVM",
    task=(
        "The Sigma-SVM weighs ‖w‖² and the variance of the scores, ‖Σ^½ w‖², by 1 − D and D, each "
        "with a half, and pays Cᵢ for each slack ξᵢ. What does it minimise?"
    ),
    hint="With D = 0 it is the SVM: ½‖w‖² and the slacks.",
    solution="(1−D)/2 ‖w‖² + D/2 ‖Σ^½ w‖² + Σᵢ Cᵢ ξᵢ",
    why="With D = 0 it is the SVM; towards D = 1 the spread of the scores alone counts.",
    program=lambda: sigma_svm.primal(*two_blobs(6, 2, 0), D=0.3),
    mistakes=(
        ("(1−D) ‖w‖² + D ‖Σ^½ w‖² + Σᵢ Cᵢ ξᵢ", "The halves are lost."),
        ("D/2 ‖w‖² + (1−D)/2 ‖Σ^½ w‖² + Σᵢ Cᵢ ξᵢ", "D and 1 − D have changed places."),
        ("½‖w‖² + D/2 ‖Σ^½ w‖² + Σᵢ Cᵢ ξᵢ", "The share of ‖w‖² is 1 − D."),
    ),
)
