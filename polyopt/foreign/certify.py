"""Certificates of other packages' solutions."""

import warnings
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
from polyopt.foreign.answer import ROWS, Answer, Intercept, Samples, class_of, gamma_by, read_solution
from polyopt.linalg.kernels import Kernel
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.certify import certify_families
from polyopt.margin.geometry import LinearGeometry, SigmaLinearGeometry
from polyopt.margin.rmm import RelativeMarginMachine
from polyopt.margin.sigma_svm import SigmaSVM
from polyopt.margin.svm import SVM

if TYPE_CHECKING:
    from formulations.polytope import Loss, Margin

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
    """A solution for two classes, and the program whose optimum is meant.

    X (n, m), y (n,), weights (n,): samples of positive weight, their signs, and the weights of their costs.
    answer: the solution, for these samples and in the form of the program.
    program, C, B, D, intercept, loss, margin: of :func:`certify_solution`.
    kernel: None if w are weights of features.
    """

    X: Matrix
    y: Vector
    weights: Vector
    answer: Answer
    program: str
    C: float
    B: float = np.inf
    D: float = np.inf
    kernel: Kernel | None = None
    intercept: str = "free"
    loss: Any = "sum"
    margin: Any = "total"


def certify_solution(
    solution: object, X: MatrixLike, y: ArrayLike, program: str = "svm", *,
    C: float | None = None, B: float | None = None, D: float | None = None, kernel: str | None = None,
    gamma: float | Literal["scale", "auto"] | None = None, degree: int | None = None,
    coef0: float | None = None, intercept: Intercept | None = None, loss: "Loss | None" = None,
    margin: "Margin | None" = None, sample_weight: ArrayLike | None = None, positive: object = None,
    tol: float = 1e-6, time_limit: float | None = None,
) -> Certificate:  # fmt: skip
    """Certify another package's solution: prove how far it is from the optimum.

    Parameters
    ----------
    solution : object
        An array of weights, the intercept last, or of faces (K, m+1), the bias last; a mapping with ``w`` and
        ``b``, or ``W`` (such faces), and multipliers, if there are any, by the names of their rows:
        ``margin``, ``bound_above``, ``bound_below``; the path of a file of these: CSV or ``.npy`` for an
        array, ``.npz`` for a mapping; a fitted ``SVC`` or ``LinearSVC`` of scikit-learn; or a model from
        ``svm_train`` of LIBSVM's Python package, or from ``train`` of LIBLINEAR's.
    X : array_like or CSR of shape (n, m)
        The samples, as the package saw them.
    y : array_like of shape (n,)
        Their labels.
    program : {"svm", "rmm", "soft-rmm", "sigma-svm", "cpm"}
        The program whose optimum is meant.
    C, B, D : float, optional
        Its numbers. C is by default that of the solution, if it is known, or else 1; B and D have no default
        in programs that have them.
    kernel : {"linear", "poly", "rbf"}, optional
        The kernel, if the solution has none itself; w are then the signed coefficients of the n samples.
    gamma, degree, coef0 : optional
        The kernel's numbers, as in scikit-learn.
    intercept : {"free", "penalised", "none"}, optional
        The SVM's intercept: free of cost, or one more weight that costs ½b², as in LIBLINEAR, or 0. By
        default that of the solution, if it is known, or else free.
    loss : {"sum", "max"}, optional
        Of the polytope, as in :func:`polyopt.certify_cpm`.
    margin : {"total", "worst"}, optional
        Of the polytope, as there.
    sample_weight : array_like of shape (n,), optional
        Factors of the samples' costs, besides the weights of classes that the solution has.
    positive : object, optional
        The label on the side where w'x + b is positive, if the solution has none; by default the second in
        sorted order.
    tol : float
        Relative tolerance. If the solution's multipliers prove less, polyopt finds others.
    time_limit : float, optional
        Seconds for finding them, for each pair of classes.

    Returns
    -------
    Certificate
        Value, bound and gap, of all pairs of classes together; its note says where the multipliers of the
        bound come from. :meth:`Certificate.save` writes the claim as a file.

    Raises
    ------
    ValueError
        A solution that is broken, of other samples or of a program that polyopt does not have.
    OSError
        A file that cannot be read.
    """
    names = getattr(X, "columns", None)
    samples = Samples.of(X, y, sample_weight)
    tol, time_limit = tolerance(tol), seconds(time_limit)
    one_of("program", program, tuple(PROGRAMS))
    settings = {
        "C": C, "B": B, "D": D, "kernel": kernel, "gamma": gamma, "degree": degree, "coef0": coef0,
        "intercept": intercept, "loss": loss, "margin": margin,
    }  # fmt: skip
    settings = {name: value for name, value in settings.items() if value is not None}
    if unknown := [name for name in settings if name not in PROGRAMS[program]]:
        raise ValueError(f"{unknown[0]} is no setting of {program}, which has {', '.join(PROGRAMS[program])}")
    certificates, titles = [], []
    for answer in read_solution(solution, samples, None if names is None else [str(name) for name in names]):
        low, high = answer.labels or samples.sides(positive)
        if positive is not None and class_of(positive, samples.classes) != high:
            raise ValueError(f"{answer.source} says that +1 is {visible(str(high))!r}")
        weights = samples.weights if answer.weights is None else samples.weights * answer.weights
        rows = np.flatnonzero(((samples.y == low) | (samples.y == high)) & (weights > 0))
        signs = np.where(samples.y[rows] == high, 1.0, -1.0)
        if len(np.unique(signs)) < 2:
            raise ValueError("the samples with a weight above 0 are of one class")
        numbers = _program_settings(program, settings, answer, samples)
        answer_of_rows = _answer_of_rows(answer, samples, rows, program, numbers.get("kernel") is not None)
        pair = _Pair(samples.X[rows], signs, weights[rows], answer_of_rows, program, **numbers)
        found = _certified(pair, tol, time_limit)
        evidence = tuple(part.of((str(low), str(high)), rows, 1.0) for part in found.evidence)
        certificates.append(replace(found, evidence=evidence))
        titles.append(visible(f"{low} vs {high}"))
    return certificates[0] if len(certificates) == 1 else combine(certificates, titles)


