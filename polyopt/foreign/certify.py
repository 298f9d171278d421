"""Certificates of any point of a certified program: one function, and the table of its programs.

A point comes as arrays, or as another package's solution (:mod:`polyopt.foreign.solutions`). Each program has
a function of its own that encloses the point's value and the bound that multipliers prove
(:mod:`polyopt.foreign.programs`). For hinge programs and the Convex Polytope Machine the bound is the better
of two, by the multipliers that came with the point and by polyopt's own; the functions of other programs
compute missing multipliers themselves.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
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
from polyopt.cpm.estimator import ConvexPolytopeMachine
from polyopt.foreign.programs import KERNEL, PROGRAMS
from polyopt.foreign.solutions import Answer, Samples, class_of, gamma_by, read_file, read_solution
from polyopt.linalg.kernels import Kernel
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.geometry import LinearGeometry, SigmaLinearGeometry
from polyopt.margin.rmm import RelativeMarginMachine
from polyopt.margin.sigma_svm import SigmaSVM
from polyopt.margin.svm import SVM
from polyopt.methods.method import named
from polyopt.sparse.expansion_classifier import kernel_matrix

_OURS = "The bound is by multipliers that polyopt found: {}."


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
    certificates, titles = [], []
    for answer in read_solution(program, point, multipliers or {}, samples):
        low, high = answer.labels or samples.sides(positive)
        if positive is not None and class_of(positive, samples.classes) != high:
            raise ValueError(f"{answer.source} says that +1 is {visible(str(high))!r}")
        is_of_pair = (samples.y == low) | (samples.y == high)
        rows = np.flatnonzero(is_of_pair & (samples.weights * answer.weights > 0))
        found = _certified(_pair_of(program, settings, answer, samples, rows, high), tol, time_limit)
        evidence = tuple(part.of((str(low), str(high)), rows, 1.0) for part in found.evidence)
        certificates.append(replace(found, evidence=evidence))
        titles.append(visible(f"{low} vs {high}"))
    return certificates[0] if len(certificates) == 1 else combine(certificates, titles)


@dataclass(frozen=True)
class _Pair:
    """A solution for two classes, and the program that is meant."""

    program: str
    X: Matrix  # (n, m), the samples of positive weight
    y: Vector  # (n,) signs
    weights: Vector  # (n,) factors of the samples' costs
    point: Mapping[str, Any]  # for these samples, by the names of the table
    multipliers: Mapping[str, Any] | None
    C: float
    kernel: Kernel | None  # None if w are weights of features
    intercept: str
    settings: Mapping[str, Any]  # the others, arguments of the program's function


def _pair_of(
    program: str, settings: dict[str, Any], answer: Answer, samples: Samples, rows: NDArray[Any], high: Any
) -> _Pair:
    """Return the answer for these rows, with +1 for the class `high`, with its settings or the answer's."""
    row, n = PROGRAMS[program], len(samples.y)
    if missing := [name for name in row.needed if name not in settings]:
        raise ValueError(f"{program} needs {missing[0]}: that of the program that the point is of")
    signs = np.where(samples.y[rows] == high, 1.0, -1.0)
    if len(np.unique(signs)) < 2:
        raise ValueError("the samples with a weight above 0 are of one class")
    kernel = _kernel(settings, answer.kernel, samples) if "kernel" in row.settings else None
    intercept = settings.get("intercept") or answer.intercept or "free"
    one_of("intercept", intercept, ("free", "penalised", "none"))
    if intercept != "free" and (program != "svm" or kernel is not None):
        raise ValueError(
            f"a solution with the intercept {intercept!r} is of the linear svm, not of {program} or a kernel"
        )

    def of_rows(values: Mapping[str, Any], *whole: str) -> dict[str, Any]:
        """Return the entries of these rows, of arrays with an entry for each sample."""
        return {
            name: np.asarray(value)[rows] if name not in whole and np.shape(value)[:1] == (n,) else value
            for name, value in values.items()
        }

    size = (n, "samples") if kernel is not None else (samples.X.shape[1], "features")
    point = answer.in_form(program, *size)
    if kernel is not None and "w" in point and np.delete(point["w"], rows).any():
        raise ValueError(f"{answer.source} has coefficients of samples whose weight is 0")
    for name, values in answer.multipliers.items() if row.has_two_bounds else ():
        if name not in row.rows:
            raise ValueError(f"{answer.source} has multipliers {name}, and {program} has no such rows")
        if values.shape[:1] != (n,):
            raise ValueError(f"{answer.source} has {len(values)} multipliers {name} of {n} samples")
    C = settings.get("C", 1.0 if answer.C is None else answer.C)
    of_kernel = KERNEL if "kernel" in row.settings else ()
    own = {name: value for name, value in settings.items() if name not in ("C", "intercept", *of_kernel)}
    return _Pair(
        program, samples.X[rows], signs, (samples.weights * answer.weights)[rows],
        of_rows(point, "W", *(() if kernel is not None else ("w",))), of_rows(answer.multipliers) or None,
        positive_number("C", C, infinite=row.variables == ("w", "b")), kernel, intercept, of_rows(own, "W"),
    )  # fmt: skip


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
    """Return the certificate, by the better of two bounds if the program has two."""
    if not PROGRAMS[pair.program].has_two_bounds:
        return _certificate(pair, tol)
    found = None if pair.multipliers is None else _certificate(pair, tol)
    words = "The bound is by the multipliers that came with the solution."
    # Without a point of the solution the point would be polyopt's.
    if found is None or (pair.point and found.relative_gap > tol and found.claim is not Claim.INFEASIBLE):
        other = _certificate(replace(pair, multipliers=_our_multipliers(pair, time_limit)), tol)
        if found is None:
            words = _OURS.format("none came with the solution")
        elif other.dual_value > found.dual_value:
            words = _OURS.format("those that came with the solution prove less")
        found = other if found is None or other.dual_value > found.dual_value else found
    return replace(found, note=f"{found.note} {words}".strip())


