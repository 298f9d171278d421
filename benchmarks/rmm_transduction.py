"""Transduction on optical digits: the Relative Margin Machine with bounds at test samples, without labels.

The RMM paper's last section: "the constraints that bound the projection are unsupervised; thus RMMs can
readily work in semi-supervised and transduction problems". Few training samples of each digit have labels,
drawn from the training part ten times; the test part of 1,797 has none. Four machines, 45 pairs of digits
that vote, ties to the smaller digit: the SVM; the RMM; the RMM with bounds at the test samples too
(``X_bounded``); and with bounds at these alone (``bound_training=False``, the class H of its appendix). Of
each pair of digits all test samples are bounded, as nobody knows whose they are.

C is 1, 10 or 100, and B is 1/2, 1/4 or 1/10 of the way from 1 to θ, the largest output of the SVM with that C
at the samples that the machine bounds; the same C and share for all pairs. Validation alone chooses them: the
labelled samples in three folds, of which one is classified by the other two, and bounded without its labels
together with the test samples. Where no multiplier of a margin is at its cap C, larger C with the same bound
share the solution. Of settings with equally few validation errors the first is taken, C rising
and the share falling. Images have unit length, kernels ``((x'z + 1)/2)^d`` and ``exp(-‖x - z‖²/2)``.

Errors are in percent of the test samples, mean and standard deviation over the draws; a difference is paired,
draw by draw, and positive where the machine of the row errs less. "Least of four" is of how many draws the
machine's errors are no more than those of the others. "Status" is the worst end of all solves that a row
rests on, those that chose its parameters included, "violation" the largest of theirs.

Draws are kept one by one in the user's cache folder under ``rmm_transduction``, so that a run that was broken
off goes on where it was; to compute anew, delete them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, product
from typing import Any

import joblib
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import DTypeLike, NDArray
from sklearn.model_selection import StratifiedKFold

from benchmarks.helpers.digit_machines import TOL, badness
from benchmarks.helpers.digit_pairs import Digits, images
from formulations.families import Families, bounded_families, hinge_families
from polyopt.base.files import replacing
from polyopt.datasets.loading import cache_folder
from polyopt.linalg.kernels import FunctionPanel, Kernel, MatrixGram, Panel
from polyopt.margin.decomposition import Decomposition

Vector = NDArray[np.float64]
Samples = NDArray[np.intp]
_Answer = tuple[Vector, float, Vector]
Setting = tuple[float, float]  # C, and the share of θ - 1; of the SVM the share is infinite

SVM, RMM, BOTH, ALONE = "SVM", "RMM", "RMM, test samples too", "RMM, test samples alone"
COSTS, SHARES = (1.0, 10.0, 100.0), (1 / 2, 1 / 4, 1 / 10)
GRIDS: dict[str, list[Setting]] = {
    name: [*product(COSTS, (np.inf,) if name == SVM else SHARES)] for name in (SVM, RMM, BOTH, ALONE)
}
_KERNELS = {
    "degree 3": Kernel("poly", 0.5, 3, 0.5),
    "RBF": Kernel("rbf", 0.5),
}
_DIGITS = Digits("optdigits", 0.0, (("optdigits", True),))
_SMOKE = Digits("digits", 0.0, (("digits", True),), classes=3)
_FOLDS = 3


def run(smoke: bool = False) -> pd.DataFrame:
    """One row for each kernel, number of labels and machine."""
    digits, kernels, labels, draws = _DIGITS, tuple(_KERNELS), (5, 20), 10
    if smoke:
        digits, kernels, labels, draws = _SMOKE, kernels[:1], labels[:1], 2
    cells = [*product(kernels, labels)]
    jobs = [(kernel, few, draw) for kernel, few in cells for draw in range(draws)]
    call = delayed(_draw if smoke else _kept_draw)
    found = Parallel(n_jobs=1 if smoke else -1)(call(digits, *job) for job in jobs)
    rows = []
    for kernel, few in cells:
        own = [record for job, record in zip(jobs, found, strict=True) if job[:2] == (kernel, few)]
        rows += [{"kernel": kernel, "labels of each digit": few, **row} for row in _rows(own)]
    return pd.DataFrame(rows)


def _rows(draws: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The row of each machine, from the records of the draws."""
    errors = {name: np.array([record[name]["errors"] for record in draws]) for name in GRIDS}
    least = np.min([*errors.values()], axis=0)
    for name, own in errors.items():
        records = [record[name] for record in draws]
        gains = {other: errors[other] - own for other in (SVM, RMM)}
        against = {
            f"less than the {other}": f"{gain.mean():.2f} ± {gain.std(ddof=1):.2f}"
            if name not in (SVM, other)
            else ""
            for other, gain in gains.items()
        }
        costs, shares = np.array([record["setting"] for record in records]).T
        yield {
            "machine": name,
            "test errors %": own.mean(),
            "deviation": own.std(ddof=1),
            **against,
            "least of four": int((own <= least).sum()),
            "draws": len(own),
            "median C": float(np.median(costs)),
            "median share": "" if name == SVM else f"{np.median(shares):.3g}",
            "status": max((record["end"] for record in records), key=badness),
            "violation": max(record["violation"] for record in records),
            "solves": sum(record["solves"] for record in records),
        }