def _answer_of_rows(
    answer: Answer, samples: Samples, rows: NDArray[Any], program: str, has_kernel: bool
) -> Answer:
    """Return an answer for these rows, in the form of the program."""
    w, b, faces, source = answer.w, answer.b, answer.faces, answer.source
    n, m = samples.X.shape
    if program == "cpm":
        faces = np.append(w, 0.0 if b is None else b)[None, :] if faces is None and w is not None else faces
        w = None
    elif faces is not None:
        if len(faces) != 1:
            raise ValueError(f"{source} has {len(faces)} faces, and {program} has one")
        w, b, faces = faces[0, :-1], float(faces[0, -1]), None
    if w is not None and w.shape != (n if has_kernel else m,):
        needed = f"{n} samples" if has_kernel else f"{m} features"
        raise ValueError(f"{source} has {w.size} coefficients, and the data have {needed}")
    if faces is not None and faces.shape[1] != m + 1:
        raise ValueError(f"{source} has {faces.shape[1] - 1} features, and the data have {m}")
    if w is not None and has_kernel:
        if np.delete(w, rows).any():
            raise ValueError(f"{source} has coefficients of samples whose weight is 0")
        w = w[rows]
    for name, values in (answer.multipliers or {}).items():
        if name not in _rows(program):
            raise ValueError(f"{source} has multipliers {name}, and {program} has no such rows")
        if values.shape[:1] != (n,):
            raise ValueError(f"{source} has {len(values)} multipliers {name} of {n} samples")
    multipliers = answer.multipliers and {name: values[rows] for name, values in answer.multipliers.items()}
    return replace(answer, w=w, b=b, faces=faces, multipliers=multipliers)


def _rows(program: str) -> tuple[str, ...]:
    """Return the names of the families of rows."""
    return ROWS if "rmm" in program else ROWS[:1]


def _program_settings(
    program: str, settings: dict[str, Any], answer: Answer, samples: Samples
) -> dict[str, Any]:
    """Check the settings of the program; those that are not given are the answer's, or the defaults."""
    C = settings.get("C", 1.0 if answer.C is None else answer.C)
    found: dict[str, Any] = {"C": positive("C", C, infinite=program != "cpm")}
    for name in {"B", "D"} & set(PROGRAMS[program]):
        if name not in settings:
            raise ValueError(f"{program} needs {name}: that of the program that the solution is of")
        found[name] = at_least(name, settings[name], 0.0, infinite=True)
    if program == "sigma-svm":
        within("D", found["D"], 0.0, 1.0)
    if program == "cpm":
        for name, values in (("loss", ("sum", "max")), ("margin", ("total", "worst"))):
            found[name] = settings.get(name, values[0])
            one_of(name, found[name], values)
        return found
    found["kernel"] = _kernel(settings, answer.kernel, samples)
    found["intercept"] = settings.get("intercept") or answer.intercept or "free"
    one_of("intercept", found["intercept"], ("free", "penalised", "none"))
    if found["intercept"] != "free" and (program != "svm" or found["kernel"] is not None):
        raise ValueError(
            f"a solution with the intercept {found['intercept']!r} is of the linear svm, not of {program} or "
            "a kernel"
        )
    return found


def _kernel(settings: dict[str, Any], own: Kernel | None, samples: Samples) -> Kernel | None:
    """Return the kernel, by default the answer's own; None if w are weights of features."""
    name = settings.get("kernel", "linear" if own is None else own.name)
    one_of("kernel", name, ("linear", "poly", "rbf"))
    if own is None and name == "linear":
        return None
    start = own or Kernel("linear")
    gamma = settings.get("gamma", "scale" if own is None else own.gamma)
    if gamma in ("scale", "auto"):
        gamma = gamma_by(gamma, samples)
    degree = whole("degree", settings.get("degree", start.degree))
    coef0 = real_number("coef0", settings.get("coef0", start.coef0))
    return Kernel(name, positive("gamma", gamma), degree, coef0)


