"""Displays as scikit-learn has them: made from a fitted estimator, drawn by ``plot``, shown by a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from polyopt.certificates import Certificate
from polyopt.explanations import ModelExplanation
from polyopt.plots.figure import Axes, Drawn, Figure, Places
from polyopt.plots.optimality import conditions, multipliers
from polyopt.plots.polytope import face_weights, polytope_plane, polytope_slices


class _Display(ABC):
    """Base of the displays: after `plot`, ``figure_`` is the figure and ``ax_`` its axes, one or an array."""

    figure_: Figure
    ax_: Axes | NDArray[Any]

    @abstractmethod
    def _draw(self, ax: Places | None) -> Drawn: ...

    def plot(self, ax: Places | None = None) -> Self:
        """Draw on `ax`, by default on a new figure, and return the display."""
        drawn: Any = self._draw(ax)
        if ax is None:
            self.figure_, own = drawn, drawn.axes
            self.ax_ = own[0] if len(own) == 1 else np.array(own, dtype=object)
        else:
            self.ax_ = drawn if hasattr(drawn, "figure") else np.asarray(drawn, dtype=object)
            self.figure_ = np.ravel(self.ax_)[0].figure
        return self

    def _repr_png_(self) -> Any:
        """Show a figure that the display made; given axes are shown by their own figure."""
        drawn: Any = getattr(self, "figure_", None)
        return drawn._repr_png_() if hasattr(drawn, "_repr_png_") else None

    def __repr__(self) -> str:
        state = "drawn" if hasattr(self, "figure_") else "not drawn: call plot()"
        return f"<{type(self).__name__}, {state}>"


class CertificateDisplay(_Display):
    """Distance of an estimator from optimal, by condition.

    Parameters
    ----------
    certificate : Certificate
        The certificate.
    """

    def __init__(self, certificate: Certificate):
        self.certificate = certificate

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, tol: float = 1e-6, ax: Axes | None = None
    ) -> CertificateDisplay:
        """Certify a fitted classifier of polyopt, and draw the certificate.

        `tol` is relative, for the gap and for every residual.
        """
        return cls(_having(estimator, "certificate").certificate(tol)).plot(ax)

    def _draw(self, ax: Any) -> Drawn:
        return conditions(self.certificate, ax=ax)


class DualsDisplay(_Display):
    """The multipliers of an estimator, by size and by the output of their sample.

    Parameters
    ----------
    duals : DataFrame
        Those of a binary problem, or of one pair of classes.
    B : float
        The bound on the outputs, to be marked; infinite for none.
    """

    def __init__(self, duals: pd.DataFrame, *, B: float = np.inf):
        self.duals, self.B = duals, B

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, pair: str | None = None, ax: Places | None = None
    ) -> DualsDisplay:
        """Draw the ``duals_`` of a fitted classifier of polyopt.

        Of more than two classes, `pair` names one pair, as the column ``pair`` of ``duals_`` has it.
        """
        model = _having(estimator, "duals_")
        duals = model.duals_
        known = duals["pair"].unique().tolist() if "pair" in duals else []
        if pair is None and len(known) > 1:
            raise ValueError(f"there are several pairs of classes: give pair, one of {known}")
        if pair is not None:
            if pair not in known:
                raise ValueError(f"pair must be one of {known}, not {pair!r}")
            duals = duals[duals["pair"] == pair]
        bound = getattr(model, "B", None)
        return cls(duals, B=np.inf if bound is None else float(bound)).plot(ax)

    def _draw(self, ax: Places | None) -> Drawn:
        return multipliers(self.duals, B=self.B, ax=ax)


class FacesDisplay(_Display):
    """The faces of a polytope machine: each by its weights, or all of them in slices through the data.

    Parameters
    ----------
    explanation : ModelExplanation, optional
        Source of the bars of weights.
    model : estimator, optional
        Source of the slices.
    X, y : ndarray, optional
        The samples in the slices.
    features : sequence of int or str, optional
        The features of the slices; those that weigh most by default.
    at : str or array_like of shape (m,)
        The point at which other features are held, as of :func:`polyopt.plots.polytope_slices`.
    """

    def __init__(
        self, explanation: ModelExplanation | None = None, *, model: BaseEstimator | None = None,
        X: ArrayLike | None = None, y: ArrayLike | None = None,
        features: Sequence[int | str] | None = None, at: str | ArrayLike = "inside",
    ):  # fmt: skip
        if (explanation is None) == (model is None):
            raise ValueError(
                "faces are drawn of an explanation, or of a model with X and y: give one of them"
            )
        self.explanation, self.model, self.X, self.y = explanation, model, X, y
        self.features, self.at = features, at

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: ArrayLike | None = None, y: ArrayLike | None = None, *,
        kind: str = "weights", features: Sequence[int | str] | None = None, at: str | ArrayLike = "inside",
        ax: Places | None = None,
    ) -> FacesDisplay:  # fmt: skip
        """Draw the faces of a fitted classifier of two classes.

        `kind` is "weights", bars of each face's weights by X (the samples of the fit by default), or "slices"
        through the polytope with X and y, with two features the plane itself. Only slices take `features`
        and `at`.
        """
        if kind not in ("weights", "slices"):
            raise ValueError(f"kind must be 'weights' or 'slices', not {kind!r}")
        if kind == "weights":
            if features is not None:
                raise ValueError("features are of slices: with kind='weights' each face has its largest")
            return cls(_having(estimator, "explain_model").explain_model(X, y)).plot(ax)
        if X is None or y is None:
            raise ValueError("slices need samples and their labels: give X and y")
        return cls(model=_having(estimator, "W_"), X=X, y=y, features=features, at=at).plot(ax)

    def _draw(self, ax: Any) -> Drawn:
        if self.explanation is not None:
            return face_weights(self.explanation, ax=ax)
        assert self.X is not None
        assert self.y is not None
        if np.shape(self.X)[1:] == (2,) and self.features is None:
            return polytope_plane(self.model, self.X, self.y, ax=ax)
        return polytope_slices(self.model, self.X, self.y, features=self.features, at=self.at, ax=ax)


def _having(estimator: Any, name: str) -> Any:
    """Return a fitted estimator that has the attribute to be drawn, or refuse it."""
    if not hasattr(estimator, "fit"):
        raise TypeError(f"estimator must be a classifier of polyopt, not {type(estimator).__name__}")
    check_is_fitted(estimator)
    if not hasattr(estimator, name):
        last = ": give its last step, pipeline[-1]" if hasattr(estimator, "steps") else ""
        raise ValueError(f"{type(estimator).__name__} has no {name}, of which the picture is made{last}")
    return estimator
