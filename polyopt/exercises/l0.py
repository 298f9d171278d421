"""Few support vectors: the one-norm machine, patterns, and the cross-entropy method."""

from __future__ import annotations

from typing import Any

import numpy as np

from formulations import one_norm
from polyopt.exercises.exercise import Find, Formula, Number, whole

__all__ = ["l0_1", "l0_2", "l0_3", "l0_4", "l0_5"]

_X = np.array([-2.0, -1.5, 1.5, 2.0])
_Y = np.array([1.0, -1.0, -1.0, 1.0])


def _program(make: Any) -> Any:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5, 2)), np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    return make(X @ X.T, y, 1.5)


l0_1 = Formula(
    title="The one-norm machine",
    task=(
        "It expands the score as Σⱼ Kᵢⱼ yⱼ αⱼ + b, with αⱼ ≥ 0, and pays for the sum of the αⱼ "
        "instead of a norm of w, "
        "and Cᵢ for each slack. What does it minimise?"
    ),
    hint="Nothing is squared.",
    solution="Σⱼ αⱼ + Σᵢ Cᵢ ξᵢ",
    why="It is a linear program, whose vertices have many αⱼ of exactly 0.",
    program=lambda: _program(one_norm.primal),
    mistakes=(
        ("½ Σⱼ αⱼ² + Σᵢ Cᵢ ξᵢ", "A square makes small weights cheap, and leaves none at 0."),
        ("Σⱼ αⱼ − Σᵢ Cᵢ ξᵢ", "Slack costs; it does not pay."),
        ("Σᵢ Cᵢ ξᵢ", "Then nothing keeps the expansion short."),
    ),
)

l0_2 = Formula(
    title="Its dual",
    task=(
        "The one-norm machine of l0_1, with caps αⱼ ≤ Cⱼ: the multipliers of its margin rows are uᵢ, "
        "those of the caps sⱼ. What does the dual maximise?"
    ),
    hint="A linear program's dual has the right sides for its objective.",
    solution="Σᵢ uᵢ − Σⱼ Cⱼ sⱼ",
    why="The margins ask for 1, and the caps hold αⱼ at Cⱼ.",
    program=lambda: _program(one_norm.dual),
    mistakes=(
        ("Σᵢ uᵢ", "The caps are lost."),
        ("Σᵢ uᵢ + Σⱼ Cⱼ sⱼ", "What holds αⱼ back takes from the bound."),
        ("Σᵢ Cᵢ uᵢ − Σⱼ sⱼ", "The costs belong to the caps; the margins ask for 1."),
    ),
)


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


l0_3 = Find(
    title="A pattern of two",
    task=(
        "With the kernel (1 + xz)² and the samples data['X'], data['y'], two samples j with αⱼ > 0 "
        "are enough to bring all four "
        "beyond their margins. Give their places, counted from 0."
    ),
    hint="The score must be high at both ends and low in the middle: a square, with its bottom near 0.",
    solution=[0, 3],
    why="(1 − 2x)² + (1 + 2x)² = 2 + 8x² is even; b brings it down in the middle.",
    data={"X": _X, "y": _Y},
    judge=_judge_pattern,
    mistakes=(([0], "Lopsided."), ([2], "Lopsided, too."), ([0, 1, 2, 3], "More than two.")),
)

l0_4 = Number(
    title="A step of the cross-entropy method",
    task=(
        "Four patterns over three samples were drawn: 110, 100, 011, 111, and cost 2, 1, 4, 3. The "
        "better half is the "
        "elite. The probabilities were ½ each; the step's smoothing takes 0.8 of the elite's "
        "shares and 0.2 of what "
        "was. What are the three probabilities now?"
    ),
    hint="The elite are 110 and 100: the shares of 1 in it are 1, ½ and 0.",
    solution=[0.9, 0.5, 0.1],
    why="0.8 · (1, ½, 0) + 0.2 · (½, ½, ½). Smoothing keeps the probabilities off 0 and 1.",
    mistakes=(
        ([1.0, 0.5, 0.0], "The smoothing is lost."),
        ([0.6, 0.5, 0.4], "0.8 is the share of the elite, not of what was."),
        ([0.7, 0.7, 0.5], "The shares are those of the elite, not of all patterns."),
    ),
)

l0_5 = Number(
    title="How many patterns",
    task=(
        "Of 20 samples at most 3 are to be support vectors. How many patterns are there, the empty "
        "one included?"
    ),
    hint="Choose 0, 1, 2 or 3 of 20.",
    solution=1351.0,
    why="1 + 20 + 190 + 1140. Branch and bound looks at few of them, and its tree proves the rest.",
    mistakes=(
        (1140.0, "Those of exactly 3; fewer are allowed."),
        (8000.0, "The order does not count, and no sample twice."),
        (1350.0, "The empty pattern is one, too."),
    ),
)
