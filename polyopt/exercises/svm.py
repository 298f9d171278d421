"""Optimisation for classifiers: margins, multipliers as prices, duality, certificates."""

from __future__ import annotations

from typing import Any

import numpy as np

from formulations import svm
from formulations.samples import two_blobs
from polyopt.certificates import certify_svm
from polyopt.exercises.exercise import Find, Formula, Number, finite

__all__ = ["svm_1", "svm_2", "svm_3", "svm_4", "svm_5", "svm_6", "svm_7"]

_X = np.array([[-2.0], [-1.0], [0.5], [0.0], [1.0], [3.0]])
_Y = np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 1.0])
_LARGEST = 1e6  # of a weight: its square is still a number that a person reads
_INSEPARABLE = np.array([[0.0], [1.0], [2.0]]), np.array([-1.0, 1.0, -1.0])


def _dual() -> Any:
    return svm.dual(*two_blobs(6, 3, 0))


svm_1 = Formula(
    title="The dual of the support vector machine",
    task=(
        "The machine minimises ½‖w‖² + Σᵢ Cᵢ ξᵢ where yᵢ(w·xᵢ + b) ≥ 1 − ξᵢ, with the multipliers αᵢ, and "
        "ξᵢ ≥ 0. Minimise the Lagrangian over w, b and ξ, and give what is left, a function of α, with "
        "Kᵢⱼ = xᵢ·xⱼ."
    ),
    hint="The slope in w is 0 at w = Σᵢ αᵢ yᵢ xᵢ. Put that into ½‖w‖² − Σᵢ αᵢ yᵢ w·xᵢ + Σᵢ αᵢ.",
    solution="Σᵢ αᵢ − ½ Σᵢⱼ αᵢ αⱼ yᵢ yⱼ Kᵢⱼ",
    why="With w = Σᵢ αᵢ yᵢ xᵢ the terms in w add up to −½‖w‖², and b and ξ drop out by the rows of the dual.",
    program=_dual,
    mistakes=(
        ("Σᵢ αᵢ − Σᵢⱼ αᵢ αⱼ yᵢ yⱼ Kᵢⱼ", "The ½ is lost: ½‖w‖² less ‖w‖² leaves −½‖w‖²."),
        ("Σᵢ αᵢ + ½ Σᵢⱼ αᵢ αⱼ yᵢ yⱼ Kᵢⱼ", "The sign of the square: ½‖w‖² less ‖w‖² is negative."),
        ("Σᵢ αᵢ − ½ Σᵢⱼ αᵢ αⱼ Kᵢⱼ", "The labels are lost: w is Σᵢ αᵢ yᵢ xᵢ."),
    ),
)

svm_2 = Formula(
    title="What the intercept asks of the multipliers",
    task="The Lagrangian of the machine is minimised over b as well. Which equation must α keep for that?",
    hint="b stands in −Σᵢ αᵢ yᵢ b alone, and has no bound.",
    solution="Σᵢ αᵢ yᵢ = 0",
    why="Otherwise b could make the Lagrangian as low as one likes.",
    program=_dual,
    of="b",
    mistakes=(
        ("Σᵢ αᵢ = 0", "The labels are lost."),
        ("Σᵢ αᵢ yᵢ ≥ 0", "b has either sign, so that it must be an equation."),
        ("Σᵢ αᵢ yᵢ = 1", "It is the factor of b that must vanish."),
    ),
)

svm_3 = Number(
    title="A multiplier by hand",
    task="Two samples, x = −1 with the label −1 and x = 3 with the label +1, and C = 10. What is α, the "
    "same number for both?",
    hint="Both are on the margin: w = 1/2. Then w = Σᵢ αᵢ yᵢ xᵢ, and Σᵢ αᵢ yᵢ = 0.",
    solution=0.125,
    why="w = 2/4 = 1/2, and w = α (3 + 1), so α = 1/8; what it costs to ask for more margin.",
    mistakes=(
        (0.5, "That is w. It is α (3 + 1)."),
        (10.0, "That is the cap C, which samples inside of the margin have."),
        (0.25, "The margin is from −1 to 1, 2 wide, over a distance of 4."),
    ),
)

svm_4 = Number(
    title="Inside of the margin",
    task="A sample has yᵢ f(xᵢ) = 0.3 at the optimum of a machine with C = 2. What is its multiplier?",
    hint="Its slack is above 0, so that the multiplier of ξᵢ ≥ 0 is 0, and the two add up to C.",
    solution=2.0,
    why="αᵢ + βᵢ = C, and βᵢ = 0 where ξᵢ > 0: the sample pays all it can.",
    mistakes=(
        (0.0, "That is beyond the margin, where yᵢ f(xᵢ) > 1."),
        (0.7, "That is the slack. Its price is the multiplier."),
        (1.4, "That is what the slack costs, C ξᵢ."),
    ),
)


