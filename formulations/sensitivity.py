"""How the optimal value of every program moves with its parameters, read off one solution.

Problem
-------
Let p(θ) be the optimal value of a program whose objective and rows depend on a parameter θ, and L(x, μ; θ)
its Lagrangian with the signs of :mod:`formulations.language.program`. At an optimal x with multipliers μ the
envelope theorem gives
     dp/dθ = ∂L/∂θ (x, μ; θ),
the parameter's own terms alone: what x and μ change by costs nothing to first order. So one solution
prices every parameter, and no program is solved again.

Derivatives
-----------
w_i is the weight of sample i, C_i = C w_i its cost, and ξ, W, α, λ, s, u are as in the programs.

SVM, Sigma-SVM, RMM, CPM      dp/dC = Σ w_i ξ_i                    ξ: the multipliers of α_i ≤ C_i
RMM, (7)                      dp/dB = −Σ (λ_i + λ*_i)              the right-hand sides of both bounds
Sigma-SVM, (3)                dp/dD = ½ (w'Σw − ‖w‖²)              D stands in the objective alone
one-norm machine              dp/dC = Σ w_i ξ_i − Σ w_j s_j        C prices slack and caps α_j ≤ C w_j
L0 machine, fixed pattern     dL/dC = −Σ σ_j s_j                   C stands in the caps alone
                              dS/dC = L − C Σ σ_j s_j              S = 1'σ + C L
Polyceptron, PC-SLP           dp/dR = −Σ (s⁺ + s⁻)                 the box |W| ≤ R
SPLA1, PLUME                  dp/dρ = ½ ‖W‖²                       the ridge
logistic polytopes            dp/dρ = ½ ‖w‖² + ½ (η/ρ) ‖b‖²        η moves with the ridge
                              dp/dλ = Σ |w|                        the price of the weights
PLUME                         dp/dγ = Σ_i w_i Σ_k (r_ik − g_ik) s_ik   r responsibilities, g the gate

For the polyhedral machines p is the value for the assignment (the cells, the responsibilities) that the
solution has. Where that is the best one for its faces the value of the whole problem has the same slope:
a minimum over assignments moves as its minimiser does.

Elasticity
----------
(θ/p) dp/dθ, the percent by which p moves for one percent of θ: without units, and therefore the same
in any units of the features or of the cost.

One side
--------
p is concave in C where C is a price alone, concave in D, convex in B, in R and in the caps. Where its
solution (of a price) or its multipliers (of a right-hand side) are several, p has a kink, and each of them
gives a number between its slopes on the two sides. A price of slack has no kinks where the regulariser is
strictly convex: w is then unique, and with it ½‖w‖² and so Σ C_i ξ_i. B, R and the linear programs have
them, where more rows hold the solution than it has degrees of freedom.

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

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from formulations import mixture
from formulations.language.types import Matrix, Vector


@dataclass(frozen=True)
class Sensitivity:
    """How an optimal value moves with one parameter.

    Attributes
    ----------
    parameter, value : str, float
        Its name, and its value θ.
    derivative : float
        dp/dθ; on one side of θ, or between both, where `two_sided` is False.
    objective : float
        The optimal value p.
    formula : str
        What the derivative was computed from.
    two_sided : bool
        Whether the slopes on both sides of θ are known to be the same.
    """

    parameter: str
    value: float
    derivative: float
    objective: float
    formula: str
    two_sided: bool = True

    @property
    def elasticity(self) -> float:
        """The percent by which p moves for one percent of θ; nan where p is 0."""
        if self.derivative == 0.0:
            return 0.0 if self.objective != 0.0 else np.nan
        return self.value * self.derivative / self.objective if self.objective != 0.0 else np.nan


def cost(
    C: float,
    objective: float,
    xi: ArrayLike,
    weights: ArrayLike = 1.0,
    *,
    name: str = "C",
    letters: Sequence[str] = ("ξ",),
) -> Sensitivity:
    """The price C of slack, where it is nothing but a price: dp/dC = Σ w_i ξ_i.

    Parameters
    ----------
    C : float
        The price of a unit of slack of weight 1.
    objective : float
        The optimal value.
    xi : array_like
        Every slack that is paid for.
    weights : float or array_like of the shape of xi
        The weights of their samples.
    name : str
        The price's name.
    letters : sequence of str
        Those of the slacks.
    """
    slacks = " + ".join(f"{letter}ᵢ" for letter in letters)
    formula = f"Σ wᵢ {slacks}" if len(letters) == 1 else f"Σ wᵢ ({slacks})"
    return Sensitivity(name, C, float(np.sum(np.multiply(weights, xi))), objective, formula)


def bound(
    B: float, objective: float, multipliers: Iterable[ArrayLike], two_sided: bool = True
) -> Sensitivity:
    """The RMM's bound B on its outputs: dp/dB = −Σ (λ_i + λ*_i).

    Parameters
    ----------
    B : float
        The bound; infinite for none, whose derivative is 0.
    objective : float
        The optimal value.
    multipliers : iterable of array_like
        Multipliers lam and lam_star of the rows bound_above and bound_below of the QP (7). Those of the
        QCQP (5) are these divided by B.
    two_sided : bool
        Whether they are the only ones.
    """
    slope = 0.0 - float(sum(np.sum(each) for each in multipliers))
    return Sensitivity("B", B, slope, objective, "−Σ (λᵢ + λ*ᵢ)", two_sided)


def share(D: float, objective: float, norm: float, variance: float) -> Sensitivity:
    """The Sigma-SVM's share D of the variance: dp/dD = ½ (w'Σw − ‖w‖²).

    At 0 and 1 it is the slope on the side within; at 1, where w need not be unique, for the w of least norm.

    Parameters
    ----------
    D : float
        The share, 0 to 1.
    objective : float
        The optimal value.
    norm, variance : float
        ‖w‖² and w'Σw.
    """
    return Sensitivity("D", D, 0.5 * (variance - norm), objective, "½ (w'Σw − ‖w‖²)", 0.0 < D < 1.0)


def capped_cost(
    C: float, objective: float, xi: ArrayLike, s: ArrayLike, weights: ArrayLike = 1.0, two_sided: bool = True
) -> Sensitivity:
    """C of the one-norm machine, which prices slack and caps coefficients: Σ w_i ξ_i − Σ w_j s_j.

    Parameters
    ----------
    C : float
        Price and cap.
    objective : float
        The optimal value.
    xi, s : array_like of shape (n,)
        Slacks, and multipliers of the caps α_j ≤ C w_j.
    weights : float or array_like of shape (n,)
        The weights of the samples.
    two_sided : bool
        Whether these are the only ones.
    """
    slope = float(np.sum(np.multiply(weights, np.asarray(xi) - np.asarray(s))))
    return Sensitivity("C", C, slope, objective, "Σ wᵢ ξᵢ − Σ wⱼ sⱼ", two_sided)


def pattern_cost(
    C: float, sigma: ArrayLike, loss: float, s: ArrayLike, two_sided: bool = True
) -> Sensitivity:
    """C of the L0 machine with its pattern held: dS/dC = L − C Σ σ_j s_j, of which dL/dC = −Σ σ_j s_j.

    Parameters
    ----------
    C : float
        Price of the loss and cap of the coefficients.
    sigma : array_like of shape (p,)
        The pattern, 0 or 1.
    loss : float
        L(σ).
    s : array_like of shape (p,)
        Multipliers of the caps α_j ≤ C σ_j; those of centres that are off do not count.
    two_sided : bool
        Whether they are the only ones.
    """
    sigma = np.asarray(sigma, dtype=float)
    slope = loss - C * float(sigma @ np.asarray(s))
    value = float(sigma.sum()) + C * loss
    return Sensitivity("C", C, slope, value, "L − C Σ σⱼ sⱼ", two_sided)


def switching_on(C: float, rates: ArrayLike) -> Vector:
    """The least that the L0 score can change by when a centre is switched on, shape (p,).

    Its loss falls at the rate r_j = t_j (K'Yu)_j at first and never faster, for u is dual feasible whatever
    the pattern is (the cut of :mod:`formulations.l0`): the score rises by 1 − C² [r_j]_+ at least. A
    centre for which that is positive cannot pay for itself.

    Parameters
    ----------
    C : float
        Price of the loss and cap of the coefficients.
    rates : array_like of shape (p,)
        The rates r, as :meth:`formulations.l0_data.L0Data.rates` gives them.
    """
    return np.asarray(1.0 - C**2 * np.maximum(np.asarray(rates, dtype=float), 0.0))


def box(radius: float, objective: float, s: ArrayLike, two_sided: bool = True) -> Sensitivity:
    """The radius R of the box |W| ≤ R: dp/dR = −Σ (s⁺ + s⁻).

    Parameters
    ----------
    radius : float
        R.
    objective : float
        The optimal value.
    s : array_like of shape (K, m+1)
        s⁺ + s⁻, for which what the other multipliers lack in balance may stand, in absolute value.
    two_sided : bool
        Whether these multipliers are the only ones.
    """
    return Sensitivity("radius", radius, 0.0 - float(np.sum(s)), objective, "−Σ (s⁺ + s⁻)", two_sided)


def price(name: str, value: float, objective: float, size: float, two_sided: bool = True) -> Sensitivity:
    """A price on the weights of faces, "l1" or "group": dp/dλ = Σ |W_kj|, dp/dτ = the sum of groups' lengths.

    Parameters
    ----------
    name, value, objective : str, float, float
        The price, and the optimal value.
    size : float
        What is priced, at the optimum.
    two_sided : bool
        Whether what is priced is unique, as it is where squares are paid for.
    """
    formula = {"l1": "Σ |Wₖⱼ|", "group": "Σₗ ‖W of group l‖"}[name]
    return Sensitivity(name, value, size, objective, formula, two_sided and value > 0.0)


def ridge(rho: float, objective: float, W: ArrayLike) -> Sensitivity:
    """The ridge ρ on the faces, biases included: dp/dρ = ½ ‖W‖².

    Parameters
    ----------
    rho : float
        ρ.
    objective : float
        The optimal value.
    W : array_like
        Faces, the bias last.
    """
    return Sensitivity("ridge", rho, 0.5 * float(np.sum(np.square(W))), objective, "½ ‖W‖²", rho > 0.0)


def gate(
    gamma: float, objective: float, X: Matrix, y: Vector, W: Vector, weights: Vector | float = 1.0
) -> Sensitivity:
    """PLUME's sharpness γ of the gate: dp/dγ = Σ_i w_i Σ_k (r_ik − g_ik) s_ik.

    It is the same for the M-step with the responsibilities of W held and for the stationary point W of the
    negative log-likelihood, for the one majorises the other and touches it at every γ.

    Parameters
    ----------
    gamma : float
        γ.
    objective : float
        The value of either.
    X : ndarray or CSR of shape (n, m)
        Samples.
    y : ndarray of shape (n,)
        Labels: +1 inside, -1 outside.
    W : ndarray of shape (K, m+1)
        Faces, the bias last; a stationary point.
    weights : float or ndarray of shape (n,)
        The weights of the samples.
    """
    more = mixture.responsibilities(X, y, W, gamma) - mixture.gate(X, W, gamma)
    slope = float(np.sum(np.multiply(weights, np.sum(more * mixture.scores_in_blocks(X, W), axis=1))))
    return Sensitivity("gamma", gamma, slope, objective, "Σ wᵢ Σₖ (rᵢₖ − gᵢₖ) sᵢₖ", gamma > 0.0)
