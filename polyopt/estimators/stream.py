"""``partial_fit`` of the classifiers with faces that learn from the chunks of a stream.

A machine of two classes starts a stream in ``_begin(X, n_total)``, whose result is its ``_stream``, and
learns from a chunk in ``_learn(X, codes, weights)``. With more than two classes there is a machine for each
pair, with its stream.
"""

from __future__ import annotations

from contextlib import nullcontext
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import whole_or_none
from formulations.language.types import Array
from polyopt.base.types import SamplesLike
from polyopt.estimators.validation import checked_weights, validated_pair


def keeps_no_data(machine: Any) -> bool:
    """Return True if a machine can learn from a stream: it is not calibrated on held-out samples."""
    if machine.calibration is None:
        return True
    raise AttributeError(
        "partial_fit leaves no data to be held out: calibration must be None. CalibratedClassifierCV of "
        "scikit-learn, around a FrozenEstimator of this machine, calibrates on other data"
    )


def learn_chunk(
    machine: Any, X: SamplesLike, y: ArrayLike, classes: ArrayLike | None, sample_weight: ArrayLike | None,
    n_total: int | None = None,
) -> Any:  # fmt: skip
    """Let a machine learn from a chunk, the first of which starts its stream, and return the machine."""
    machine._validate_params()
    n_total = whole_or_none("n_total", n_total)
    first = machine._stream is None
    with machine._anew() if first else nullcontext():
        parameters = machine.get_params(deep=False) if first else machine._asked
        samples, labels = validated_pair(
            machine, X, y, accept_sparse="csr", dtype=machine._dtypes, reset=first
        )
        weights = checked_weights(sample_weight, samples)
        machine.classes_ = stream_classes(None if first else machine.classes_, labels, classes)
        machine._asked = parameters
        n_total = samples.shape[0] if n_total is None else n_total
        if first:
            binary = machine._is_binary
            machine._stream = machine._begin(samples, n_total) if binary else _begin_pairs(machine)
        if machine._is_binary:
            codes = (labels == machine.classes_[1]).astype(np.int64)
            machine._learn(samples, codes, weights * machine._class_weights(codes, weights)[codes])
        else:
            _learn_pairs(machine, samples, labels, weights, n_total)
    return machine


def _begin_pairs(machine: Any) -> object:
    """Add one unfitted machine for each pair of more than two classes, and return all of these."""
    machine.pairs_ = list(combinations(machine.classes_, 2))
    machine.estimators_ = [machine._for_pairs(None, np.empty(0)) for _ in machine.pairs_]
    machine._hold_no_rows()
    return machine.estimators_


def _learn_pairs(machine: Any, X: Any, y: Any, weights: Array, n_total: int) -> None:
    """Let the machine of each pair of classes learn from its samples of the chunk."""
    for part, pair in zip(machine.estimators_, machine.pairs_, strict=True):
        rows = np.isin(y, pair)
        if rows.any():
            # The number of all samples of the pair is estimated from this chunk.
            learn_chunk(part, X[rows], y[rows], pair, weights[rows], max(1, round(n_total * rows.mean())))
    started = [part for part in machine.estimators_ if part._stream is not None]
    machine.solution_, machine.n_iter_ = [p.solution_ for p in started], max(p.n_iter_ for p in started)


def own_arrays(learner: object) -> None:
    """Replace the read-only arrays of a learner by copies that it can update.

    Arrays are read-only in models that were loaded as memory maps, and in another process's memory.
    """
    for name, value in vars(learner).items():
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            setattr(learner, name, np.array(value))


def stream_classes(known: NDArray[Any] | None, y: NDArray[Any], classes: ArrayLike | None) -> NDArray[Any]:
    """Return the labels of a stream, `known` from the first chunk on, or `classes` as the caller gives them.

    ValueError: fewer than two labels, or other labels than at the first chunk.
    """
    if known is None:
        labels = np.unique(y if classes is None else classes)
        if len(labels) < 2:
            raise ValueError(
                "partial_fit needs two classes or more, named by classes= at the first call unless the "
                f"first chunk has them; there is one class: {labels.tolist()}"
            )
    else:
        labels = known
        if classes is not None and not np.array_equal(np.unique(classes), labels):
            raise ValueError(f"classes must be those of the first call, {labels.tolist()}, not {classes!r}")
    foreign = set(np.unique(y).tolist()) - set(labels.tolist())
    if foreign:
        raise ValueError(f"y must be of the classes {labels.tolist()}; it has {sorted(foreign)}")
    return labels
