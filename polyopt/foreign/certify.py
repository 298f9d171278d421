"""Certificates of any point of a certified program: one function, and the table of its programs.

A point comes as arrays, or as another package's solution (:mod:`polyopt.foreign.solutions`). Each program has
a function of its own that encloses the point's value and the bound that multipliers prove
(:mod:`polyopt.foreign.programs`). For hinge programs and the Convex Polytope Machine the bound is the better
of two, by the multipliers that came with the point and by those of polyopt's own fit; the functions of other
programs compute missing multipliers themselves.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from formulations.families import hinge_families
from formulations.language.arguments import at_least, one_of, real_number, seconds, tolerance, whole, within
from formulations.language.arguments import positive as positive_number
from formulations.language.program import Program
from formulations.language.types import Matrix, Vector
from formulations.polytope import lift
from polyopt.base.text import visible
from polyopt.certificates.certificate import Certificate, Claim, combine
from polyopt.certificates.claims.statement import Evidence, Statement
from polyopt.certificates.kkt import certify_program
from polyopt.cpm.certificate import certify_cpm
from polyopt.cpm.estimator import ConvexPolytopeMachine
from polyopt.foreign.programs import KERNEL, PROGRAMS
from polyopt.foreign.solutions import Answer, Samples, class_of, gamma_by, read_file, read_solution
from polyopt.linalg.kernels import Kernel
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.certify import certify_families
from polyopt.margin.geometry import LinearGeometry, SigmaLinearGeometry
from polyopt.margin.rmm import RelativeMarginMachine
from polyopt.margin.sigma_svm import SigmaSVM
from polyopt.margin.svm import SVM
from polyopt.sparse.expansion_classifier import kernel_matrix

_TITLES = {
    "svm": "the SVM",
    "rmm": "the Relative Margin Machine",
    "soft-rmm": "the Relative Margin Machine with slack on its bounds",
    "sigma-svm": "the Sigma-SVM",
}
_OURS = "The bound is by multipliers that polyopt found: {}."
_KINDS = {"penalised": " with a price on its intercept", "none": " without an intercept"}


def certify(
    program: str | Program, data: Any = None, point: Any = None,
    multipliers: Mapping[str, ArrayLike] | None = None, *, positive: object = None, tol: float = 1e-6,
    time_limit: float | None = None, **settings: Any,
) -> Certificate:  # fmt: skip
    """Certify a point of a program: prove how far it is from the optimum.

    =========== ================================================ ========== =========================
    program     settings                                         point      multipliers
    =========== ================================================ ========== =========================
    svm         C, kernel, gamma, degree, coef0, intercept       w, b       margin
    rmm         C, B, kernel, gamma, degree, coef0               w, b       margin, bound_above and
                                                                            bound_below
    soft-rmm    those of rmm, and D, the cost of outputs over B  w, b       those of rmm
    sigma-svm   C, D                                             w, b       margin
    cpm         C, loss, margin                                  W          margin
    polyceptron C, radius, assignment, global_bound              W          margin
    pc-slp      C, radius, assignment                            W          inside, outside
    spla1       C, ridge, positives, assignment, n_faces         W          none
    plume       C, gamma, ridge, responsibilities                W          none
    logistic    C, n_faces, ridge, bias_ridge, l1, group,        W          margin
                groups, assignment, support, signs
    one-norm    C, kernel, gamma, degree, coef0                  alpha, b   margin
    l0          C, kernel, gamma, degree, coef0, bound           alpha, b   margin, relaxation
    =========== ================================================ ========== =========================

    Parameters
    ----------
    program : str or Program
        A name of the table, or a program of :mod:`formulations`, which has its data; the conditions of
        optimality of the latter are checked as by :func:`polyopt.certify_program`.
    data : (X, y), (X, y, sample_weight) or Dataset
        Samples X (n, m), array_like or CSR, as the solver saw them; labels y (n,); and factors (n,) of the
        samples' costs, 1 by default. None for a Program.
    point : object
        A mapping from the names of the table to arrays: w (m,), with a kernel the signed coefficients (n,),
        and b; faces W (K, m+1), the bias last; coefficients alpha (n,). An array of weights, the intercept
        last, or of faces. The path of a file of these: CSV without a head or ``.npy`` for an array, ``.npz``
        for a mapping.
        A fitted ``SVC`` or ``LinearSVC`` of scikit-learn; a model from ``svm_train`` of LIBSVM's Python
        package, or from ``train`` of LIBLINEAR's. None if there are only multipliers, for the point that
        they imply. For a Program a mapping with a value for every variable.
    multipliers : mapping of str to array_like, optional
        Multipliers (n,), of faces (n, K), by the names of their rows, not negative. They may stand in the
        mapping `point` too.
    positive : object, optional
        The label on the side +1 of the program, if the point has none; by default the second in sorted
        order. The Polyceptron, PC-SLP, SPLA1 and PLUME have +1 inside, and the Convex Polytope Machine -1.
    tol : float
        Relative tolerance. If the point's multipliers prove less, polyopt finds others where it can.
    time_limit : float, optional
        Seconds for finding them, for each pair of classes.
    **settings
        Those of the table. C is by default that of the solution, if it is known, or else 1; B and D have no
        default. ``intercept`` of the SVM is "free", "penalised" (one more weight that costs ½b², as in
        LIBLINEAR) or "none". ``kernel`` is "linear", "poly" or "rbf", with its numbers as in scikit-learn.
        The others are arguments of the functions ``certify_...`` of the programs.

    Returns
    -------
    Certificate
        Value, bound and gap, of all pairs of classes together; its note says where the multipliers of the
        bound come from. :meth:`Certificate.save` writes the claim as a file.

    Raises
    ------
    ValueError
        A point that is broken, of other samples or of a program that is not in the table.
    OSError
        A file that cannot be read.

    Examples
    --------
    >>> from polyopt import certify
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [-1, -1, 1, 1]
    >>> print(certify("svm", (X, y), {"w": [2.0], "b": -3.0}, C=10.0).sentence)  # doctest: +ELLIPSIS
    The point is optimal within the tolerance. The bound is by multipliers that polyopt found: ...
    """
    if isinstance(program, Program):
        return certify_program(program, point, multipliers or {}, tol=tol)
    one_of("program", program, tuple(PROGRAMS))
    row, tol, time_limit = PROGRAMS[program], tolerance(tol), seconds(time_limit)
    settings = {name: value for name, value in settings.items() if value is not None}
    if unknown := [name for name in settings if name not in row.settings]:
        raise ValueError(f"{unknown[0]} is no setting of {program}, which has {', '.join(row.settings)}")
    X, y, *weights = (data.X, data.y) if hasattr(data, "X") else data
    samples = Samples.of(X, y, *weights)
    point = read_file(Path(point)) if isinstance(point, str | Path) else point
    if row.function:
        return _certify_directly(program, samples, point, multipliers or {}, settings, positive, tol)
    certificates, titles = [], []
    for answer in read_solution(point, multipliers or {}, samples):
        low, high = answer.labels or samples.sides(positive)
        if positive is not None and class_of(positive, samples.classes) != high:
            raise ValueError(f"{answer.source} says that +1 is {visible(str(high))!r}")
        weights = samples.weights if answer.weights is None else samples.weights * answer.weights
        rows, signs = samples.rows_of(low, high, weights)
        numbers = _program_settings(program, settings, answer, samples)
        answer_of_rows = _answer_of_rows(answer, samples, rows, program, numbers.get("kernel") is not None)
        pair = _Pair(samples.X[rows], signs, weights[rows], answer_of_rows, program, **numbers)
        certificates.append(_of_data(_certified(pair, tol, time_limit), low, high, rows))
        titles.append(visible(f"{low} vs {high}"))
    return certificates[0] if len(certificates) == 1 else combine(certificates, titles)


def _of_data(found: Certificate, low: Any, high: Any, rows: NDArray[Any]) -> Certificate:
    """Return the certificate with evidence of these rows and labels of the data."""
    return replace(
        found, evidence=tuple(part.of((str(low), str(high)), rows, 1.0) for part in found.evidence)
    )


# -- programs whose functions find missing multipliers ------------------------------------------


def _certify_directly(
    program: str, samples: Samples, point: Any, multipliers: Mapping[str, ArrayLike],
    settings: dict[str, Any], positive: object, tol: float,
) -> Certificate:  # fmt: skip
    """Call the program's function with the samples of positive weight, labelled -1 and +1."""
    row = PROGRAMS[program]
    low, high = samples.sides(positive)
    rows, signs = samples.rows_of(low, high, samples.weights)
    fields = dict(point) if isinstance(point, Mapping) else {row.variables[0]: point}
    fields |= multipliers
    if unknown := [name for name in fields if name not in (*row.variables, *row.rows)]:
        known = ", ".join((*row.variables, *row.rows))
        raise ValueError(f"the point has a field {visible(str(unknown[0]))!r}; there are {known}")
    if fields.get(row.variables[0]) is None:
        raise ValueError(f"the point has no {row.variables[0]}")
    arguments = {row.rows.get(name, name): value for name, value in fields.items()}
    n = len(samples.y)
    of_kernel = KERNEL if row.has_kernel else ()
    arguments |= {name: value for name, value in settings.items() if name not in ("C", *of_kernel)}
    arguments = {  # arrays with an entry for each sample, W apart, are of all samples
        name: np.asarray(value)[rows] if name != "W" and np.shape(value)[:1] == (n,) else value
        for name, value in arguments.items()
    }
    module, _, name = row.function.rpartition(".")
    certify_point = getattr(import_module(module), name)
    for needed, parameter in signature(certify_point).parameters.items():
        if needed in row.settings and needed not in settings and parameter.default is parameter.empty:
            raise ValueError(f"{program} needs {needed}: that of the program that the point is of")
    C, X, weights = settings.get("C", 1.0), samples.X[rows], samples.weights[rows]
    if not row.has_kernel:
        costs = positive_number("C", C) * weights
        return _of_data(certify_point(X, signs, C=costs, tol=tol, **arguments), low, high, rows)
    K, error = kernel_matrix(X, _kernel(settings, None, samples) or Kernel("linear"))
    if name == "certify_l0":
        arguments |= {"C": C, "weights": weights}
    else:
        arguments["C"] = positive_number("C", C) * weights
    found: Certificate = certify_point(K, signs, tol=tol, entry_error=error, **arguments)
    return found