def _certificate(pair: _Pair, tol: float) -> Certificate:
    """Call the program's function; multipliers of rows that are not given are 0, if others are."""
    row, X, costs = PROGRAMS[pair.program], pair.X, pair.C * pair.weights
    if pair.intercept != "free":
        return _without_free_intercept(pair, tol)
    arguments: dict[str, Any] = {**pair.point, **pair.settings, "C": costs}
    given = pair.multipliers or {}
    if given and row.has_two_bounds:
        given = dict.fromkeys(row.rows, np.zeros(len(pair.y))) | dict(given)
    arguments |= {row.rows[name]: values for name, values in given.items()}
    if row.is_matrix:
        X, arguments["entry_error"] = kernel_matrix(X, pair.kernel or Kernel("linear"))
    if pair.program == "l0":
        arguments |= {"C": pair.C, "weights": pair.weights}
    elif pair.program == "sigma-svm":
        arguments["weights"] = pair.weights
        if arguments.keys() >= {"w", "b"}:  # the function takes the intercept for centred samples
            geometry = SigmaLinearGeometry(X, within("D", pair.settings["D"], 0.0, 1.0), pair.weights)
            arguments["b"] = geometry.centred_intercept(pair.point["w"], pair.point["b"])
    elif pair.program == "cpm" and "alpha" in arguments and arguments["alpha"].ndim == 1:
        arguments["alpha"] = arguments["alpha"][:, None]
    elif pair.program == "soft-rmm":
        arguments["D"] = at_least("D", pair.settings["D"], 0.0, infinite=True) * pair.weights
    if "kernel" in row.settings and not row.is_matrix:
        arguments["kernel"] = pair.kernel
    found: Certificate = named(row.function)(X, pair.y, tol=tol, **arguments)
    return found


def _our_multipliers(pair: _Pair, time_limit: float | None) -> dict[str, Vector] | None:
    """Find multipliers by polyopt's own machine within the time limit (seconds), by the names of the rows.

    None if the machine does not take these data or settings, or the certificate computes multipliers itself.
    """
    if pair.intercept == "none" or pair.program == "cpm":
        return None
    k = pair.kernel or Kernel("linear")
    more: dict[str, Any] = {"kernel": k.name, "gamma": k.gamma, "degree": k.degree, "coef0": k.coef0}
    machine: Any = SVM(C=pair.C, **more)
    is_lifted = pair.intercept == "penalised"
    if is_lifted:  # a polytope of one face: the doubled objective
        machine = ConvexPolytopeMachine(n_faces=1, C=2.0 * pair.C, inside_label=-1)
    elif pair.program == "sigma-svm":
        machine = SigmaSVM(C=pair.C, D=pair.settings["D"], **more)
    elif pair.program in ("rmm", "soft-rmm"):
        bounds = {"B": pair.settings["B"], "bound_cost": pair.settings.get("D", np.inf)}
        machine = RelativeMarginMachine(C=pair.C, **bounds, **more)
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


def _without_free_intercept(pair: _Pair, tol: float) -> Certificate:
    """Certify a point of the linear SVM with a penalty on its intercept, one more weight, or without one."""
    w, b, is_lifted = pair.point.get("w"), pair.point.get("b"), pair.intercept == "penalised"
    if not is_lifted and b:
        raise ValueError(f"the solution has the intercept {b:g}, and is said to have none")
    if is_lifted and w is not None:
        if b is None:
            raise ValueError("the solution has no intercept, and the program has a penalty on it")
        w = np.append(w, b)
    rows = hinge_families(pair.y, pair.C * pair.weights, hard=True)
    geometry = LinearGeometry(lift(pair.X) if is_lifted else pair.X)
    title = f"the SVM with{' a price on its' if is_lifted else 'out an'} intercept"
    program = HingeProgram(title, geometry, rows, intercept=False)
    found = certify_hinge(program, v=w, multipliers=pair.multipliers, tol=tol)
    return replace(found, evidence=tuple(map(_of_lifted, found.evidence))) if is_lifted else found


def _of_lifted(evidence: Evidence) -> Evidence:
    """Return evidence of samples that end with a 1 as evidence of lifted features, without the 1."""
    return replace(evidence, state=partial(_without_ones, evidence))


def _without_ones(evidence: Evidence) -> Statement:
    found = evidence.state()
    return replace(found, X=found.X[:, :-1], program={**found.program, "features": {"kind": "lifted"}})
