"""Certificates as files that a stranger can check: ``polyopt/check/FORMAT.md`` says what is in them.

In the order to read: ``statement`` (a program, a point and multipliers, as numbers), ``repair`` (both made
feasible in rational arithmetic), ``hinge``, ``faces`` and ``logistic`` (the statements of the families),
``file`` (what is written), ``exact`` and ``vertex`` (the optimum from its active set) and ``refine`` (claims
of the optimum itself).
"""

from polyopt.certificates.claims.file import save_claims
from polyopt.certificates.claims.statement import Evidence, Statement

__all__ = ["Evidence", "Statement", "save_claims"]
