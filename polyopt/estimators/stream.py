"""``partial_fit`` for the classifiers with faces that can learn from chunks of a stream."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import nullcontext
from itertools import combinations
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from formulations.language.arguments import whole_or_none
from polyopt.estimators.faces import FaceClassifier
from polyopt.estimators.validation import validated_pair
from polyopt.estimators.weights import checked_weights

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.language.types import Array
    from polyopt.base.types import SamplesLike

__all__ = ["StreamedClassifier", "keeps_no_data", "own_arrays", "stream_classes"]


def keeps_no_data(machine: StreamedClassifier) -> bool:
    """Whether a machine can learn from a stream, which leaves no data to be held out.

    machine: the machine.
    AttributeError: where it is to be calibrated.
    """
    if machine.calibration is None:
        return True
    raise AttributeError(
        "partial_fit leaves no data to be held out: calibration must be None. CalibratedClassifierCV of "
        "scikit-learn, around a FrozenEstimator of this machine, calibrates on other data"
    )


class StreamedClassifier(FaceClassifier):
    """Base of the Convex Polytope Machine and the Polyceptron.

    A subclass begins a stream of two classes in :meth:`_begin` and shows it a chunk in :meth:`_learn`. With
    more than two classes there is a machine for each pair, with a stream of its own.
    """

    @abstractmethod
    def _begin(self, X: Any, n_total: int) -> object:
        """The state of a learner that has seen nothing; `n_total` is the size of all the data."""

    @abstractmethod
    def _learn(self, X: Any, codes: NDArray[np.int64], weights: Array) -> None:
        """Show the learner a chunk, codes 1 for ``classes_[1]``, and take its faces."""

    @available_if(keeps_no_data)
    def partial_fit(
        self, X: SamplesLike, y: ArrayLike,
        classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """One pass over a chunk of a stream, or of data too large for the memory, from the model as it is.

        Parameters
        ----------
        X : array_like or CSR matrix of shape (n, m)
            Samples of this chunk.
        y : array_like of shape (n,)
            Their labels; a chunk may have one class alone.
        classes : array_like of shape (n_classes,), optional
            All labels; needed at the first call unless the chunk has them all.
        sample_weight : array_like of shape (n,), optional
            Non-negative weights.

        Returns
        -------
        self
            With the faces as they are now. No data are kept, so there are no ``assignment_``, ``duals_`` and
            ``certificate()``.

        Raises
        ------
        ValueError
            One class, labels that are not among the classes, or settings that need another solver.
        """
        return self._learn_chunk(X, y, classes, sample_weight)

    def _learn_chunk(
        self, X: SamplesLike, y: ArrayLike,
        classes: ArrayLike | None, sample_weight: ArrayLike | None, n_total: int | None = None,
    ) -> Self:  # fmt: skip
        """Show a chunk to its learners; the first one begins the stream."""
        self._validate_params()
        n_total = whole_or_none("n_total", n_total)
        with self._anew() if self._stream is None else nullcontext():
            self._show_chunk(X, y, classes, sample_weight, n_total)
        return self

    def _show_chunk(
        self, X: SamplesLike, y: ArrayLike,
        classes: ArrayLike | None, sample_weight: ArrayLike | None, n_total: int | None,
    ) -> None:  # fmt: skip
        """The same, of a machine without a fit or with a stream."""
        first = self._stream is None
        asked = self.get_params(deep=False) if first else self._asked
        samples, labels = validated_pair(self, X, y, accept_sparse="csr", dtype=self._dtypes, reset=first)
        weights = checked_weights(sample_weight, samples)
        self.classes_ = stream_classes(None if first else self.classes_, labels, classes)
        self._asked = asked
        whole = samples.shape[0] if n_total is None else n_total
        if first:
            self._stream = self._begin(samples, whole) if self._is_binary else self._begin_pairs()
        if not self._is_binary:
            self._show_pairs(samples, labels, weights, whole)
            return
        codes = (labels == self.classes_[1]).astype(np.int64)
        self._learn(samples, codes, weights * self._class_weights(codes, weights)[codes])

    def _begin_pairs(self) -> object:
        """One machine for each pair of more than two classes."""
        self.pairs_ = list(combinations(self.classes_, 2))
        self.estimators_ = [self._for_pairs(None, np.empty(0)) for _ in self.pairs_]
        self._hold_no_rows()
        return self.estimators_

    def _show_pairs(self, X: Any, y: Any, weights: Array, n_total: int) -> None:
        for part, pair in zip(self.estimators_, self.pairs_, strict=True):
            mine = np.isin(y, pair)
            share = max(mine.mean(), 1.0 / len(y))  # of all the data, estimated from this chunk
            if mine.any():
                part._learn_chunk(X[mine], y[mine], pair, weights[mine], max(1, round(n_total * share)))
        seen = [part for part in self.estimators_ if part._stream is not None]
        self.solution_, self.n_iter_ = [part.solution_ for part in seen], max(part.n_iter_ for part in seen)


def own_arrays(learner: object) -> None:
    """Replace the read-only arrays of a learner by copies that it can update.

    They are read-only in models that were loaded as memory maps, or lie in another process's memory.

    learner: what has arrays as attributes.
    """
    for name, value in vars(learner).items():
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            setattr(learner, name, np.array(value))


def stream_classes(known: NDArray[Any] | None, y: NDArray[Any], classes: ArrayLike | None) -> NDArray[Any]:
    """The labels of a stream, and a check that those of this chunk are among them.

    known: the labels so far; None at the first chunk.
    y: labels of the chunk.
    classes: all labels, as the caller gives them.
    ValueError: fewer than two labels, others than at the first chunk, or one of the chunk that is not among
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
