"""What the slides on the cross-entropy method for classification print: their 45 cells and three claims.

Mannor, Peleg and Rubinstein, The cross entropy method for classification. In brackets, in their words, is the
"% of support vectors", after the "validation error". They tell neither how many splits they made, nor of what
size, whether features were scaled, the degree and the width of the kernels, nor how C was chosen for these
tables. The deviations are taken for those over the splits.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CLAIMED", "DATA", "METHODS", "PRINTED", "Printed", "mean_ratio"]

METHODS = ("SVM", "CE", "one-norm SVM")
DATA = ("ionosphere", "pima", "wdbc", "bupa", "sonar")

# "CE has fewer SVs than one-norm SVMs", in per cent.
CLAIMED = {"linear": 29.0, "polynomial": 70.0, "RBF": 40.0}


@dataclass(frozen=True)
class Printed:
    """A printed cell: error and share of support vectors, each with its deviation, all in per cent."""

    error: float
    error_deviation: float
    share: float
    share_deviation: float


def _entered() -> dict[tuple[str, str, str], Printed]:
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as table:
        return {
            (kernel, data, method): Printed(*map(float, numbers))
            for kernel, data, method, *numbers in list(csv.reader(table))[1:]
        }


# Kernel, data and method to what is printed of them.
PRINTED = _entered()


def mean_ratio(shares: dict[tuple[str, str], float], data: tuple[str, ...] = DATA) -> float:
    """How many per cent fewer support vectors CE has than the one-norm machine, on the mean of some sets.

    The slides' 29, 70 and 40 are such means, of the ratios of single sets: their cells give 29, 71 and 41.
    """
    ratios = [shares[name, "CE"] / shares[name, "one-norm SVM"] for name in data]
    return 100.0 * (1.0 - sum(ratios) / len(ratios))
