"""The methods that can be compared, shown and fitted: one entry each.

A new method is its own files (program, solver, certificate, estimator), its entry here, and its names in
the lazy imports of :mod:`polyopt`; what the command line, the comparison and the report know of it comes
from here.

An entry says which estimator, which program, which of its solvers is the fast one, and with what
settings. Settings that depend on the data, such as the bound B of the Relative Margin Machine, are
worked out by the entry's ``tuning``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from formulations.solution import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DEFAULT_METHODS", "METHODS", "Method", "find_method", "status_of"]

Tuning = Callable[[Any, "NDArray[Any]", Mapping[str, Any]], Any]


def status_of(estimator: Any) -> Status:
    """How the solver of a fitted estimator ended; of several pairs of classes, the first that fell short."""
    solutions = estimator.solution_ if isinstance(estimator.solution_, list) else [estimator.solution_]
    fine = (Status.OPTIMAL, Status.CONVERGED)
    return next((s.status for s in solutions if s.status not in fine), solutions[0].status)


def relative_bound(X: Any, y: NDArray[Any], settings: Mapping[str, Any]) -> float:
    """The bound B half-way between 1 and the SVM's largest output θ: ``B = 1 + (θ − 1)/2``.

    θ is taken over the training samples of the SVM with the same C and kernel. At θ the machine
    would be the SVM; Shivaswamy & Jebara (2008) search below it in steps of which this is the first.
    """
    from polyopt.estimators.svm import SVM

    shared = {name: value for name, value in settings.items() if name in ("C", "kernel", "gamma")}
    svm = SVM(**shared).fit(X, y)
    if status_of(svm) is Status.INTERRUPTED:
        raise KeyboardInterrupt  # its own solver keeps the point instead, which is of no use here
    theta = float(np.abs(svm.duals_["output"]).max())
    return max(1.0, 1.0 + 0.5 * (theta - 1.0))


def wider_class(X: Any, y: NDArray[Any], settings: Mapping[str, Any]) -> Any:
    """The class of two whose samples spread more widely, which is better kept outside of a polytope.

    None for more than two classes: of each pair, the estimator then takes the later one.
    """
    classes = np.unique(y)
    if len(classes) != 2:
        return None
    return max(classes, key=lambda label: _total_variance(X[y == label]))


def narrower_class(X: Any, y: NDArray[Any], settings: Mapping[str, Any]) -> Any:
    """The class of two whose samples spread less widely, which is better kept inside of a polytope.

    None for more than two classes, as in :func:`wider_class`.
    """
    wider = wider_class(X, y, settings)
    return None if wider is None else next(label for label in np.unique(y) if label != wider)


def _total_variance(X: Any) -> float:
    """Sum of the variances of the columns, without a dense copy of a sparse X."""
    squares = X.multiply(X) if sp.issparse(X) else X * X
    return float(np.sum(np.asarray(squares.mean(axis=0)) - np.asarray(X.mean(axis=0)) ** 2))


@dataclass(frozen=True)
class Method:
    """One method: an estimator with settings, its exact solver and its fast one.

    Attributes
    ----------
    name : str
        What a user types, such as ``"rmm-rbf"``.
    title : str
        What it is, in words.
    programs : tuple of str
        The program, such as ``"rmm.qp"``, and its dual: both solvers' answers are answers to both.
    home : str
        Module and class of the estimator.
    fast : str
        Its fast or stochastic solver; the other is ``"exact"``.
    proving : str
        The solver that proves the optimum where the others prove less; empty where they do not.
    is_integer : bool
        Whether the program is an integer one, which may take for ever.
    duals_of : str
        The program whose multipliers the estimator keeps, where it is not the first of `programs`.
    unit : str
        What an iteration of the fast solver is.
    counts : str
        What :meth:`complexity` counts: ``"support vectors"`` or ``"faces"``.
    settings : dict
        Parameters of the estimator, solver and limits apart.
    tuned : str
        The setting that depends on the data; empty for none.
    rule : str
        How it is chosen, in words.
    tuning : callable, optional
        Chooses it: takes the training data, the labels and the other settings to its value.
    """

    name: str
    title: str
    programs: tuple[str, str]
    home: str
    fast: str
    unit: str
    counts: str
    settings: dict[str, Any] = field(default_factory=dict)
    tuned: str = ""
    rule: str = ""
    tuning: Tuning | None = None
    proving: str = ""
    is_integer: bool = False
    duals_of: str = ""

    def solvers(self, prove: bool = False) -> tuple[str, ...]:
        """The solvers to compare: the exact one, the fast one, and at will the proving one."""
        return ("exact", self.fast, self.proving) if prove and self.proving else ("exact", self.fast)

    @property
    def estimator_class(self) -> type:
        """The estimator's class, imported when asked for."""
        module, _, name = self.home.rpartition(".")
        return getattr(import_module(module), name)

    def settings_for(self, X: Any, y: NDArray[Any], **given: Any) -> dict[str, Any]:
        """Settings for these training data.

        Parameters
        ----------
        X : array_like or CSR of shape (n, m)
            Training samples, scaled.
        y : array_like of shape (n,)
            Labels.
        **given
            Settings that replace this entry's, the tuned one among them.
        """
        settings = {**self.settings, **given}
        if self.tuning is not None and self.tuned not in settings:
            settings[self.tuned] = self.tuning(X, y, settings)
        return settings

    def make(
        self, solver: str, settings: Mapping[str, Any], *, time_limit: float | None = None, seed: int = 0
    ) -> Any:
        """An unfitted estimator.

        Parameters
        ----------
        solver : str
            ``"exact"``, or the name of the fast or the proving solver.
        settings : mapping
            As :meth:`settings_for` gives them.
        time_limit : float, optional
            Seconds.
        seed : int
            Given to estimators that use randomness.
        """
        estimator = self.estimator_class(solver=solver, time_limit=time_limit, **settings)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=seed)
        return estimator

    def complexity(self, estimator: Any) -> int:
        """Support vectors, or faces in use, of a fitted estimator; summed over several pairs of classes."""
        parts = getattr(estimator, "estimators_", [estimator])
        if self.counts == "faces":
            return sum(len(np.unique(part.assignment_[part.assignment_ >= 0])) for part in parts)
        return sum(len(part.support_) for part in parts)


