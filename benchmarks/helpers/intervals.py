"""Intervals of means over repeated splits of one data set.

The splits share most of their training samples, so the plain variance of a mean over them is too small. Of
values on J splits, whose standard deviation is s, the interval is

    mean ± t(J − 1) s √(1/J + n_test/n_train),

t being the 97.5 % point of Student's distribution: the corrected resampled t of Nadeau & Bengio (2003),
Inference for the generalization error, Machine Learning 52, 239-281. A spread of zero is no sign of certainty
on so few samples: there is no interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

_ROUNDING = 1e-12  # spread of equal values by rounding


def interval(values: Iterable[float], ratio: float) -> tuple[float, float, float]:
    """Return the mean of values, one for each split, and the ends of its 95 % interval.

    `ratio` is the number of test samples per training sample of a split. The ends are nan for fewer than two
    values, or equal values.
    """
    from scipy.stats import t

    sample = np.asarray(list(values), dtype=float)
    J = len(sample)
    mean = float(sample.mean()) if J else np.nan
    if J < 2 or not (s := float(sample.std(ddof=1))) > _ROUNDING:
        return mean, np.nan, np.nan
    half = float(t.ppf(0.975, J - 1)) * s * float(np.sqrt(1.0 / J + ratio))
    return mean, mean - half, mean + half