def _bound(alpha: Any) -> str | None:
    alpha = finite(alpha, _Y.shape, f"there are {len(_Y)} multipliers")
    found = certify_svm(_X, _Y, w=np.zeros(1), b=0.0, C=1.0, alpha=alpha)
    if min(alpha.min(), 1.0 - alpha.max()) < 0.0:
        return "A multiplier is below 0 or above C = 1."
    if abs(alpha @ _Y) > 1e-9:
        return f"The multipliers are not in balance: Σᵢ αᵢ yᵢ is {alpha @ _Y:.3g}."
    if not found.dual_value >= 2.0:
        return f"They prove that no machine costs less than {found.dual_value:.4g}: less than 2."
    return None


svm_5 = Find(
    title="Prove a bound",
    task=(
        "For the samples data['X'], data['y'] and C = 1, give multipliers α that prove: no machine "
        "costs less "
        "than 2. They need not be the best."
    ),
    hint="0 ≤ αᵢ ≤ 1 and Σᵢ αᵢ yᵢ = 0. The samples at 0.5 and 0 are on the wrong sides of each other.",
    solution=[0.0, 0.6, 1.0, 1.0, 0.6, 0.0],
    why="Any multipliers within their caps and in balance bound the optimum from below: weak duality.",
    data={"X": _X, "y": _Y},
    judge=_bound,
    mistakes=(
        ([0.0] * 6, "They prove 0."),
        ([2.0, 0.0, 0.0, 2.0, 0.0, 0.0], "Above the cap."),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 0.0], "Not in balance."),
        ([1.0] * 6, "In balance, but the square of the pull is large."),
    ),
)


def _far(answer: Any) -> str | None:
    w, b = answer
    w, b = finite(np.reshape(w, 1), (1,), "w is a number"), float(finite(b, (), "b is a number"))
    X, y = _X[[0, 1, 4, 5]], _Y[[0, 1, 4, 5]]
    if not (y * (X[:, 0] * w + b) > 0).all():
        return "It does not answer right for all four samples."
    if abs(w[0]) > _LARGEST:
        raise ValueError("w is larger than need be")
    found = certify_svm(X, y, w=w, b=b, C=1.0)
    if not found.primal_value - found.dual_value > 1.0:
        return f"It is within {max(found.gap, 0.0):.3g} of the optimum."
    return None


svm_6 = Find(
    title="Right everywhere, and far from optimal",
    task=(
        "For the samples data['X'], data['y'] and C = 1, give (w, b) that answers right for all of "
        "them and is "
        "more than 1 above the optimum."
    ),
    hint="What does ½w² cost where w is large? And what do slacks cost where w is small?",
    solution=(4.0, 0.0),
    why=(
        "The objective asks for a wide margin, not for right answers alone; a certificate sees the "
        "difference."
    ),
    data={"X": _X[[0, 1, 4, 5]], "y": _Y[[0, 1, 4, 5]]},
    judge=_far,
    mistakes=(
        ((1.0, 0.0), "That is the optimum."),
        ((-4.0, 0.0), "It answers wrong."),
        ((4.0, 40.0), "It answers wrong."),
    ),
)


def _ray(alpha: Any) -> str | None:
    X, y = _INSEPARABLE
    alpha = finite(alpha, y.shape, "there are three multipliers")
    if alpha.min() < 0:
        return "A multiplier is negative."
    if abs(alpha @ y) > 1e-9 or abs(alpha @ (y * X[:, 0])) > 1e-9:
        return "What is left of w or b does not cancel: Σᵢ αᵢ yᵢ and Σᵢ αᵢ yᵢ xᵢ must be 0."
    return None if alpha.sum() > 0 else "With α = 0 the rows add up to 0 ≥ 0, which is no contradiction."


svm_7 = Find(
    title="No line separates them: prove it",
    task=(
        "Samples at 0, 1, 2 have the labels −1, +1, −1. Give αᵢ ≥ 0 with which the rows yᵢ(w xᵢ + "
        "b) ≥ 1 add up to "
        "a contradiction, 0 ≥ something positive."
    ),
    hint="w and b must cancel: Σᵢ αᵢ yᵢ xᵢ = 0 and Σᵢ αᵢ yᵢ = 0.",
    solution=[1.0, 2.0, 1.0],
    why="Then 0 = Σᵢ αᵢ yᵢ(w xᵢ + b) ≥ Σᵢ αᵢ > 0. Such α are a ray of the dual (Farkas).",
    data={"X": _INSEPARABLE[0], "y": _INSEPARABLE[1]},
    judge=_ray,
    mistakes=(
        ([0.0, 0.0, 0.0], "It says nothing."),
        ([1.0, 1.0, 1.0], "b does not cancel."),
        ([2.0, 2.0, 0.0], "w does not cancel."),
    ),
)
