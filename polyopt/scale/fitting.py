"""A fit of an estimator to samples in blocks: each pair of classes, on an executor, with a checkpoint."""

from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from formulations.language.clock import Clock, running
from polyopt.base.progress import counted
from polyopt.certificates.certificate import Claim
from polyopt.estimators.collections import heading_of, is_collection, is_source
from polyopt.estimators.frames import check_names
from polyopt.estimators.status import FINE, warn
from polyopt.estimators.validation import check_total, validated
from polyopt.scale.blocks import Pair, Report
from polyopt.scale.checkpoint import Checkpoint
from polyopt.scale.executor import Executor, ThreadExecutor
from polyopt.scale.sources import Arrays

FitPair = Callable[[Any, Executor, Pair, Clock, Callable[..., Checkpoint]], None]


def fit_pairs(
    machine: Any, fit_pair: FitPair, X: Any, y: Any = None, sample_weight: Any = None, executor: Any = None,
    checkpoint: str | Path | None = None, resume: str | Path | None = None,
) -> None:  # fmt: skip
    """Fit a classifier, or one for each pair of more than two classes.

    fit_pair: fits a machine to two classes on an executor, until a clock is over. It is given a function that
        begins a checkpoint for settings of the fit, and sets ``solution_``, the certificate ``_proof`` and
        what predictions need.
    X, y, sample_weight: a source alone, or Dask collections or arrays.
    executor: "threads", "dask", a Dask client, or None.
    checkpoint, resume: files to be written and to be resumed.
    """
    machine._validate_params()
    with machine._refitting():
        machine._asked = machine.get_params(deep=False)
        heading = heading_of(X)
        if heading is not None:  # sets feature_names_in_
            validated(machine, heading, skip_check_array=True)
        on_blocks = _executor_of(X, y, sample_weight, executor, type(machine).__name__)
        try:
            with running(Clock(machine.time_limit)) as clock, machine._printing_progress():
                _fit_classes(machine, on_blocks, checkpoint, resume, clock, fit_pair)
        finally:
            on_blocks.close()
    for part in [machine] if len(machine.classes_) == 2 else machine.estimators_:
        status, proof = part.solution_.status, part._proof
        if status not in FINE:
            return warn(machine, str(status))
        if proof.claim in (Claim.NONE, Claim.CONTRADICTION) or not proof.relative_gap <= proof.tol:
            return warn(machine, f"Short of the tolerance. {proof.sentence}")
    return None


def _executor_of(X: Any, y: Any, weights: Any, executor: Any, name: str) -> Executor:
    if is_source(X):
        if y is not None or weights is not None:
            raise ValueError("a source has labels and weights itself: leave y and sample_weight out")
    elif y is None:
        raise ValueError(f"{name} needs labels y, or a source that has them")
    if is_collection(X):
        if executor == "threads":
            raise ValueError("Dask collections stay with Dask: leave executor out, or give a client")
        from polyopt.scale.dask import executor_of_collection

        return executor_of_collection(executor, X, y, weights)
    source = X if is_source(X) else Arrays(X, y, weights)
    if executor in (None, "threads"):
        return ThreadExecutor(source)
    from polyopt.scale.dask import executor_of_source

    return executor_of_source(executor, source)


def _fit_classes(
    machine: Any, executor: Executor, checkpoint: str | Path | None, resume: str | Path | None, clock: Clock,
    fit_pair: FitPair,
) -> None:  # fmt: skip
    reports = executor.inspect()
    _set_features(machine, reports)
    labels = [report.labels for report in reports if len(report.labels)]
    machine.classes_ = np.unique(np.concatenate(labels or [np.zeros(0)]))
    if len(machine.classes_) < 2:
        raise ValueError(
            f"{type(machine).__name__} needs samples of at least two classes with positive weight; "
            f"the data has {machine.classes_.tolist()}"
        )
    weights = np.zeros(len(machine.classes_))
    for report in reports:
        weights[machine.classes_.searchsorted(report.labels)] += report.weights[:, 0]
    check_total(weights)
    factors = machine._class_weights(np.arange(len(weights)), weights).tolist()

    def fit(part: Any, i: int, j: int, clock: Clock) -> None:
        pair = Pair((machine.classes_[i], machine.classes_[j]), (factors[i], factors[j]), float(machine.C))
        begin = partial(Checkpoint, checkpoint, resume, executor, pair)
        fit_pair(part, executor, pair, clock, begin)

    if len(weights) == 2:
        return fit(machine, 0, 1, clock)
    pairs = list(combinations(range(len(weights)), 2))
    if checkpoint is not None or resume is not None:
        raise ValueError(f"a checkpoint is of one pair of classes, and there are {len(pairs)}")
    machine.pairs_ = [(machine.classes_[i], machine.classes_[j]) for i, j in pairs]
    machine.estimators_ = []
    for number, (i, j) in enumerate(counted(pairs, len(pairs), "pair")):
        part = machine._for_pairs(None, None)
        part._asked, part.classes_ = part.get_params(deep=False), np.array([i, j])
        part.n_features_in_ = machine.n_features_in_
        left = clock.left
        fit(part, i, j, Clock(None if left is None else left / (len(pairs) - number)))
        machine.estimators_.append(part)
    machine.solution_ = [part.solution_ for part in machine.estimators_]
    machine.n_iter_ = max(part.n_iter_ for part in machine.estimators_)
    machine._rows, machine._pair_places = np.empty(0, int), [np.empty(0, int)] * len(pairs)
    return None


def _set_features(machine: Any, reports: list[Report]) -> None:
    """Set the number and the names of the features; raise ValueError for blocks that are not alike."""
    widths = {report.m for report in reports}
    names = next((report.names for report in reports if report.names is not None), None)
    for number, report in enumerate(reports):
        if names is not None and report.names not in (None, names):
            check_names(f"partition {number}", report.names, names)
            raise ValueError(
                f"partition {number} has its columns in another order, {list(report.names)}, than others"
            )
    if len(widths) > 1:
        raise ValueError(f"all partitions need as many features; there are some with {sorted(widths)}")
    if len({report.is_sparse for report in reports}) > 1:
        raise ValueError("partitions must be all dense or all sparse")
    machine.n_features_in_ = reports[0].m
    if names is not None and all(isinstance(name, str) for name in names):
        machine.feature_names_in_ = np.array(names, dtype=object)
