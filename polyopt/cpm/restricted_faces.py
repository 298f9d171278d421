"""The estimator's part in restricted faces: those with few features or with small integers as coefficients.

The searches (:mod:`polyopt.cpm.few_features`, :mod:`polyopt.cpm.integer`) need faces that are independent
programs for a fixed assignment. This file checks the parameters for that, writes rules as text, and calls
:mod:`polyopt.cpm.certificate_restricted`.
"""

from typing import Any

from polyopt.certificates.certificate import Certificate
from polyopt.cpm.certificate_restricted import certify_cpm_integer, certify_cpm_subset
from polyopt.estimators.face_penalty import FacePenalty
from polyopt.polytope import Polytope

NUMBERS = ("integers", "scales", "thresholds")  # arrays p, δ, θ of a solution with faces δ_k (p_k·x − θ_k)


class WholePolytope(Polytope):
    """A polytope with integer coefficients, whose rules by default state all digits."""

    def rules(
        self, digits: int = 15, max_terms: int | None = None, *, inside: str | None = None,
        outside: str | None = None,
    ) -> str:  # fmt: skip
        """Return the faces as text; arguments as in :meth:`polyopt.polytope.Polytope.rules`."""
        return super().rules(digits, max_terms, inside=inside, outside=outside)


def check_restrictions(machine: Any) -> None:
    """Raise ValueError for parameters that exclude `max_features` or `integers`."""
    penalty, sgd = machine.penalty or FacePenalty(), machine.sgd
    if penalty.max_features is not None:
        if penalty.l1 or penalty.group:
            raise ValueError("l1 and group need max_features=None: few features exclude such a penalty")
        _check_independent(machine, f"max_features={penalty.max_features!r}")
    if penalty.integers is not None:
        setting = f"integers={penalty.integers!r}"
        _check_independent(machine, setting)
        if penalty.l1 or penalty.group:
            raise ValueError(f"{setting} has no prices (penalties) of weights: leave out l1 and group")
        if sgd is not None and sgd.feature_scale != 1.0:
            raise ValueError(
                f"{setting} counts in the units of X: set feature_scale=1, not {sgd.feature_scale!r}, and "
                "scale X beforehand"
            )


def _check_independent(machine: Any, setting: str) -> None:
    """Raise ValueError for parameters that couple the faces, and for solvers that cannot restrict faces."""
    margin = machine.penalty.margin
    perplexity = 1.0 if machine.sgd is None else machine.sgd.perplexity  # 1: not bounded below
    if machine.solver not in ("auto", "exact", "dual"):
        raise ValueError(f"{setting} needs solver='exact' or 'dual', not {machine.solver!r}")
    if machine.loss != "sum" or margin != "total":
        raise ValueError(
            f"{setting} needs loss='sum' and margin='total', with which the faces are independent; not "
            f"loss={machine.loss!r} with margin={margin!r}"
        )
    if perplexity > 1:
        raise ValueError(f"{setting} has no floor of the perplexity: set perplexity=1, not {perplexity!r}")


def certify_restricted(machine: Any, X: Any, tol: float) -> Certificate:
    """Return the certificate of a fitted machine for its assignment of the samples X."""
    solution, penalty = machine.solution_, machine._asked_penalty
    names = [f"tree_{k}" for k in range(len(solution["W"]))]  # search trees over the features of each face
    arguments = {
        "alpha": solution.duals["margin"], "assignment": machine.assignment_, "tol": tol,
        "max_features": penalty.max_features,
        "trees": [solution.duals[name] for name in names if name in solution.duals] or None,
        "penalty": machine._face_penalty(),
    }  # fmt: skip
    if penalty.integers is None:
        return certify_cpm_subset(X, machine._y, machine._costs, W=solution["W"], **arguments)
    arguments |= {name: solution[name] for name in NUMBERS}
    return certify_cpm_integer(X, machine._y, machine._costs, largest=penalty.integers, **arguments)
