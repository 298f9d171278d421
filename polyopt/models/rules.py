"""What the rules of a saved polytope machine state, and how often they agree with the machine itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from polyopt.methods import METHODS, find_method
from polyopt.polytope import Polytope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from formulations.matrices import Matrix
    from polyopt.models.model import Model
    from polyopt.polytope.forms import Label

__all__ = ["Agreement", "Rules"]


@dataclass(frozen=True)
class Agreement:
    """On how many samples rules give the machine's own label.

    Attributes
    ----------
    same, samples : int
        Samples of one label, and samples.
    """

    same: int
    samples: int

    @property
    def share(self) -> float:
        """The share of the samples."""
        return self.same / self.samples if self.samples else 1.0


@dataclass(frozen=True)
class Rules:
    """The polytopes of a machine of two classes, in the units before its scaler.

    Attributes
    ----------
    model : Model
        The model.
    polytopes : tuple of Polytope
        One, or two that decide by the difference of their scores.
    inside, outside : tuple
        The labels of each.
    """

    model: Model
    polytopes: tuple[Polytope, ...]
    inside: tuple[Label, ...]
    outside: tuple[Label, ...]

    @classmethod
    def of(cls, model: Model, shown: Callable[[str], str] = str) -> Self:
        """The rules of a model, whole.

        Parameters
        ----------
        model : Model
            A polytope machine of two classes.
        shown : callable
            How the features' names are written.

        Raises
        ------
        ValueError
            A machine without faces, or of more than two classes.
        """
        machine = model.estimator
        if not find_method(model.method).has_faces:
            having = ", ".join(method.name for method in METHODS.values() if method.has_faces)
            raise ValueError(f"it is a model of {model.method}; rules are of a polytope, --method {having}")
        if not hasattr(machine, "W_") and not hasattr(machine, "sides_"):
            raise ValueError(f"it has {len(machine.classes_)} classes, and so no polytope of its own")
        names = None if model.machine_names is None else tuple(map(shown, model.machine_names))
        sides = getattr(machine, "sides_", (machine,))
        polytopes = []
        for side in sides:
            own = side.polytope_
            if model.scaler is None:
                polytopes.append(Polytope(own.W, own.b, names, own.spread, own.centre))
            else:
                polytopes.append(Polytope.from_scaler(own.W, own.b, model.scaler, names))
        return cls(
            model,
            tuple(polytopes),
            tuple(_label(side.inside_label_) for side in sides),
            tuple(_label(side.outer_label_) for side in sides),
        )

    @property
    def decides(self) -> bool:
        """Whether the machine decides by these rules, and not by probabilities beside them."""
        return bool(getattr(self.model.estimator, "decision", "polytope") == "polytope")

    @property
    def most_terms(self) -> int:
        """The most terms that a face has."""
        return max(int((polytope.W != 0).sum(axis=1).max()) for polytope in self.polytopes)

    def shortened(self, digits: int | None = None, terms: int | None = None) -> Self:
        """The rules with rounded numbers and so many terms a face at most.

        A face keeps its largest terms, by ``|W_kj|`` times the feature's spread; each of the others is put at
        its typical value, the mean of the data of the fit where that is known.

        Parameters
        ----------
        digits : int, optional
            Significant digits of the numbers; by default all.
        terms : int, optional
            Terms of each face; by default all.
        """
        short = tuple(polytope.shortened(digits, max_terms=terms) for polytope in self.polytopes)
        return replace(self, polytopes=short)

    def predict(self, X: Matrix) -> NDArray[Any]:
        """Labels by these rules; a sample on a face is inside.

        Parameters
        ----------
        X : array_like, frame or CSR matrix
            Samples as the model reads them.
        """
        for _, step in self.model.steps:
            X = X if hasattr(step, "scale_") else step.transform(X)
        classes = self.model.estimator.classes_
        if len(self.polytopes) == 1:
            [polytope], [inside] = self.polytopes, self.inside
            within = polytope.contains(X)
            return classes[np.where(_label(classes[1]) == inside, within, ~within).astype(int)]
        signed = [
            (1.0 if outside == _label(classes[1]) else -1.0) * polytope.scores(X).max(axis=1)
            for polytope, outside in zip(self.polytopes, self.outside, strict=True)
        ]
        return classes[(sum(signed) > 0).astype(int)]

    def agreement(self, X: Matrix) -> Agreement:
        """On how many samples the rules give the machine's own label.

        Parameters
        ----------
        X : array_like, frame or CSR matrix
            Samples as the model reads them.
        """
        same = self.predict(X) == self.model.predict(X)
        return Agreement(int(same.sum()), len(same))

    def fewest_terms(self, X: Matrix, fidelity: float, digits: int | None = None) -> int:
        """The fewest terms a face with which :meth:`shortened` agrees on a share of the samples.

        Each number of terms is tried from one on; the terms are those of :meth:`shortened`.

        Parameters
        ----------
        X : array_like, frame or CSR matrix
            Samples as the model reads them.
        fidelity : float
            The share, above 0 and at most 1.
        digits : int, optional
            Significant digits of the numbers.

        Raises
        ------
        ValueError
            A share out of its range, or one that all terms do not reach.
        """
        if not 0.0 < fidelity <= 1.0:
            raise ValueError(f"--fidelity must be above 0 and at most 1, not {fidelity!r}")
        best = 0.0
        for terms in range(1, max(self.most_terms, 1) + 1):
            found = self.shortened(digits, terms).agreement(X).share
            if found >= fidelity:
                return terms
            best = max(best, found)
        raise ValueError(
            f"no number of terms reaches a fidelity of {fidelity:g}: the best share is {best:.6g}"
        )


def _label(label: Any) -> Label:
    """A label as Python has it."""
    found: Label = label.item() if isinstance(label, np.generic) else label
    return found