# -- hinge programs and the Convex Polytope Machine ---------------------------------------------


@dataclass(frozen=True)
class _Pair:
    """A solution for two classes, and the program that is meant, with settings of :func:`certify`."""

    X: Matrix  # (n, m), the samples of positive weight
    y: Vector  # (n,) signs
    weights: Vector  # (n,) factors of the samples' costs
    answer: Answer  # for these samples, in the form of the program
    program: str
    C: float
    B: float = np.inf
    D: float = np.inf
    kernel: Kernel | None = None  # None if w are weights of features
    intercept: str = "free"
    loss: Any = "sum"
    margin: Any = "total"


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
        if name not in PROGRAMS[program].rows:
            raise ValueError(f"{source} has multipliers {name}, and {program} has no such rows")
        if values.shape[:1] != (n,):
            raise ValueError(f"{source} has {len(values)} multipliers {name} of {n} samples")
    multipliers = answer.multipliers and {name: values[rows] for name, values in answer.multipliers.items()}
    return replace(answer, w=w, b=b, faces=faces, multipliers=multipliers)


def _program_settings(
    program: str, settings: dict[str, Any], answer: Answer, samples: Samples
) -> dict[str, Any]:
    """Check the settings of the program; those that are not given are the answer's, or the defaults."""
    C = settings.get("C", 1.0 if answer.C is None else answer.C)
    found: dict[str, Any] = {"C": positive_number("C", C, infinite=program != "cpm")}
    for name in {"B", "D"} & set(PROGRAMS[program].settings):
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
    return Kernel(name, positive_number("gamma", gamma), degree, coef0)


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
    names = PROGRAMS[pair.program].rows
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
