"""``partial_fit`` of classifiers with faces, which learn from a stream of chunks of data.

A subclass for two classes defines ``_begin(X, n_total)``, which returns the initial state, stored in
``_stream``, and ``_learn(X, codes, weights)``, which updates the state by a chunk; codes are 0 and 1. With
more than two classes there is a classifier for each pair, with its own stream.
"""

from contextlib import nullcontext
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.language.arguments import whole_or_none
from formulations.language.types import Array
from polyopt.base.types import SamplesLike
from polyopt.estimators.validation import checked_weights, validated_pair


def learn_chunk(
    machine: Any, X: "SamplesLike", y: ArrayLike, classes: ArrayLike | None, sample_weight: ArrayLike | None,
    n_total: int | None = None,
) -> Any:  # fmt: skip
    """Update a classifier by a chunk, and return it; the first chunk starts the stream.

    n_total: number of samples of the whole stream, by default that of the first chunk.
    """
    machine._validate_params()
    n_total = whole_or_none("n_total", n_total)
    is_first = machine._stream is None
    with machine._refitting() if is_first else nullcontext():  # restores the previous fit on an error
        parameters = machine.get_params(deep=False) if is_first else machine._asked  # of the first chunk
        samples, labels = validated_pair(
            machine, X, y, accept_sparse="csr", dtype=machine._dtypes, reset=is_first
        )
        weights = checked_weights(sample_weight, samples)
        machine.classes_ = stream_classes(None if is_first else machine.classes_, labels, classes)
        machine._asked = parameters
        n_total = samples.shape[0] if n_total is None else n_total
        if is_first:
            binary = machine._is_binary
            machine._stream = machine._begin(samples, n_total) if binary else _begin_pairs(machine)
        if machine._is_binary:
            codes = (labels == machine.classes_[1]).astype(np.int64)
            machine._learn(samples, codes, weights * machine._class_weights(codes, weights)[codes])
        else:
            _learn_pairs(machine, samples, labels, weights, n_total)
    return machine


def _begin_pairs(machine: Any) -> object:
    """Set ``estimators_`` to an unfitted classifier for each pair of classes, and return them."""
    machine.pairs_ = list(combinations(machine.classes_, 2))
    machine.estimators_ = [machine._for_pairs(None, np.empty(0)) for _ in machine.pairs_]
    machine._clear_rows()
    return machine.estimators_


def _learn_pairs(machine: Any, X: Any, y: Any, weights: Array, n_total: int) -> None:
    """Update the classifier of each pair of classes by the samples of the pair."""
    for part, pair in zip(machine.estimators_, machine.pairs_, strict=True):
        rows = np.isin(y, pair)
        if rows.any():
            # The number of all samples of the pair is estimated from this chunk.
            learn_chunk(part, X[rows], y[rows], pair, weights[rows], max(1, round(n_total * rows.mean())))
    started = [part for part in machine.estimators_ if part._stream is not None]
    machine.solution_, machine.n_iter_ = [p.solution_ for p in started], max(p.n_iter_ for p in started)


def make_arrays_writable(learner: object) -> None:
    """Replace read-only array attributes by copies that can be updated in place.

    Arrays are read-only in models loaded as memory maps, and in memory shared with another process.
    """
    for name, value in vars(learner).items():
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            setattr(learner, name, np.array(value))


def stream_classes(known: NDArray[Any] | None, y: NDArray[Any], classes: ArrayLike | None) -> NDArray[Any]:
    """Return the labels of a stream: `known`, those of the first chunk, or else `classes` or those of y.

    Raise ValueError for fewer than two labels, or for labels other than those of the first chunk.
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
    unknown = set(np.unique(y).tolist()) - set(labels.tolist())
    if unknown:
        raise ValueError(f"y must be of the classes {labels.tolist()}; it has {sorted(unknown)}")
    return labels