def _kept_draw(digits: Digits, kernel: str, few: int, draw: int) -> dict[str, Any]:
    """The record of a draw from the cache folder; computed and put there if it is not there."""
    file = cache_folder() / "rmm_transduction" / f"{kernel.replace(' ', '')}-{few}-{draw}.joblib"
    if file.is_file():
        grids, record = joblib.load(file)
        if grids == GRIDS:
            return dict(record)
    record = _draw(digits, kernel, few, draw)
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as stream:
        joblib.dump((GRIDS, record), stream)
    return record


def _draw(digits: Digits, kernel: str, few: int, draw: int) -> dict[str, Any]:
    """Of each machine its test errors in percent, how they came about, and what the solves were."""
    X, y, T, t = images(digits, "unit length")
    rng = np.random.default_rng([draw, few])
    drawn = np.sort(
        np.concatenate([rng.permutation(np.flatnonzero(y == c))[:few] for c in range(digits.classes)])
    )
    n, labels = len(drawn), np.concatenate([y[drawn], t])
    K = _KERNELS[kernel](np.vstack([X[drawn], T]))
    test, record = np.arange(n, len(K)), {name: _new_record() for name in GRIDS}
    wrong = {name: np.zeros(len(grid), dtype=int) for name, grid in GRIDS.items()}
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=draw)
    for train, rest in folds.split(labels[:n], labels[:n]):
        for name, answers in _answers(K, labels, train, rest, test, digits.classes, GRIDS, record).items():
            wrong[name] += (answers != labels[rest]).sum(axis=1)
    chosen = {name: [GRIDS[name][int(errors.argmin())]] for name, errors in wrong.items()}
    every, nothing = np.arange(n), np.arange(0)
    answers = _answers(K, labels, every, nothing, test, digits.classes, chosen, record)
    for name, own in record.items():
        own["errors"] = 100.0 * float((answers[name][0] != labels[test]).mean())
        own["setting"] = chosen[name][0]
    return record


def _new_record() -> dict[str, Any]:
    return {"end": "DIRECT", "violation": 0.0, "solves": 0}


def _answers(
    K: Vector, labels: Samples, train: Samples, rest: Samples, test: Samples, classes: int,
    settings: dict[str, list[Setting]], record: dict[str, Any],
) -> dict[str, NDArray[np.intp]]:  # fmt: skip
    """By machine the digits of the samples `rest`, or where there are none of `test`: (settings, samples).

    Trained on `train`; `rest` and `test` are known without their labels.
    """
    unknown = np.concatenate([rest, test])
    asked = len(rest) or len(test)  # the first of these
    votes = {name: np.zeros((len(grid), asked, classes), dtype=int) for name, grid in settings.items()}
    for first, second in combinations(range(classes), 2):
        own = train[(labels[train] == first) | (labels[train] == second)]
        y = np.where(labels[own] == second, 1.0, -1.0)
        for name, outputs in _outputs(K, own, y, unknown, settings, record).items():
            is_second = outputs[:, :asked] > 0.0
            votes[name][:, :, first] += ~is_second
            votes[name][:, :, second] += is_second
    return {name: counted.argmax(axis=2) for name, counted in votes.items()}


