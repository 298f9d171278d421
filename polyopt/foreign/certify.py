"""Certificates of other packages' solutions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.families import hinge_families
from formulations.language.arguments import (
    at_least,
    one_of,
    positive,
    real_number,
    seconds,
    tolerance,
    whole,
    within,
)  # fmt: skip
from formulations.language.types import Matrix, MatrixLike, Vector
from formulations.polytope import lift
from polyopt.base.text import visible
from polyopt.certificates.certificate import Certificate, Claim, combine
from polyopt.certificates.claims.statement import Evidence, Statement
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.estimator import ConvexPolytopeMachine
from polyopt.foreign import PROGRAMS
from polyopt.foreign.answer import Answer, Intercept, Samples, answers_of, gamma_by, label_among
from polyopt.linalg.kernels import Kernel
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.certify import certify_families
from polyopt.margin.geometry import LinearGeometry, SigmaLinearGeometry
from polyopt.margin.rmm import RelativeMarginMachine
from polyopt.margin.sigma_svm import SigmaSVM
from polyopt.margin.svm import SVM

if TYPE_CHECKING:
    from formulations.polytope import Loss
    from polyopt.cpm.certificate import Margin

_TITLES = {
    "svm": "the SVM",
    "rmm": "the Relative Margin Machine",
    "soft-rmm": "the Relative Margin Machine with slack on its bounds",
    "sigma-svm": "the Sigma-SVM",
}
_OURS = "The bound is by multipliers that polyopt found: {}."
_KINDS = {"penalised": " with a price on its intercept", "none": " without an intercept"}


@dataclass(frozen=True)
class _Pair:
    """Samples X (n, m) of two classes, signs y (n,), and weights (n,) of their costs, all positive."""

    X: Matrix
    y: Vector
    weights: Vector


@dataclass(frozen=True)
class _Settings:
    """A program and its numbers; see :func:`certify_solution`. The kernel is None for a linear machine."""

    program: str
    C: float
    B: float = np.inf
    D: float = np.nan
    kernel: Kernel | None = None
    intercept: str = "free"
    loss: Any = "sum"
    margin: Any = "total"

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of the families of rows."""
        return ("margin", "bound_above", "bound_below") if "rmm" in self.program else ("margin",)


