"""What a classifier with faces can say of itself: one sample explained, and the whole model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import Array
    from polyopt.estimators.given import SamplesLike
    from polyopt.explanations import ModelExplanation, SampleExplanation, Subject

__all__ = ["Explained"]


class Explained:
    """Base of the classifiers with faces; a subclass is a :class:`PairwiseClassifier`."""

    def explain(
        self, x: SamplesLike, *, held: Sequence[str | int] = (),
        bounds: str | tuple[ArrayLike, ArrayLike] | None = None, top: int = 5,
    ) -> SampleExplanation:  # fmt: skip
        """Why a sample has its label, and the nearest point that has the other one (two classes).

        Parameters
        ----------
        x : array_like, frame or CSR matrix of shape (m,) or (1, m)
            The sample.
        held : sequence of str or int
            Features that may not change: their names, or their places.
        bounds : "data" or pair of array_like of shape (m,), optional
            The least and the largest value of each feature at the nearest point; "data" takes those of the
            training data, made wider where the sample itself is beyond them.
        top : int
            Terms and changes that are shown; all are in the answer.

        Returns
        -------
        SampleExplanation
            Print it; ``to_dict()`` has everything, and ``certificate()`` proves its nearest point. Lengths
            are in standard deviations of the features, where the machine knows them.

        Raises
        ------
        ValueError
            More than two classes, several samples, a feature that is not there, or bounds that cross.
        """
        from polyopt.explanations import explain_sample

        subject, data = self._subject(), self._training_samples()
        sample = self._one_sample(x)
        if isinstance(bounds, str):
            if bounds != "data" or data is None:
                wanted = "needs training data, dense and kept" if bounds == "data" else "is not known"
                raise ValueError(f"bounds={bounds!r} {wanted}: give a pair, the least and the largest values")
            bounds = np.minimum(data.min(axis=0), sample), np.maximum(data.max(axis=0), sample)
        return explain_sample(subject, sample, held=held, bounds=bounds, top=top, data=data)

    def explain_model(
        self, X: SamplesLike | None = None, y: ArrayLike | None = None, *, top: int = 8
    ) -> ModelExplanation:
        """Which features count, and what each face catches that no other does (two classes).

        Parameters
        ----------
        X : array_like of shape (n, m), optional
            Samples on which it is counted; by default those of the fit.
        y : array_like of shape (n,), optional
            Their labels.
        top : int
            Features that are shown; all are in the answer.

        Raises
        ------
        ValueError
            More than two classes, no data, sparse ones, or labels of another number.
        """
        from polyopt.explanations import explain_model

        subject = self._subject()
        if X is not None:
            samples = self._scorable(X)  # type: ignore[attr-defined]
            if sp.issparse(samples):
                raise ValueError("explain_model takes dense samples; give some of the rows, as X.toarray()")
            return explain_model(subject, samples, y, top=top)
        data = self._training_samples()
        if data is None:
            raise ValueError("explain_model needs X: the machine holds no dense training data")
        holder: Any = getattr(self, "sides_", (self,))[0]
        labels = self.classes_[(holder._side * holder._y > 0).astype(int)]  # type: ignore[attr-defined]
        return explain_model(subject, data, labels, top=top)

    def _subject(self) -> Subject:
        from polyopt.explanations import Subject
        from polyopt.explanations.subject import columns_of

        check_is_fitted(self)
        if not self._is_binary:  # type: ignore[attr-defined]
            raise ValueError(
                f"explanations are of two classes, and there are {len(self.classes_)}: "  # type: ignore[attr-defined]
                "ask a machine of estimators_, whose two classes are in pairs_"
            )
        model = self._as_fitted()  # type: ignore[attr-defined]
        sides, pieces = getattr(model, "sides_", (model,)), getattr(model, "polytopes_", None)
        polytopes = [side.polytope_ for side in sides] if pieces is None else list(pieces)
        kind: Any = "union" if pieces is not None else "difference" if len(sides) > 1 else "polytope"
        outside = sides[0].outer_label_
        [inside] = [label for label in model.classes_ if label != outside]

        def predict(X: Array) -> NDArray[Any]:
            found: NDArray[Any] = model.classes_[model._labels(X)]
            return found

        decides = getattr(model, "decision", "polytope") == "polytope"
        columns = columns_of(polytopes[0].names)
        return Subject(tuple(polytopes), kind, (inside, outside), predict, columns, decides)

    def _one_sample(self, x: SamplesLike) -> Array:
        """A sample (m,), checked."""
        given: Any = x.to_frame().T if hasattr(x, "to_frame") else x
        if not hasattr(given, "iloc") and not sp.issparse(given) and np.ndim(given) == 1:
            given = np.reshape(given, (1, -1))
        checked = self._scorable(given)  # type: ignore[attr-defined]
        rows = checked.toarray() if sp.issparse(checked) else checked
        if len(rows) != 1:
            raise ValueError(f"one sample at a time is explained; x has {len(rows)}")
        return np.asarray(rows[0], dtype=float)

    def _training_samples(self) -> Array | None:
        """The samples of the fit, where they are kept and dense."""
        X = getattr(getattr(self, "sides_", (self,))[0], "_X", None)
        return None if X is None or sp.issparse(X) else np.asarray(X, dtype=float)
