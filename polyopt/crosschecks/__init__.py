"""Cross-checks: identities and inequalities that tie programs, solvers and certificates to each other.

One small file for each group, which the entry of a method names; each check is a function that returns
what was computed and what it must be, with the identity and its source in the docstring, and a tolerance.
T01 to T48 are identities, those of two parts with a letter; X are more of them; N are negative: they hold as
long as what a paper prints in error is not true, and fail if someone changes the code to match the print.
"""

from polyopt.crosschecks.registry import Crosscheck, Outcome, all_checks, run
from polyopt.crosschecks.table import crosscheck_table

__all__ = ["Crosscheck", "Outcome", "all_checks", "crosscheck_table", "run"]
