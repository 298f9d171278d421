"""PLUME: responsibilities, the M-step, its dual, and what a sharp gate does."""

from __future__ import annotations

from typing import Any

import numpy as np

from formulations import plume
from formulations.mixture import responsibilities
from formulations.samples import two_blobs
from polyopt.exercises.exercise import Find, Formula, Number, finite

__all__ = ["plume_1", "plume_2", "plume_3", "plume_4"]

_X = np.array([[-2.0], [-1.0], [0.0], [1.0], [2.0]])
_Y = np.array([-1.0, 1.0, 1.0, 1.0, -1.0])


def _program(make: Any) -> Any:
    X, y = two_blobs(6, 2, 0)
    R = responsibilities(X, y, np.random.default_rng(0).normal(size=(2, 3)), 0.8)
    return make(X, y, R, 0.8, ridge=1.2)


plume_1 = Number(
    title="The gate",
    task=(
        "A sample has the scores 0 and 1 at two faces, and γ = 1. What shares does the gate exp(−γ "
        "s) give the faces? To three decimals."
    ),
    hint="exp(0) and exp(−1), over their sum.",
    solution=[0.7310585786300049, 0.2689414213699951],
    why=(
        "The face with the least score has the most say: it is the one that the sample is nearest "
        "to leaving by."
    ),
    mistakes=(
        ([0.2689414213699951, 0.7310585786300049], "The sign of γ: the least score has the most say."),
        ([0.5, 0.5], "That is γ = 0."),
        ([1.0, 0.0], "That is where γ goes to infinity."),
    ),
    tolerance=6e-4,
)

plume_2 = Formula(
    title="The M-step",
    task=(
        "For responsibilities Rᵢₖ the M-step minimises Σᵢ Cᵢ [ln Σₖ exp(−γ Sᵢₖ) + Σₖ Rᵢₖ (γ Sᵢₖ + "
        "…)] + ρ/2 ‖W‖². Give it whole: "
        "the dots are what the expert k pays for sample i, with p(yᵢ) = 1/(1 + exp(−yᵢ Sᵢₖ))."
    ),
    hint="It is −ln p(yᵢ).",
    solution="Σᵢ Cᵢ [ln Σₖ exp(−γ Sᵢₖ) + Σₖ Rᵢₖ (γ Sᵢₖ + ln(1 + exp(−yᵢ Sᵢₖ)))] + ρ/2 ‖W‖²",
    why="It is convex in W: a log-sum-exp, linear terms, logistic losses and a ridge.",
    program=lambda: _program(plume.m_step),
    mistakes=(
        (
            "Σᵢ Cᵢ [ln Σₖ exp(−γ Sᵢₖ) + Σₖ Rᵢₖ (γ Sᵢₖ + ln(1 + exp(yᵢ Sᵢₖ)))] + ρ/2 ‖W‖²",
            "The sign of yᵢ: the loss falls where the score and the label agree.",
        ),
        (
            "Σᵢ Cᵢ [ln Σₖ exp(−γ Sᵢₖ) + Σₖ Rᵢₖ (γ Sᵢₖ − ln(1 + exp(−yᵢ Sᵢₖ)))] + ρ/2 ‖W‖²",
            "A log-likelihood is maximised; here its negative is minimised.",
        ),
        (
            "Σᵢ Cᵢ [ln Σₖ exp(−γ Sᵢₖ) + Σₖ (γ Sᵢₖ + ln(1 + exp(−yᵢ Sᵢₖ)))] + ρ/2 ‖W‖²",
            "The responsibilities are lost.",
        ),
    ),
)

plume_3 = Formula(
    title="Its dual's rows",
    task="In the dual, pᵢₖ are shares of the gate. Which equation do they keep?",
    hint="The conjugate of a log-sum-exp is an entropy of shares.",
    solution="Σₖ pᵢₖ = 1",
    why="The conjugate of ln Σₖ exp is finite for shares alone.",
    program=lambda: _program(plume.m_step_dual),
    of="gate",
    mistakes=(
        ("Σᵢ pᵢₖ = 1", "Of a sample over the faces, not of a face over the samples."),
        ("Σₖ pᵢₖ = 0", "Shares add up to all of it."),
        ("Σₖ pᵢₖ ≤ 1", "It is an equation."),
    ),
)


def _judge_inside(W: Any) -> str | None:
    W = finite(W, (2, 2), "there are two faces of two numbers: the weight of x, and the bias")
    S = _X @ W[:, :1].T + W[:, 1]
    gate = np.exp(-(S - S.min(axis=1, keepdims=True)))
    p = (gate / gate.sum(axis=1, keepdims=True) / (1.0 + np.exp(-S))).sum(axis=1)
    share = float(np.where(_Y > 0, p, 1.0 - p).min())
    return None if share >= 0.8 else f"The least probability of a right label is {share:.3g}."


plume_4 = Find(
    title="Sure of an interval",
    task=(
        "With the gate gₖ of plume_1, γ = 1 and p(inside) = Σₖ gₖ/(1 + exp(−sₖ)), give two faces W, rows "
        "(weight, bias), with which every sample of data['X'] has its label data['y'] with probability 0.8 "
        "at least."
    ),
    hint="Thresholds at −1.5 and 1.5. Steeper faces are surer.",
    solution=[[5.0, 7.5], [-5.0, 7.5]],
    why="The gate takes the face that the sample is nearest to leaving by, and its expert is sure.",
    data={"X": _X, "y": _Y},
    judge=_judge_inside,
    mistakes=(
        ([[0.5, 0.75], [-0.5, 0.75]], "Too flat."),
        ([[5.0, 7.5], [5.0, 7.5]], "One side."),
        ([[-5.0, -7.5], [5.0, -7.5]], "Inside out."),
    ),
)
