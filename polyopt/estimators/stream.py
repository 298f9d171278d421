"""``partial_fit`` of the classifiers with faces that learn from the chunks of a stream.

A machine begins a stream of two classes in ``_begin(X, n_total)``, whose result it keeps as ``_stream``, and
shows it a chunk in ``_learn(X, codes, weights)``. With more than two classes there is a machine for each
pair, with a stream of its own.
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
    """Return True if a machine can learn from a stream, which leaves no data to be held out."""
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
    """Show a chunk to the learners of a machine, which is returned; the first chunk begins the stream."""
    machine._validate_params()
    n_total = whole_or_none("n_total", n_total)
    first = machine._stream is None
    with machine._anew() if first else nullcontext():
        asked = machine.get_params(deep=False) if first else machine._asked
        samples, labels = validated_pair(
            machine, X, y, accept_sparse="csr", dtype=machine._dtypes, reset=first
        )
        weights = checked_weights(sample_weight, samples)
        machine.classes_ = stream_classes(None if first else machine.classes_, labels, classes)
        machine._asked = asked
        whole = samples.shape[0] if n_total is None else n_total
        if first:
            machine._stream = machine._begin(samples, whole) if machine._is_binary else _begin_pairs(machine)
        if machine._is_binary:
            codes = (labels == machine.classes_[1]).astype(np.int64)
            machine._learn(samples, codes, weights * machine._class_weights(codes, weights)[codes])
        else:
            _show_pairs(machine, samples, labels, weights, whole)
    return machine


def _begin_pairs(machine: Any) -> object:
    """Give the machine one unfitted machine for each pair of more than two classes."""
    machine.pairs_ = list(combinations(machine.classes_, 2))
    machine.estimators_ = [machine._for_pairs(None, np.empty(0)) for _ in machine.pairs_]
    machine._hold_no_rows()
    return machine.estimators_


def _show_pairs(machine: Any, X: Any, y: Any, weights: Array, n_total: int) -> None:
    for part, pair in zip(machine.estimators_, machine.pairs_, strict=True):
        mine = np.isin(y, pair)
        share = max(mine.mean(), 1.0 / len(y))  # of all the data, estimated from this chunk
        if mine.any():
            learn_chunk(part, X[mine], y[mine], pair, weights[mine], max(1, round(n_total * share)))
    seen = [part for part in machine.estimators_ if part._stream is not None]
    machine.solution_, machine.n_iter_ = [p.solution_ for p in seen], max(p.n_iter_ for p in seen)


def own_arrays(learner: object) -> None:
    """Replace the read-only arrays of a learner by copies that it can update.

    They are read-only in models that were loaded as memory maps, or lie in another process's memory.
    """
    for name, value in vars(learner).items():
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            setattr(learner, name, np.array(value))


def stream_classes(known: NDArray[Any] | None, y: NDArray[Any], classes: ArrayLike | None) -> NDArray[Any]:
    """Return the labels of a stream, `known` from the first chunk on, or `classes` as the caller gives them.

    ValueError: fewer than two labels, others than at the first chunk, or one of this chunk that is not among
    them.
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
