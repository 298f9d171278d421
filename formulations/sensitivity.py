"""Derivatives of the optimal value of every program by its parameters, read off one solution.

Problem
-------
Let p(θ) be the optimal value of a minimisation whose objective and constraints g(x; θ) ≤ 0 depend on a
parameter θ, and Lag(x, μ; θ) the objective plus μ·g. At an optimal x with multipliers μ ≥ 0 the envelope
theorem gives dp/dθ = ∂Lag/∂θ (x, μ; θ), the derivative of the terms that contain θ: changes of x and μ have
no effect to first order. So one solution gives the derivative by every parameter.

Derivatives
-----------
w_i is the weight of sample i, C_i = C w_i the cost of its slack ξ_i. W, or w without index, are the machine's
coefficients, α those of a kernel expansion, b the biases. The column on the right explains other letters.

SVM, Sigma-SVM, RMM, CPM      dp/dC = Σ w_i ξ_i                    ξ: in the dual, multiplier of α_i ≤ C_i
RMM, (7)                      dp/dB = −Σ (λ_i + λ*_i)              the multipliers of f_i ≤ B and −f_i ≤ B
Sigma-SVM, (3)                dp/dD = ½ (w'Σw − ‖w‖²)              the metric (1−D) I + D Σ, Σ the covariance
one-norm machine              dp/dC = Σ w_i ξ_i − Σ w_j s_j        s_j: multiplier of the cap α_j ≤ C w_j
L0 machine, fixed pattern     dL/dC = −Σ σ_j s_j                   s_j: multiplier of the cap α_j ≤ C σ_j
                              dS/dC = L − C Σ σ_j s_j              S = 1'σ + C L: pattern σ, its least loss L
Polyceptron, PC-SLP           dp/dR = −Σ (s⁺ + s⁻)                 s±: multipliers of the box ±W ≤ R
SPLA1, PLUME                  dp/dρ = ½ ‖W‖²                       the ridge
logistic polytopes            dp/dρ = ½ ‖w‖² + ½ (η/ρ) ‖b‖²        ridges ρ of w, η of b; η/ρ is fixed
                              dp/dλ = Σ |w|                        the ℓ1 penalty
PLUME                         dp/dγ = Σ_i w_i Σ_k (r_ik − g_ik) s_ik   scores s, gate g, responsibilities r

For the polyhedral machines p is the value for the assignment (the cells, the responsibilities) of the
solution. If that is the best assignment for its faces, the minimum over assignments has the same derivative.

Elasticity
----------
(θ/p) dp/dθ, the change of p in percent for one percent of θ; it has no unit, and does not depend on the units
of the features or of the cost.

One side
--------
p is concave in a parameter of the objective (C as a cost alone, D), convex in one of the right-hand side (B,
R, the caps). If the solution (for the objective) or the multipliers (for the right-hand side) are not unique,
p has a kink, and each solution (or vector of multipliers) gives a number between the one-sided slopes of p.
There is no kink in the cost of slack if the regulariser is strictly convex: w is then unique, and with it
½‖w‖² and so Σ C_i ξ_i. p may have kinks in B and R, and for linear programs, if more rows are active than the
solution has degrees of freedom.

Reference
---------
Milgrom & Segal, Envelope Theorems for Arbitrary Choice Sets (2002); for linear and convex programs
Gol'shtein (1972), whose theorem gives the two sides. dp/dB is the reading of λ in Shivaswamy & Jebara,
Relative Margin Machines (2008), eq. (7). The rest is derived here.

Example
-------
>>> import numpy as np
>>> from formulations import rmm, sensitivity
>>> from formulations.language.toy_data import two_blobs
>>> X, y = two_blobs()
>>> at = rmm.qp(X, y, C=1.0, B=1.5).solve()
>>> slope = sensitivity.bound(1.5, at.objective, [at.duals["bound_above"], at.duals["bound_below"]])
>>> low, high = (rmm.qp(X, y, C=1.0, B=B).solve().objective for B in (1.4999, 1.5001))
>>> bool(abs((high - low) / 2e-4 - slope.derivative) < 1e-4 * abs(slope.derivative))
True
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from formulations import mixture
from formulations.language.types import Matrix, Vector


@dataclass(frozen=True)
class Sensitivity:
    """The derivative of an optimal value by one parameter."""

    parameter: str  # name of the parameter θ
    value: float  # θ
    derivative: float  # dp/dθ; if `two_sided` is False, one one-sided slope or a number between both
    objective: float  # optimal value p
    formula: str  # the derivative as printed
    two_sided: bool = True  # True if the slopes on both sides of θ are known to be equal

    @property
    def elasticity(self) -> float:
        """The change of p in percent for one percent of θ; nan if p is 0."""
        if self.objective == 0.0:
            return np.nan
        return self.value * self.derivative / self.objective if self.derivative != 0.0 else 0.0


def cost(
    C: float, objective: float, xi: ArrayLike, weights: ArrayLike = 1.0, *,
    name: str = "C", letters: Sequence[str] = ("ξ",),
) -> Sensitivity:  # fmt: skip
    """Differentiate by a cost of slack that is in no constraint: dp/dC = Σ w_i ξ_i.

    `name` is the name of the cost, and `letters` are the letters of the slacks in the formula.
    """
    slacks = " + ".join(f"{letter}ᵢ" for letter in letters)
    formula = f"Σ wᵢ {slacks}" if len(letters) == 1 else f"Σ wᵢ ({slacks})"
    return Sensitivity(name, C, float(np.sum(np.multiply(weights, xi))), objective, formula)


def bound(
    B: float, objective: float, multipliers: Iterable[ArrayLike], two_sided: bool = True
) -> Sensitivity:
    """Differentiate by the RMM's bound B on its outputs: dp/dB = −Σ (λ_i + λ*_i), over both `multipliers`."""
    slope = 0.0 - float(sum(np.sum(mu) for mu in multipliers))
    return Sensitivity("B", B, slope, objective, "−Σ (λᵢ + λ*ᵢ)", two_sided)


