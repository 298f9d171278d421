"""Cross-checks: identities and inequalities that tie programs, solvers and certificates to each other.

A file holds the checks of a family of methods, whose entries name the file; `registry` declares and decides
checks, `samples` draws their data. T01 to T48 are the papers' identities, those of two parts with a letter.
N are negative: they hold as long as a misprint of a paper stays corrected.
"""

from polyopt.crosschecks.registry import Crosscheck, Outcome, all_checks, crosscheck_table, run

__all__ = ["Crosscheck", "Outcome", "all_checks", "crosscheck_table", "run"]
