"""Primal-dual interior-point solver of linear hinge machines, for many more samples than features.

Problem
-------
SVM, Sigma-SVM and Relative Margin Machine with linear features are one quadratic program. Its outputs are
f_i = w'(x_i − μ) + b, and B is infinite for the first two:

    min  ½ w'Rw + Σ C_i ξ_i
    s.t. y_i f_i ≥ 1 − ξ_i  [alpha],   ξ_i ≥ 0  [eta],   f_i ≤ B  [lam],   −f_i ≤ B  [lam_star]

R = I and μ = 0, except for the Sigma-SVM: R = (1−D) I + D Σ with the samples' mean μ and covariance Σ. The
intercept b is not penalised. The letters in brackets are multipliers.

Dual
----
    max  Σ α_i − B Σ (λ_i + λ*_i) − ½ c'R⁺c,   c = Σ β_i (x_i − μ),   β = α∘y − λ + λ*
    s.t. Σ β_i = 0,   0 ≤ α ≤ C,   λ, λ* ≥ 0

The reduced Newton system
-------------------------
With the slacks s = y f − 1 + ξ, ξ, u = B − f and v = B + f, a Newton step sets targets for the
complementarity products α s, η ξ, λ u and λ* v. Eliminating all unknowns but (w, b), sample by sample, leaves

    [ R + X'WX   X'W1 ] [dw]   [ X'(β + h) − Rw ]        W = diag(1/(s/α + ξ/η) + λ/u + λ*/v)
    [ 1'WX       1'W1 ] [db] = [ 1'(β + h)      ]

These are m + 1 equations for any number of samples. The rows of X are centred, h_i depends on the targets
(see ``block``), and dβ = h − W (X dw + db). An iteration takes one product X'WX by BLAS, about four products
of X with a vector, and passes over the samples. Steps are Mehrotra's predictor and corrector; in the first
step, each sample has a step length of its own. (Gondzio's centrality corrections saved a fifth of the
iterations and hardly any time.)

The run ends when the duality gap is within the tolerance: the gap between the primal objective of a point
whose outputs are scaled to satisfy ±B, and the dual objective of multipliers with Σ β_i = 0.

Read in this order: ``problem`` (the program and the reduced system), ``driver`` (the method), ``block``
(constraints, multipliers and steps of a block of samples), ``rows`` (the products with the data) and
``intercept`` (the best b). A crew (:mod:`polyopt.scale.crew`) calls the methods of all blocks.

References
----------
Ferris & Munson, Interior-point methods for massive support vector machines (2002); Mehrotra, On the
implementation of a primal-dual interior point method (1992); Shivaswamy & Jebara, Relative Margin Machines
(2008), eq. (1), (3), (7) and (8).
"""

from polyopt.margin.interior_point.driver import solve_interior_point

__all__ = ["solve_interior_point"]