def _hinge(name: str, title: str, programs: tuple[str, str], home: str, kernel: str, **rest: Any) -> Method:
    settings = {"C": 1.0, "kernel": kernel}
    words = "linear" if kernel == "linear" else "RBF kernel"
    return Method(
        name=name,
        title=f"{title}, {words}",
        programs=programs,
        home=f"polyopt.estimators.{home}",
        fast="interior-point" if kernel == "linear" else "decomposition",
        unit="iterations" if kernel == "linear" else "working sets",
        counts="support vectors",
        settings=settings,
        **rest,
    )


_SVM, _SIGMA = ("Support vector machine", "svm.SVM"), ("Sigma-SVM", "sigma_svm.SigmaSVM")
_RMM = ("Relative Margin Machine", "rmm.RelativeMarginMachine")
_BOUND: dict[str, Any] = {
    "tuned": "B",
    "rule": "B = 1 + (θ − 1)/2, θ the SVM's largest training output",
    "tuning": relative_bound,
}


def _sparse(name: str, kernel: str, **rest: Any) -> Method:
    return Method(
        name=name if kernel == "linear" else f"{name}-rbf",
        counts="support vectors",
        settings={"C": 1.0, "kernel": kernel},
        **rest,
    )


_ONE_NORM: dict[str, Any] = {
    "programs": ("one_norm.primal", "one_norm.dual"),
    "home": "polyopt.estimators.one_norm.OneNormSVM",
    "fast": "highs",
    "unit": "pivots",
}
_L0: dict[str, Any] = {
    "programs": ("l0.mixed_integer", "l0.relaxation_dual"),
    "home": "polyopt.estimators.l0.CrossEntropySVM",
    "fast": "ce",
    "unit": "iterations",
    "proving": "global",
    "is_integer": True,
    "duals_of": "l0.pattern",
}