def _outputs(
    K: Vector, own: Samples, y: Vector, unknown: Samples, settings: dict[str, list[Setting]],
    record: dict[str, Any],
) -> dict[str, Vector]:  # fmt: skip
    """By machine the outputs at the samples without labels, shape (settings, samples)."""
    n, k, every = len(own), len(unknown), np.concatenate([own, unknown])
    across = K[np.ix_(unknown, own)]
    trained, held = Decomposition(MatrixGram(K[np.ix_(own, own)])), Decomposition(_Part(K, every))
    found = {name: np.empty((len(grid), k)) for name, grid in settings.items()}
    theta: dict[float, dict[str, float]] = {}
    shared: dict[tuple[str, float, float], tuple[float, _Answer]] = {}

    def solved(name: str, C: float, share: float, B: float, families: Callable[[], Families]) -> _Answer:
        """A solution in which no margin is at its cap is that of every larger C, with the same bound."""
        known = shared.get((name, share, B))
        if known is not None and known[0] < C:
            return known[1]
        on = held if name in (BOTH, ALONE) else trained
        answer, largest = _solved(on, families(), record.get(name) or _new_record())
        if largest < C:
            shared[name, share, B] = largest, answer
        return answer

    for C in dict.fromkeys(C for grid in settings.values() for C, _ in grid):
        is_asked = (C, np.inf) in settings[SVM]
        name = SVM if is_asked else ""
        coef, b, f = solved(name, C, np.inf, np.inf, partial(hinge_families, y, C))
        outputs = across @ coef + b
        if is_asked:
            found[SVM][settings[SVM].index((C, np.inf))] = outputs
        inside, outside = float(np.abs(f).max()), float(np.abs(outputs).max())
        theta[C] = {RMM: inside, BOTH: max(inside, outside), ALONE: outside}
    for name in (RMM, BOTH, ALONE):
        for number, (C, share) in enumerate(settings[name]):
            B = 1.0 + max(theta[C][name] - 1.0, 0.0) * share
            if name == RMM:
                coef, b, _ = solved(name, C, share, B, partial(hinge_families, y, C, B))
                found[name][number] = across @ coef + b
            else:
                rows = partial(bounded_families, y, np.full(n, C), B, k, training=name == BOTH)
                found[name][number] = solved(name, C, share, B, rows)[2][n:]
    return found


class _Part(MatrixGram):
    """The matrix of some samples of a Gram matrix, of which only rows that are asked for are taken."""

    def __init__(self, K: Vector, places: Samples):
        self.K, self._places, self.n, self.entry_cost = K, places, len(places), 1

    def diagonal(self) -> Vector:
        return self.K.diagonal()[self._places]

    def panel(self, columns: Samples | None, dtype: DTypeLike) -> Panel:
        among = self._places if columns is None else self._places[columns]

        def block(samples: Samples) -> Vector:
            return self.K[np.ix_(self._places[samples], among)]

        return FunctionPanel(block, np.dtype(dtype))


def _solved(machine: Decomposition, rows: Families, record: dict[str, Any]) -> tuple[_Answer, float]:
    """Coefficients, b and the outputs of a machine, and the largest multiplier of a margin.

    How the solve ended is noted.
    """
    found = machine.solve(rows, tol=TOL)
    record["solves"] += 1
    record["end"] = max(record["end"], found.status.name, key=badness)
    record["violation"] = max(record["violation"], found.history[-1]["violation"])
    return (found["coef"], float(found["b"]), found["f"]), float(found.duals["margin"].max())
