"""Rules of a saved polytope machine, and their agreement with the machine."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from formulations.language.types import Matrix
from polyopt.explanations.classifier import decision_model_of
from polyopt.explanations.decision_model import DecisionModel
from polyopt.methods import METHODS, find_method
from polyopt.models.model import Model
from polyopt.polytope import Polytope
from polyopt.polytope.rules import as_json, union_rules
from polyopt.polytope.sql import Label, Reading, as_sql


@dataclass(frozen=True)
class Rules:
    """The polytopes of a machine of two classes, in the units of the table."""

    model: Model  #: the model
    #: Its polytopes: one, two that decide by the difference of their scores, or the pieces of a union.
    decision: DecisionModel

    @classmethod
    def of(cls, model: Model, shown: Callable[[str], str] = str) -> Self:
        """Return the rules of a polytope machine of two classes, with the features' names as `shown`.

        ValueError: a machine without faces, or of more than two classes.
        """
        machine = model.estimator
        if not find_method(model.method).has_faces:
            known = ", ".join(method.name for method in METHODS.values() if method.has_faces)
            raise ValueError(f"it is a model of {model.method}; rules are of a polytope, --method {known}")
        if not hasattr(machine, "W_") and not hasattr(machine, "sides_"):
            raise ValueError(
                f"it has {len(machine.classes_)} classes, and so no polytope of its own: see Model.pairs"
            )
        raw, decision = model.raw_units, decision_model_of(machine)
        names = tuple(shown(name) for name in raw.names)
        polytopes = tuple(raw.polytope(polytope, names) for polytope in decision.polytopes)
        return cls(model, replace(decision, polytopes=polytopes))

    @property
    def polytopes(self) -> tuple[Polytope, ...]:
        """Polytopes in the units of the table."""
        return self.decision.polytopes

    @property
    def labels(self) -> tuple[Label, Label]:
        """Labels inside and outside, of two polytopes those of the first; the second has them exchanged."""
        inside, outside = (
            label.item() if isinstance(label, np.generic) else label for label in self.decision.labels
        )
        return inside, outside

    @property
    def decides(self) -> bool:
        """True if the machine predicts by these rules, and not by probabilities."""
        return bool(getattr(self.model.estimator, "decision", "polytope") == "polytope")

    @property
    def most_terms(self) -> int:
        """Largest number of terms of a face."""
        return max(int((polytope.W != 0).sum(axis=1).max()) for polytope in self.polytopes)

    def shortened(self, digits: int | None = None, terms: int | None = None) -> Self:
        """Return the rules with so many significant digits and at most so many terms a face; by default all.

        A face keeps its largest terms, by ``|W_kj|`` times the feature's spread. Other features are set to
        their typical values, the means of the training data if these are known.
        """
        short = tuple(polytope.shortened(digits, max_terms=terms) for polytope in self.polytopes)
        return replace(self, decision=replace(self.decision, polytopes=short))

    def predict(self, X: Matrix) -> NDArray[Any]:
        """Return labels by these rules, of samples as the model reads them."""
        decision, classes = self.decision, self.model.estimator.classes_
        is_outside = decision.are_second(decision.scores(self.model.raw_values(X)))
        return classes[(is_outside == (decision.labels[1] == classes[1])).astype(int)]

    def texts(
        self, digits: int = 4, terms: int | None = None, shown: Callable[[str], str] = str
    ) -> list[str]:
        """Return the rules as text, one for each polytope, or one for a union, with labels as `shown`.

        Numbers have so many significant digits, and a face is shown with so many terms, by default all.
        """
        labels = [shown(str(label)) for label in self.labels]
        if self.decision.kind == "union":
            return [union_rules(self.polytopes, digits, terms, *labels)]
        return [
            polytope.rules(digits, max_terms=terms, inside=inside, outside=outside)
            for polytope, (inside, outside) in zip(self.polytopes, [labels, labels[::-1]], strict=False)
        ]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the rules for JSON, one for each polytope, or one for a union."""
        if self.decision.kind == "union":
            return [as_json(self.polytopes, *self.labels, is_union=True)]
        pairs = zip(self.polytopes, [self.labels, self.labels[::-1]], strict=False)
        return [polytope.to_json(*labels) for polytope, labels in pairs]

    def to_sql(self) -> str:
        """Return a CASE expression over the data's columns: a row's label, NULL if a value is missing.

        Missing values are filled if the model fills them, and a text that the fit did not see has no term.
        ValueError: steps that no such expression can have, or two polytopes that decide by their difference.
        """
        raw = self.model.raw_units
        if any(f.is_gap or f.knot is not None for f in raw.features):
            raise ValueError(
                "rules as code read columns as they are or filled, and some features of this model are "
                "hinges or tell of missing values"
            )
        if self.decision.kind == "difference":
            raise ValueError(
                "rules as code are of one class inside, and this model decides by the difference of two "
                "polytopes: fit it with an inside_label, or export it to ONNX"
            )
        reading = Reading(raw.columns, [(f.column, f.text) for f in raw.features], raw.fills)
        return as_sql(self.polytopes, *self.labels, reading)

    def agreement(self, X: Matrix) -> NDArray[np.bool_]:
        """Return the mask of the samples, as the model reads them, on which rules and machine agree."""
        return np.asarray(self.predict(X) == self.model.predict(X))

    def fewest_terms(self, X: Matrix, fidelity: float, digits: int | None = None) -> int:
        """Return the fewest terms a face with which :meth:`shortened` has a fidelity of at least this.

        The fidelity is the fraction of the samples with the machine's label. ValueError: a `fidelity` that is
        not above 0 and at most 1, or that all terms do not reach.
        """
        if not 0.0 < fidelity <= 1.0:
            raise ValueError(f"--fidelity must be above 0 and at most 1, not {fidelity!r}")
        best = 0.0
        for terms in range(1, max(self.most_terms, 1) + 1):
            reached = float(self.shortened(digits, terms).agreement(X).mean())
            if reached >= fidelity:
                return terms
            best = max(best, reached)
        raise ValueError(
            f"no number of terms reaches a fidelity of {fidelity:g}: the best share is {best:.6g}"
        )