def box(radius: float, objective: float, s: ArrayLike, two_sided: bool = True) -> Sensitivity:
    """Differentiate by the radius R of the box |W| ≤ R: dp/dR = −Σ (s⁺ + s⁻); `s` has the terms s⁺ + s⁻."""
    return Sensitivity("radius", radius, 0.0 - float(np.sum(s)), objective, "−Σ (s⁺ + s⁻)", two_sided)


def price(name: str, value: float, objective: float, size: float, two_sided: bool = True) -> Sensitivity:
    """Differentiate by the penalty `name`, "l1" or "group"; the derivative is `size`.

    `size` is dp/dλ = Σ |W_kj| for "l1", and dp/dτ, the sum of the norms of the groups, for "group".
    """
    formula = {"l1": "Σ |Wₖⱼ|", "group": "Σₗ ‖W of group l‖"}[name]
    return Sensitivity(name, value, size, objective, formula, two_sided and value > 0.0)


def ridge(rho: float, objective: float, W: ArrayLike) -> Sensitivity:
    """Differentiate by the ridge ρ on the faces, biases included: dp/dρ = ½ ‖W‖²."""
    return Sensitivity("ridge", rho, 0.5 * float(np.sum(np.square(W))), objective, "½ ‖W‖²", rho > 0.0)


def gate(
    gamma: float, objective: float, X: Matrix, y: Vector, W: Vector, weights: Vector | float = 1.0
) -> Sensitivity:
    """Differentiate by the sharpness γ of PLUME's gate: dp/dγ = Σ_i w_i Σ_k (r_ik − g_ik) s_ik.

    The derivative is the same for the M-step with the responsibilities of W fixed and for the negative
    log-likelihood at its stationary point W: the M-step majorises the likelihood and touches it at W for
    every γ.
    """
    difference = mixture.responsibilities(X, y, W, gamma) - mixture.gate(X, W, gamma)
    slope = float(np.sum(np.multiply(weights, np.sum(difference * mixture.scores_in_blocks(X, W), axis=1))))
    return Sensitivity("gamma", gamma, slope, objective, "Σ wᵢ Σₖ (rᵢₖ − gᵢₖ) sᵢₖ", gamma > 0.0)
