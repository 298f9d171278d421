"""Results of fits: rows, means with their intervals, differences between methods, and gaps to a proven bound.

The splits of one data set share most of their training samples, so the plain variance of a mean over them is
too small. Of values on J splits, whose standard deviation is s, the interval is

    mean ± t(J − 1) s √(1/J + n_test/n_train),

t being the 97.5 % point of Student's distribution: the corrected resampled t of Nadeau & Bengio (2003),
Inference for the generalization error, Machine Learning 52, 239-281. A spread of zero is no sign of certainty
on so few samples: there is no interval.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from formulations.language.types import Vector
from polyopt.base.text import plain
from polyopt.certificates.certificate import Claim, relative_gap
from polyopt.methods import METHODS


@dataclass(frozen=True)
class Row:
    """One fit."""

    data: str  #: name of the data set
    method: str  #: name of the method
    solver: str  #: name of the solver
    program: str  #: name of the program
    settings: str  #: settings as text
    objective: float  #: primal value
    bound: float  #: proven bound, from the certificate
    gap: float  #: absolute distance of objective and bound
    relative_gap: float  #: relative distance of objective and bound
    residual: float  #: worst residual of the optimality conditions, relative to its scale
    residual_at: str  #: condition, row and index of `residual`; empty if all conditions hold exactly
    claim: str  #: of the certificate: optimal, suboptimal_by, stationary, infeasible or none
    complexity: int | None  #: number of support vectors or faces
    counts: str  #: unit of the complexity
    test_error: float  #: fraction of the test samples that are misclassified
    seconds: float  #: time of the fit, without imports
    status: str  #: status of the solver, or the reason for which there is no fit
    split: int = 0  #: seed of the split
    seed: int = 0  #: seed of the solver
    #: The fitted estimator; None for a failed fit, and for all but the first split.
    estimator: Any = field(default=None, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the estimator; numbers that are not finite as None, for JSON."""
        return plain({f.name: getattr(self, f.name) for f in fields(self) if f.name != "estimator"})


LEVEL = 0.95
"""Confidence level of every interval."""

_CLAIMS = [claim.name.lower() for claim in Claim]  # the strongest first
_ROUNDING = 1e-12  # difference of equal test errors by rounding


Summary = Any
"""A named tuple of :func:`summaries_of`."""


@dataclass(frozen=True)
class Difference:
    """Mean over common splits of the test error of `method` minus that of `other`, with its interval."""

    data: str
    method: str
    solver: str
    other: str
    other_solver: str
    splits: int
    difference: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """``"lower"`` or ``"higher"`` if the interval is on one side of zero, ``"equal"`` on every split."""
        if self.high < 0.0:
            return "lower"
        if self.low > 0.0:
            return "higher"
        equal = np.isnan(self.low) and abs(self.difference) <= _ROUNDING and self.splits > 1
        return "equal" if equal else "not told apart"

    def to_dict(self) -> dict[str, Any]:
        """Return every value; numbers that are not finite as None, for JSON."""
        return plain({**asdict(self), "verdict": self.verdict})


def interval(values: Iterable[float], ratio: float) -> tuple[float, float, float]:
    """Return the mean of values, one for each split, and the ends of its interval.

    `ratio` is the number of test samples per training sample of a split. The ends are nan for fewer than two
    values, or equal values.
    """
    from scipy.stats import t

    sample = np.asarray(list(values), dtype=float)
    J = len(sample)
    mean = float(sample.mean()) if J else np.nan
    if J < 2 or not (s := float(sample.std(ddof=1))) > _ROUNDING:
        return mean, np.nan, np.nan
    half = float(t.ppf(0.5 + LEVEL / 2, J - 1)) * s * float(np.sqrt(1.0 / J + ratio))
    return mean, mean - half, mean + half


def frame_of(rows: Iterable[Row]) -> pd.DataFrame:
    """Return rows as a frame, one column per field but the estimator."""
    columns = [f.name for f in fields(Row) if f.name != "estimator"]
    return pd.DataFrame([[getattr(row, name) for name in columns] for row in rows], columns=columns)


