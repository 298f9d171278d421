"""Certificates of optimality, computed from the data and the solution vectors only.

``certificate`` defines certificates and their claims; ``kkt`` checks the optimality conditions of any
program; ``projection`` certifies nearest points. ``points`` (checks of arguments), ``tally`` (sums over
slices of the samples) and ``path_point`` are shared by the machines' certificates, which are in the packages
of the machines (such as :mod:`polyopt.margin.certificate`). ``claims`` writes claim files, from which a
separate program verifies the bounds, and computes optima in rational arithmetic.
"""

from polyopt.certificates.certificate import Certificate, Claim, Residual

__all__ = ["Certificate", "Claim", "Residual"]