def certify_solution(
    solution: object, X: MatrixLike, y: ArrayLike, program: str = "svm", *,
    C: float | None = None, B: float | None = None, D: float | None = None, kernel: str | None = None,
    gamma: float | Literal["scale", "auto"] | None = None, degree: int | None = None,
    coef0: float | None = None, intercept: Intercept | None = None, loss: Loss | None = None,
    margin: Margin | None = None, sample_weight: ArrayLike | None = None, positive: object = None,
    tol: float = 1e-6, time_limit: float | None = None,
) -> Certificate:  # fmt: skip
    """Certify what another package found: how far it is from the optimum, proven.

    Parameters
    ----------
    solution : object
        An array of weights, the intercept last, or of faces (K, m+1), the bias last; a mapping with ``w`` and
        ``b``, or ``W`` (such faces), and ``alpha``, ``lam`` and ``lam_star``, or ``multipliers`` by the names
        of the rows, if there are any; the path of a file of these: CSV or ``.npy`` for an array, ``.npz`` for
        a mapping; a fitted ``SVC`` or ``LinearSVC`` of scikit-learn; or a model that ``svm_train`` of
        LIBSVM's Python package, or ``train`` of LIBLINEAR's, has returned.
    X : array_like or CSR of shape (n, m)
        The samples, as the package saw them.
    y : array_like of shape (n,)
        Their labels.
    program : {"svm", "rmm", "soft-rmm", "sigma-svm", "cpm"}
        The program whose optimum is meant.
    C, B, D : float, optional
        Its numbers. C is by default what the solution tells, or else 1; the others are needed where the
        program has them.
    kernel : {"linear", "poly", "rbf"}, optional
        The kernel, where the solution does not tell; w are then the signed coefficients of the n samples.
    gamma, degree, coef0 : optional
        The kernel's numbers, as in scikit-learn.
    intercept : {"free", "penalised", "none"}, optional
        Whether the SVM's intercept is free of cost, or is one more weight that costs ½b², as in LIBLINEAR,
        or is 0. By default what the solution tells, or else free.
    loss : {"sum", "max"}, optional
        Of the polytope, as in :func:`polyopt.certify_cpm`.
    margin : {"total", "worst"}, optional
        Of the polytope, as there.
    sample_weight : array_like of shape (n,), optional
        What multiplies the cost of each sample, beside the weights of classes that the solution tells.
    positive : object, optional
        The label on the side where w'x + b is positive, where the solution does not tell; by default the
        second in sorted order.
    tol : float
        Relative tolerance. Where the multipliers that came along prove less, we find our own.
    time_limit : float, optional
        Seconds that our own may take, for each pair of classes.

    Returns
    -------
    Certificate
        Value, bound and gap; its note says whose multipliers prove it. :meth:`Certificate.save` writes the
        claim as a file. Of several classes it is of all pairs together.

    Raises
    ------
    ValueError
        A solution that is broken, of other samples or of a program that we do not have.
    OSError
        A file that cannot be read.
    """
    names = getattr(X, "columns", None)
    samples = Samples.of(X, y, sample_weight)
    tol, time_limit = tolerance(tol), seconds(time_limit)
    given = {
        "C": C, "B": B, "D": D, "kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0,
        "intercept": intercept, "loss": loss, "margin": margin,
    }  # fmt: skip
    answers = answers_of(solution, samples, None if names is None else [str(name) for name in names])
    found, titles = [], []
    for answer in answers:
        side = None if positive is None else label_among(positive, samples.classes)
        if answer.labels is None:
            answer = replace(answer, labels=samples.two(side))
        elif side is not None and side != answer.labels[1]:
            raise ValueError(f"{answer.source} tells that +1 is {visible(str(answer.labels[1]))!r}")
        settings = _settings_of(program, given, answer, samples)
        found.append(_certified(answer, samples, settings, tol, time_limit))
        titles.append(visible(" vs ".join(map(str, answer.labels or ()))))
    return found[0] if len(found) == 1 else combine(found, titles)


def _settings_of(program: str, given: Mapping[str, Any], answer: Answer, samples: Samples) -> _Settings:
    """The settings that are given, and for the others what the answer tells."""
    one_of("program", program, tuple(PROGRAMS))
    asked = {name: value for name, value in given.items() if value is not None}
    if foreign := [name for name in asked if name not in PROGRAMS[program]]:
        raise ValueError(f"{foreign[0]} is no setting of {program}, which has {', '.join(PROGRAMS[program])}")
    asked = {**answer.costs, **asked}
    found: dict[str, Any] = {"C": positive("C", asked.get("C", 1.0), infinite=program != "cpm")}
    for name in {"B", "D"} & set(PROGRAMS[program]):
        if name not in asked:
            raise ValueError(f"{program} needs {name}: the program that the solution is of")
        found[name] = at_least(name, asked[name], 0.0, infinite=True)
    if program == "sigma-svm":
        found["D"] = within("D", asked["D"], 0.0, 1.0)
    if program == "cpm":
        for name, values in (("loss", ("sum", "max")), ("margin", ("total", "worst"))):
            found[name] = asked.get(name, values[0])
            one_of(name, found[name], values)
        return _Settings(program, **found)
    found["kernel"] = _kernel_of(asked, answer.kernel, samples)
    found["intercept"] = asked.get("intercept") or answer.intercept or "free"
    one_of("intercept", found["intercept"], ("free", "penalised", "none"))
    if found["intercept"] != "free" and (program != "svm" or found["kernel"] is not None):
        raise ValueError(
            f"a solution with the intercept {found['intercept']!r} is of the linear svm, not of "
            f"{program} or a kernel"
        )
    return _Settings(program, **found)