def _certified(pair: _Pair, tol: float, time_limit: float | None) -> Certificate:
    """Return the certificate by the better of two bounds: the solution's multipliers, and polyopt's."""
    answer, certify = pair.answer, _certify_polytope if pair.program == "cpm" else _certify_hinge
    found = None if answer.multipliers is None else certify(pair, tol)
    words = "The bound is by the multipliers that came with the solution."
    has_point = answer.w is not None or answer.faces is not None  # otherwise the point would be polyopt's
    if found is None or (has_point and found.relative_gap > tol and found.claim is not Claim.INFEASIBLE):
        multipliers = None if pair.program == "cpm" else _our_multipliers(pair, time_limit)
        other = certify(replace(pair, answer=replace(answer, multipliers=multipliers)), tol)
        if found is None:
            words = _OURS.format("none came with the solution")
        elif other.dual_value > found.dual_value:
            words = _OURS.format("those that came with the solution prove less")
        found = other if found is None or other.dual_value > found.dual_value else found
    return replace(found, note=f"{found.note} {words}".strip())


def _our_multipliers(pair: _Pair, time_limit: float | None) -> dict[str, Vector] | None:
    """Find multipliers by polyopt's own machine within the time limit (seconds), by the names of the rows.

    None if the machine does not take these data or settings.
    """
    if pair.intercept == "none":
        return None
    is_lifted = pair.intercept == "penalised"  # a polytope of one face: the doubled objective
    machine: Any = ConvexPolytopeMachine(n_faces=1, C=2.0 * pair.C, inside_label=-1)
    machine = machine if is_lifted else _machine(pair)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a run that ends early gives a lower bound, which shows
        try:
            machine.set_params(time_limit=time_limit).fit(pair.X, pair.y, sample_weight=pair.weights)
        except ValueError:
            return None
    found = machine.solution_.duals
    if is_lifted:
        return {"margin": found["margin"][:, 0] / 2.0} if "margin" in found else None
    names = _rows(pair.program)
    return {name: found[name] for name in names} if set(names) <= set(found) else None


def _machine(pair: _Pair) -> Any:
    """Return polyopt's own machine of the program, unfitted."""
    k = pair.kernel or Kernel("linear")
    more: dict[str, Any] = {"kernel": k.name, "gamma": k.gamma, "degree": k.degree, "coef0": k.coef0}
    if pair.program == "svm":
        return SVM(C=pair.C, **more)
    if pair.program == "sigma-svm":
        return SigmaSVM(C=pair.C, D=pair.D, **more)
    return RelativeMarginMachine(C=pair.C, B=pair.B, bound_cost=pair.D, **more)


def _certify_polytope(pair: _Pair, tol: float) -> Certificate:
    alpha = None if pair.answer.multipliers is None else pair.answer.multipliers["margin"]
    if alpha is not None and alpha.ndim == 1:
        alpha = alpha[:, None]
    return certify_cpm(
        pair.X, pair.y, pair.C * pair.weights, W=pair.answer.faces, alpha=alpha, loss=pair.loss,
        margin=pair.margin, tol=tol,
    )  # fmt: skip


def _certify_hinge(pair: _Pair, tol: float) -> Certificate:
    w, b, multipliers, costs = pair.answer.w, pair.answer.b, pair.answer.multipliers, pair.C * pair.weights
    title, source = _TITLES[pair.program] + _KINDS.get(pair.intercept, ""), pair.answer.source
    if pair.program == "soft-rmm":
        rows = hinge_families(pair.y, costs, pair.B, pair.D * pair.weights)
    else:
        rows = hinge_families(pair.y, costs, pair.B, hard=True)
    if pair.program == "sigma-svm":
        geometry = SigmaLinearGeometry(pair.X, pair.D, pair.weights)
        b_centred = None if b is None or w is None else geometry.centred_intercept(w, b)
        program = HingeProgram(title, geometry, rows)
        return certify_hinge(program, v=w, b=b_centred, multipliers=multipliers, tol=tol)
    if pair.intercept == "free":
        return certify_families(
            pair.X, rows, name=title, w=w, b=b, multipliers=multipliers, kernel=pair.kernel, tol=tol
        )
    is_lifted = pair.intercept == "penalised"
    if not is_lifted and b:
        raise ValueError(f"{source} has the intercept {b:g}, and is said to have none")
    if is_lifted and w is not None:
        if b is None:
            raise ValueError(f"{source} has no intercept, and the program has a penalty on it")
        w = np.append(w, b)
    X = lift(pair.X) if is_lifted else pair.X
    program = HingeProgram(title, LinearGeometry(X), rows, intercept=False)
    found = certify_hinge(program, v=w, multipliers=multipliers, tol=tol)
    return replace(found, evidence=tuple(map(_of_lifted, found.evidence))) if is_lifted else found


def _of_lifted(evidence: Evidence) -> Evidence:
    """Return evidence of samples that end with a 1 as evidence of lifted features, without the 1."""
    return replace(evidence, state=partial(_without_ones, evidence))


def _without_ones(evidence: Evidence) -> Statement:
    found = evidence.state()
    return replace(found, X=found.X[:, :-1], program={**found.program, "features": {"kind": "lifted"}})
