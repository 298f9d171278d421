"""Cross-checks: identities and inequalities that tie programs, solvers and certificates to each other.

One small file for each family; each check is a function that returns what was computed and what it must
be, with the identity and its source in the docstring, and a tolerance. T01 to T48 are identities, those of
two parts with a letter; X are more of them; N are negative: they hold as long as what a paper prints in
error is not true, and fail if someone changes the code to match the print.
"""

from polyopt.crosschecks import (
    bounds,
    cpm,
    cpm_assignment,
    klda,
    l0,
    one_norm,
    plume,
    polyhedral,
    rmm,
    rmm_bound,
    sigma_svm,
    soft_rmm,
    svm,
)
from polyopt.crosschecks.registry import Crosscheck, Outcome, run
from polyopt.crosschecks.table import crosscheck_table

__all__ = ["CROSSCHECKS", "Crosscheck", "Outcome", "crosscheck_table", "run"]

CROSSCHECKS = tuple(
    check
    for module in (
        svm,
        sigma_svm,
        rmm,
        rmm_bound,
        soft_rmm,
        bounds,
        klda,
        one_norm,
        cpm,
        cpm_assignment,
        polyhedral,
        l0,
        plume,
    )
    for check in module.CHECKS
)
