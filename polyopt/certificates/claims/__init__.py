"""Certificates as files that a stranger can check: ``polyopt/check/FORMAT.md`` describes their content.

In the order to read: ``statement`` (a program, a point and multipliers, as numbers), ``file`` (both made
feasible in rational arithmetic, and written), ``active_set`` (the optimum from its active set) and
``refine`` (claims of the optimum itself).
"""

from polyopt.certificates.claims.file import save_claims
from polyopt.certificates.claims.statement import Evidence, Statement

__all__ = ["Evidence", "Statement", "save_claims"]