def summaries_of(rows: Sequence[Row], ratios: Mapping[str, float]) -> list[Summary]:
    """Return named tuples: means over the fits of each data set, method and solver; `fits` and `failed` ones.

    Gap and residual are the largest, the claim is the weakest. The interval of the mean test error is over
    the splits, nan if there is none or a fit failed. `ratios` is n_test/n_train by data set.
    """
    if not rows:
        return []
    frame = frame_of(rows).astype({"complexity": float})
    numbers = ["objective", "bound", "relative_gap", "residual", "complexity", "seconds"]
    frame.loc[frame["test_error"].isna(), numbers] = np.nan
    groups = frame.groupby(["data", "method", "solver"], sort=False)
    means = groups.agg(
        fits=("split", "size"), failed=("test_error", lambda errors: errors.isna().sum()),
        objective=("objective", "mean"), bound=("bound", "mean"), relative_gap=("relative_gap", "max"),
        residual=("residual", "max"), claim=("claim", lambda claims: max(claims, key=_CLAIMS.index)),
        complexity=("complexity", "mean"), counts=("counts", "first"), test_error=("test_error", "mean"),
        seconds=("seconds", "mean"),
    )  # fmt: skip
    ends = [interval(errors, ratios[str(data)])[1:] for (data, *_), errors in groups["test_error"]]
    means[["test_error_low", "test_error_high"]] = np.clip(ends, 0.0, 1.0)
    return list(means.reset_index().itertuples(index=False, name="Summary"))


def differences_of(rows: Sequence[Row], ratios: Mapping[str, float]) -> list[Difference]:
    """Return differences of every two methods on each data set, by their fast solvers, on common splits."""
    differences = []
    errors: dict[str, dict[tuple[str, str], dict[int, float]]] = {}  # by data, method with solver, and split
    for row in rows:
        if row.solver == METHODS[row.method].fast and not np.isnan(row.test_error):
            by_method = errors.setdefault(row.data, {})
            by_method.setdefault((row.method, row.solver), {})[row.split] = row.test_error
    for data, by_method in errors.items():
        for (key, first), (other, second) in combinations(by_method.items(), 2):
            values = [first[split] - second[split] for split in first if split in second]
            if len(values) > 1:
                ends = interval(values, ratios[data])
                differences.append(Difference(data, *key, *other, len(values), *ends))
    return differences


@dataclass(frozen=True)
class Proof:
    """Objectives and seconds of one method's solvers on one data set, and the proving solver's bound.

    `run` (records, 2) has seconds and relative gap between the proving solver's best point and its bound. It
    is empty without records of both, and for several classes, since each pair has a run.
    """

    data: str
    method: str
    bound: float
    objectives: dict[str, float]
    seconds: dict[str, float]
    proving: str
    run: Vector = field(repr=False, compare=False)

    @property
    def gaps(self) -> dict[str, float]:
        """Relative gaps from each objective to the bound."""
        return {solver: relative_gap(value, self.bound) for solver, value in self.objectives.items()}


def proofs_of(rows: Iterable[Row]) -> list[Proof]:
    """Return a proof for each data set and method with a bound, from rows of one split."""
    rows, proofs = list(rows), []
    for last in rows:
        proving = METHODS[last.method].proving
        if not proving or last.solver != proving or not np.isfinite(last.bound):
            continue
        fits = [row for row in rows if (row.data, row.method) == (last.data, last.method)]
        solved = [row for row in fits if np.isfinite(row.objective)]
        objectives = {row.solver: row.objective for row in solved}
        seconds = {row.solver: row.seconds for row in solved}
        run = _run_of(last.estimator)
        proofs.append(Proof(last.data, last.method, last.bound, objectives, seconds, proving, run))
    return proofs


def _run_of(estimator: Any) -> Vector:
    """Return seconds and gap of each record that has both values."""
    history = getattr(estimator, "history_", None)
    if history is None or "pair" in history or not {"seconds", "objective", "bound"} <= set(history):
        return np.empty((0, 2))
    records = history[["seconds", "objective", "bound"]].dropna().to_numpy(dtype=float)
    gaps = [relative_gap(value, bound) for _, value, bound in records]
    return np.column_stack([records[:, 0], np.array(gaps)]) if len(records) else np.empty((0, 2))
