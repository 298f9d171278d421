"""How far another package's solution is from the optimum, proven."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from formulations import soft_rmm
from formulations.arguments import seconds, tolerance
from formulations.families import hinge_families
from formulations.polytope import lift
from polyopt.certificates.certificate import Certificate, Claim
from polyopt.certificates.combine import combine
from polyopt.certificates.cpm import certify_cpm
from polyopt.certificates.geometry import LinearGeometry
from polyopt.certificates.hinge import certify_hinge
from polyopt.certificates.hinge_program import HingeProgram
from polyopt.certificates.machine import certify_families
from polyopt.certificates.sigma_geometry import SigmaLinearGeometry
from polyopt.foreign.answer import Answer, Samples, label_among
from polyopt.foreign.multipliers import our_multipliers
from polyopt.foreign.reading import answers_of
from polyopt.foreign.settings import Pair, Settings, settings_of
from polyopt.text import visible

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from formulations.matrices import MatrixLike, Vector
    from formulations.polytope import Loss
    from polyopt.certificates.claims.statement import Evidence, Statement
    from polyopt.certificates.cpm_point import Margin
    from polyopt.foreign.answer import Intercept

__all__ = ["certify_solution"]

_TITLES = {
    "svm": "the SVM",
    "rmm": "the Relative Margin Machine",
    "soft-rmm": "the Relative Margin Machine with slack on its bounds",
    "sigma-svm": "the Sigma-SVM",
}
_OURS = "The bound is by multipliers that polyopt found: {}."
_KINDS = {"penalised": " with a price on its intercept", "none": " without an intercept"}


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
        A fitted ``SVC`` or ``LinearSVC`` of scikit-learn; a solved cvxpy problem whose variables are named
        ``w`` and ``b``; a mapping with ``w`` and ``b``, or ``W`` (faces, the bias last), and ``alpha``,
        ``lam`` and ``lam_star`` where there are multipliers; an array of weights, the intercept last; or
        the path of a file: the same in JSON, CSV, ``.npy`` or ``.npz``, or a model of LIBSVM, LIBLINEAR or
        alkant/cpm.
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
        settings = settings_of(program, given, answer, samples)
        found.append(_certified(answer, samples, settings, tol, time_limit))
        titles.append(visible(" vs ".join(map(str, answer.labels or ()))))
    return found[0] if len(found) == 1 else combine(found, titles)


def _certified(
    answer: Answer, samples: Samples, settings: Settings, tol: float, time_limit: float | None
) -> Certificate:
    """The certificate of two classes, by the better of two bounds."""
    assert answer.labels is not None
    low, high = answer.labels
    weights = samples.weights * (1.0 if answer.weights is None else answer.weights)
    rows = np.flatnonzero(((samples.y == low) | (samples.y == high)) & (weights > 0))
    signs = np.where(samples.y[rows] == high, 1.0, -1.0)
    if len(np.unique(signs)) < 2:
        raise ValueError("the samples with a weight above 0 are of one class")
    pair = Pair(samples.X[rows], signs, weights[rows])
    answer = _cut(answer, rows, samples, settings)
    certify = _polytope if settings.program == "cpm" else _hinge
    found = None if answer.multipliers is None else certify(pair, answer, settings, answer.multipliers, tol)
    words = "The bound is by the multipliers that came with the solution."
    has_point = answer.w is not None or answer.faces is not None  # else it would be ours, not theirs
    if found is None or (has_point and found.relative_gap > tol and found.claim is not Claim.INFEASIBLE):
        ours = None if settings.program == "cpm" else our_multipliers(pair, settings, time_limit)
        other = certify(pair, answer, settings, ours, tol)
        if found is None:
            words = _OURS.format("none came with the solution")
        elif other.dual_value > found.dual_value:
            words = _OURS.format("those that came with the solution prove less")
        found = other if found is None or other.dual_value > found.dual_value else found
    evidence = tuple(part.of((str(low), str(high)), rows, 1.0) for part in found.evidence)
    return replace(found, evidence=evidence, note=f"{found.note} {words}".strip())


def _cut(answer: Answer, rows: NDArray[Any], samples: Samples, settings: Settings) -> Answer:
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
    pair: Pair, answer: Answer, settings: Settings, multipliers: Mapping[str, Vector] | None, tol: float
) -> Certificate:
    alpha = None if multipliers is None else multipliers["margin"]
    if alpha is not None and alpha.ndim == 1:
        alpha = alpha[:, None]
    return certify_cpm(
        pair.X, pair.y, settings.C * pair.weights, W=answer.faces, alpha=alpha, loss=settings.loss,
        margin=settings.margin, tol=tol,
    )  # fmt: skip


def _hinge(
    pair: Pair, answer: Answer, settings: Settings, multipliers: Mapping[str, Vector] | None, tol: float
) -> Certificate:
    costs, title = settings.C * pair.weights, _TITLES[settings.program] + _KINDS.get(settings.intercept, "")
    if settings.program == "soft-rmm":
        rows = soft_rmm.families(pair.y, costs, settings.B, settings.D * pair.weights)
    else:
        rows = hinge_families(pair.y, costs, settings.B, hard=True)
    if settings.intercept == "free" and settings.program != "sigma-svm":
        return certify_families(
            pair.X,
            rows,
            name=title,
            w=answer.w,
            b=answer.b,
            multipliers=multipliers,
            kernel=settings.kernel,
            tol=tol,
        )
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
    """The evidence of samples that end with a 1, as of these without it and of lifted features."""
    return replace(evidence, state=partial(_without_ones, evidence))


def _without_ones(evidence: Evidence) -> Statement:
    found = evidence.state()
    return replace(found, X=found.X[:, :-1], program={**found.program, "features": {"kind": "lifted"}})