def _kernel_of(asked: Mapping[str, Any], told: Kernel | None, samples: Samples) -> Kernel | None:
    """The kernel; None of a linear machine whose w are weights of features."""
    name = asked.get("kernel", "linear" if told is None else told.name)
    one_of("kernel", name, ("linear", "poly", "rbf"))
    if told is None and name == "linear":
        return None
    start = told or Kernel("linear")
    gamma = asked.get("gamma", "scale" if told is None else told.gamma)
    if gamma in ("scale", "auto"):
        gamma = gamma_by(gamma, samples)
    degree = whole("degree", asked.get("degree", start.degree))
    return Kernel(
        name, positive("gamma", gamma), degree, real_number("coef0", asked.get("coef0", start.coef0))
    )


def _certified(
    answer: Answer, samples: Samples, settings: _Settings, tol: float, time_limit: float | None
) -> Certificate:
    """The certificate of two classes, by the better of two bounds."""
    assert answer.labels is not None
    low, high = answer.labels
    weights = samples.weights * (1.0 if answer.weights is None else answer.weights)
    rows = np.flatnonzero(((samples.y == low) | (samples.y == high)) & (weights > 0))
    signs = np.where(samples.y[rows] == high, 1.0, -1.0)
    if len(np.unique(signs)) < 2:
        raise ValueError("the samples with a weight above 0 are of one class")
    pair = _Pair(samples.X[rows], signs, weights[rows])
    answer = _cut(answer, rows, samples, settings)
    certify = _polytope if settings.program == "cpm" else _hinge
    found = None if answer.multipliers is None else certify(pair, answer, settings, answer.multipliers, tol)
    words = "The bound is by the multipliers that came with the solution."
    has_point = answer.w is not None or answer.faces is not None  # else it would be ours, not theirs
    if found is None or (has_point and found.relative_gap > tol and found.claim is not Claim.INFEASIBLE):
        ours = None if settings.program == "cpm" else _our_multipliers(pair, settings, time_limit)
        other = certify(pair, answer, settings, ours, tol)
        if found is None:
            words = _OURS.format("none came with the solution")
        elif other.dual_value > found.dual_value:
            words = _OURS.format("those that came with the solution prove less")
        found = other if found is None or other.dual_value > found.dual_value else found
    evidence = tuple(part.of((str(low), str(high)), rows, 1.0) for part in found.evidence)
    return replace(found, evidence=evidence, note=f"{found.note} {words}".strip())