def _polyhedral(name: str, title: str, programs: tuple[str, str], home: str, **rest: Any) -> Method:
    return Method(
        name=name,
        title=title,
        programs=programs,
        home=f"polyopt.estimators.{home}",
        counts="faces",
        tuned="inside_label",
        rule="the class inside of the polytope is the one whose samples spread less widely",
        tuning=narrower_class,
        **rest,
    )


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        _hinge("svm", _SVM[0], ("svm.primal", "svm.dual"), _SVM[1], "linear"),
        _hinge("svm-rbf", _SVM[0], ("svm.primal (kernel)", "svm.kernel_dual"), _SVM[1], "rbf"),
        _hinge("sigma-svm", _SIGMA[0], ("sigma_svm.primal", "sigma_svm.dual"), _SIGMA[1], "linear"),
        _hinge(
            "sigma-svm-rbf",
            _SIGMA[0],
            ("sigma_svm.primal (kernel)", "sigma_svm.kernel_dual"),
            _SIGMA[1],
            "rbf",
        ),
        _hinge("rmm", _RMM[0], ("rmm.qp", "rmm.qp_dual"), _RMM[1], "linear", **_BOUND),
        _hinge("rmm-rbf", _RMM[0], ("rmm.qp (kernel)", "rmm.kernel_dual"), _RMM[1], "rbf", **_BOUND),
        _sparse("one-norm-svm", "linear", title="One-norm SVM, linear", **_ONE_NORM),
        _sparse("one-norm-svm", "rbf", title="One-norm SVM, RBF kernel", **_ONE_NORM),
        _sparse("ce-svm", "linear", title="L0 support vector machine, linear", **_L0),
        _sparse("ce-svm", "rbf", title="L0 support vector machine, RBF kernel", **_L0),
        Method(
            name="cpm",
            title="Convex Polytope Machine",
            programs=("cpm.fixed_assignment_sum", "cpm.fixed_assignment_sum_dual"),
            home="polyopt.estimators.cpm.ConvexPolytopeMachine",
            fast="sgd",
            unit="epochs",
            counts="faces",
            settings={"n_faces": 3, "C": 1.0, "max_iter": 1000},
            tuned="outer_label",
            rule="the class outside of the polytope is the one whose samples spread more widely",
            tuning=wider_class,
            proving="global",
        ),
        _polyhedral(
            "polyceptron",
            "Polyceptron",
            ("polyceptron.fixed_assignment", "polyceptron.fixed_assignment_dual"),
            "polyceptron.Polyceptron",
            fast="batch",
            unit="iterations",
            settings={"n_faces": 3},
        ),
        _polyhedral(
            "spla1",
            "SPLA1",
            ("spla1.cell", "spla1.cell_dual"),
            "spla1.SPLA1",
            fast="newton",
            unit="alternations",
            settings={"n_faces": 3, "ridge": 0.1, "positives": "all", "n_init": 2},
        ),
        _polyhedral(
            "pc-slp",
            "PC-SLP",
            ("pc_slp.step", "pc_slp.step_dual"),
            "pc_slp.PCSLP",
            fast="highs",
            unit="programs",
            settings={"n_faces": 3},
        ),
        _polyhedral(
            "plume",
            "PLUME",
            ("plume.m_step", "plume.m_step_dual"),
            "plume.PLUME",
            fast="newton",
            unit="EM steps",
            settings={"n_faces": 3, "gamma": 1.0, "ridge": 0.1, "n_init": 2},
        ),
    )
}
"""Every method by name."""

DEFAULT_METHODS = ("svm", "sigma-svm", "rmm", "rmm-rbf", "cpm")


def find_method(name: str) -> Method:
    """The entry called `name`.

    Parameters
    ----------
    name : str
        One of :data:`METHODS`; an underscore may stand for a hyphen.

    Raises
    ------
    ValueError
        When there is none; the message lists those there are.
    """
    key = name.strip().replace("_", "-")
    if key in METHODS:
        return METHODS[key]
    close = difflib.get_close_matches(key, METHODS, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"method {name!r} is not known.{hint} Known: {', '.join(METHODS)}")
