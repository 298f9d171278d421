"""Families of rows: what a hinge-type machine asks of its outputs, and its multipliers by name.

A hinge-type machine minimises a quadratic in ``w`` plus prices of its outputs ``f_i = w'x_i + b``. Each
family q of its rows asks of every sample

    side_qi f_i >= kink_q - slack_qi      [mu_qi],     a unit of slack costs cap_qi

and a family without slack has an infinite cap; a sample with a cap of 0 has no such row. The SVM has one
family, the margins; the Relative Margin Machine adds an upper and a lower bound on the outputs. Whatever the
families are, the dual is

    max  sum_q kink_q sum_i mu_qi - 1/2 beta'K beta,    beta_i = sum_q side_qi mu_qi
    s.t. sum_i beta_i = 0,    0 <= mu <= cap

and b, the slacks and the multipliers are found alike. Certificates, solvers, duals, sensitivities and plots
go over the families that a machine has; a new machine states its own, and they work for it.

For a given beta_i one split into multipliers earns the most: a unit of beta earns ``side * kink`` in each of
the sample's families, and the one that earns most is filled first. So the dual is max phi(beta) - 1/2
beta'K beta, where phi_i is concave and piecewise linear: each family is one of its pieces, as long as its
cap, and where the last piece ends, phi_i ends.

Read in this order: ``family`` (one family, and those of the papers), ``pieces`` (phi), ``intercept`` (b from
the scores), ``families`` (all of a machine's families together).
"""

from formulations.families.families import Families, best_intercept, bounded_families, hinge_families
from formulations.families.family import Family, bound_families, margin_family
from formulations.families.pieces import Pieces

__all__ = [
    "Families",
    "Family",
    "Pieces",
    "best_intercept",
    "bound_families",
    "bounded_families",
    "hinge_families",
    "margin_family",
]