def _our_multipliers(pair: _Pair, settings: _Settings, time_limit: float | None) -> dict[str, Vector] | None:
    """Multipliers that our own machine finds by the time limit (seconds), by the names of the rows.

    None if our machine does not take these data or settings.
    """
    if settings.intercept == "none":
        return None
    lifted = settings.intercept == "penalised"  # a polytope of one face: twice the price, but for the slacks
    machine: Any = ConvexPolytopeMachine(n_faces=1, C=2.0 * settings.C, inside_label=-1)
    machine = machine if lifted else _machine(settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a run that ends short proves less, and that shows
        try:
            machine.set_params(time_limit=time_limit).fit(pair.X, pair.y, sample_weight=pair.weights)
        except ValueError:
            return None
    found = machine.solution_.duals
    if lifted:
        return {"margin": found["margin"][:, 0] / 2.0} if "margin" in found else None
    names = settings.rows
    return {name: found[name] for name in names} if set(names) <= set(found) else None


def _machine(settings: _Settings) -> Any:
    """Our own machine of a program, unfitted."""
    k = settings.kernel or Kernel("linear")
    kernel: dict[str, Any] = {
        "kernel": k.name, "gamma": k.gamma, "degree": k.degree, "coef0": k.coef0,
    }  # fmt: skip
    if settings.program == "svm":
        return SVM(C=settings.C, **kernel)
    if settings.program == "sigma-svm":
        return SigmaSVM(C=settings.C, D=settings.D, **kernel)
    bound_cost = settings.D if settings.program == "soft-rmm" else np.inf
    return RelativeMarginMachine(C=settings.C, B=settings.B, bound_cost=bound_cost, **kernel)


def _cut(answer: Answer, rows: NDArray[Any], samples: Samples, settings: _Settings) -> Answer:
    """The answer for these samples alone, with w or faces as the program has them."""
    w, b, faces = answer.w, answer.b, answer.faces
    if settings.program == "cpm":
        faces = np.append(w, 0.0 if b is None else b)[None, :] if faces is None and w is not None else faces
        w = None
    elif faces is not None:
        if len(faces) != 1:
            raise ValueError(f"{answer.source} has {len(faces)} faces, and {settings.program} has one")
        w, b, faces = faces[0, :-1], float(faces[0, -1]), None
    width = samples.n if settings.kernel is not None else samples.m
    if w is not None and w.shape != (width,):
        what = "samples" if settings.kernel is not None else "features"
        raise ValueError(f"{answer.source} has {w.size} coefficients, and the data have {width} {what}")
    if faces is not None and faces.shape[1] != samples.m + 1:
        raise ValueError(f"{answer.source} has {faces.shape[1] - 1} features, and the data have {samples.m}")
    if w is not None and settings.kernel is not None:
        if np.delete(w, rows).any():
            raise ValueError(f"{answer.source} has coefficients of samples whose weight is 0")
        w = w[rows]
    known = None
    if answer.multipliers is not None:
        for name, values in answer.multipliers.items():
            if name not in settings.rows:
                raise ValueError(
                    f"{answer.source} has multipliers {name}, and {settings.program} has no such rows"
                )
            if values.shape[:1] != (samples.n,):
                raise ValueError(
                    f"{answer.source} has {len(values)} multipliers {name} of {samples.n} samples"
                )
        known = {name: values[rows] for name, values in answer.multipliers.items()}
    return replace(answer, w=w, b=b, faces=faces, multipliers=known)


def _polytope(
    pair: _Pair, answer: Answer, settings: _Settings, multipliers: Mapping[str, Vector] | None, tol: float
) -> Certificate:
    alpha = None if multipliers is None else multipliers["margin"]
    if alpha is not None and alpha.ndim == 1:
        alpha = alpha[:, None]
    return certify_cpm(
        pair.X, pair.y, settings.C * pair.weights, W=answer.faces, alpha=alpha, loss=settings.loss,
        margin=settings.margin, tol=tol,
    )  # fmt: skip


def _hinge(
    pair: _Pair, answer: Answer, settings: _Settings, multipliers: Mapping[str, Vector] | None, tol: float
) -> Certificate:
    costs, title = settings.C * pair.weights, _TITLES[settings.program] + _KINDS.get(settings.intercept, "")
    if settings.program == "soft-rmm":
        rows = hinge_families(pair.y, costs, settings.B, settings.D * pair.weights)
    else:
        rows = hinge_families(pair.y, costs, settings.B, hard=True)
    if settings.intercept == "free" and settings.program != "sigma-svm":
        return certify_families(
            pair.X, rows, name=title, w=answer.w, b=answer.b, multipliers=multipliers,
            kernel=settings.kernel, tol=tol,
        )  # fmt: skip
    if settings.program == "sigma-svm":
        geometry = SigmaLinearGeometry(pair.X, settings.D, pair.weights)
        moved = None if answer.b is None or answer.w is None else geometry.moved(answer.w, answer.b)
        program = HingeProgram(title, geometry, rows)
        return certify_hinge(program, v=answer.w, b=moved, multipliers=multipliers, tol=tol)
    lifted, w = settings.intercept == "penalised", answer.w
    if not lifted and answer.b:
        raise ValueError(f"{answer.source} has the intercept {answer.b:g}, and is said to have none")
    if lifted and w is not None:
        if answer.b is None:
            raise ValueError(f"{answer.source} has no intercept, which the program with a price on it needs")
        w = np.append(w, answer.b)
    program = HingeProgram(title, LinearGeometry(lift(pair.X) if lifted else pair.X), rows, intercept=False)
    found = certify_hinge(program, v=w, multipliers=multipliers, tol=tol)
    return replace(found, evidence=tuple(map(_of_lifted, found.evidence))) if lifted else found


def _of_lifted(evidence: Evidence) -> Evidence:
    """Evidence of samples that end with a 1, as evidence of these without it and of lifted features."""
    return replace(evidence, state=partial(_without_ones, evidence))


def _without_ones(evidence: Evidence) -> Statement:
    found = evidence.state()
    return replace(found, X=found.X[:, :-1], program={**found.program, "features": {"kind": "lifted"}})
