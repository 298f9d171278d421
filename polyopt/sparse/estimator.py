"""The support vector machine with a minimal number of support vectors: the L0 machine as an estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from formulations.l0_data import L0Data, as_l0_data
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from formulations.language.types import Array
from polyopt.base.types import Seed
from polyopt.certificates.certificate import Certificate
from polyopt.estimators.parameters import Settings, estimator
from polyopt.sparse.certificate import certify_l0_data
from polyopt.sparse.expansion_classifier import ExpansionClassifier
from polyopt.sparse.settings import CrossEntropySettings

if TYPE_CHECKING:
    from polyopt.sparse.cross_entropy import L0Search


@estimator
class CrossEntropySVM(ExpansionClassifier):
    """Support vector machine with a penalty on the number of its support vectors.

    Minimises ``‖α‖₀ + C Σ ξ_i`` subject to ``y_i (Σ_j y_j α_j k(x_i, x_j) + b) >= 1 - ξ_i`` and
    ``0 <= α_j <= C``: eq. (1) of [1]_. A pattern σ of zeros and ones selects the samples that may be support
    vectors. For a fixed pattern, the least loss L(σ) is found by a linear program, and the score of the
    pattern is S(σ) = 1'σ + C L(σ). The cross-entropy method draws patterns and learns from the best ones. The
    kernel may be any function.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack in support vectors, and cap of the coefficients; positive.
    solver : {"auto", "ce", "one-norm", "highs", "global", "exact"}, default="auto"
        "ce" (and "auto") is the cross-entropy method. "one-norm" solves two linear programs: the relaxation,
        a one-norm machine with the cost 1/C per unit of α, and the program of its support. "highs" and
        "global" start from the result of "ce" and prove the optimum: "highs" by the integer program in HiGHS,
        "global" by branch and bound on the relaxation, which calls "ce" only if the tree is not finished
        after its first pivots. With more than a few hundred samples the proof may not end: set a
        `time_limit`, of which "ce" uses at most nine tenths. "exact" is the explicit program of
        ``formulations.l0.mixed_integer`` by a general solver, for comparison.
    search : CrossEntropySettings, optional
        Settings of the cross-entropy method, among them a screen by the SVM's support vectors; by default
        ``CrossEntropySettings()``.

    Attributes
    ----------
    score_ : float
        S, the number of support vectors plus C times the loss (binary problems).
    search_ : L0Search
        Record of the cross-entropy method: its runs, scores, screened programs (binary problems; solvers
        "ce", "highs" and, unless branch and bound needed no search, "global").
    candidates_ : ndarray of int
        Indices of the samples that passed the screen (with ``svm_screen``; binary problems).
    candidates_bound_ : float
        Lower bound of the relaxation on every score within the candidates. If it is above the ``score_`` of a
        fit without the screen, the screen costs at least the difference.
    duals_ : pandas.DataFrame
        One row per constraint of the pattern's linear program, with its multiplier, in input order. The
        multiplier of an unused centre's cap is the rate at which the loss would decrease with the cap.
    history_ : pandas.DataFrame
        One row per iteration of the cross-entropy method, or per record of the integer solver.

    Notes
    -----
    A sample's weight multiplies its loss. A repetition differs from a weight, as the copy is another centre.

    ``certificate()`` bounds the distance to the best of all patterns, by the relaxation or by the leaves of
    branch and bound. The bound of "highs" and "exact" comes from an integer solver and cannot be checked.
    Therefore a tree of at most 500 nodes tries to prove the optimum, or to find a better point. If the tree
    does not finish, the certificate says that the bound is the solver's.

    References
    ----------
    .. [1] Mannor, Peleg & Rubinstein, The cross entropy method for classification, 2005, and their slides.

    Examples
    --------
    >>> from polyopt import CrossEntropySVM, datasets
    >>> data = datasets.load("ionosphere")
    >>> X, y = data.X[:60], data.y[:60]
    >>> machine = CrossEntropySVM(C=0.5, random_state=0).fit(X, y)
    >>> len(machine.support_) < 10
    True
    """

    _: KW_ONLY
    search: CrossEntropySettings | None = None
    random_state: Seed = None

    _settings: ClassVar[dict[str, type[Settings]]] = {"search": CrossEntropySettings}
    _fit_inputs: ClassVar[tuple[str, ...]] = ("_known",)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ExpansionClassifier._parameter_constraints,
        "solver": [StrOptions({"auto", "ce", "one-norm", "highs", "global", "exact"})],
        "search": [CrossEntropySettings, None],
        "random_state": ["random_state"],
    }

    _searches: L0Search | None = field(init=False, default=None)  # record of the cross-entropy method
    _known: tuple[Array, float] | None = field(init=False, default=None)  # (alpha, b) to start from
    _searched: float | None = field(init=False, default=None)  # bound on every score by branch and bound
    # The candidates, and the lower bound on every score within them.
    _screened: tuple[NDArray[np.intp], float] | None = field(init=False, default=None)

    # Largest allowed entry of C times the kernel matrix. Coefficients under 1e-9 of the cap C count as 0:
    # with this limit each changes an output by at most 1e-9 · 1e8 = 0.1.
    _largest_entry = 1e8

    # -- fitting -----------------------------------------------------------------------------

    def _fit_binary(self, X: Any, y: Array, weights: Array, rows: NDArray[np.intp]) -> None:
        super()._fit_binary(X, y, weights, rows)
        self.score_ = self.solution_.objective

    def begin_from(self, fitted: CrossEntropySVM) -> Self:
        """Use the point of a fitted machine as a start of the next fit.

        The result is then at least as good. The point is used for two classes and the solvers "exact",
        "highs" and "global", without ``svm_screen``.

        Parameters
        ----------
        fitted : CrossEntropySVM
            A machine fitted to the same samples with the same settings, by any solver.
        """
        check_is_fitted(fitted)
        if isinstance(fitted.solution_, list):
            return self
        self._known = np.asarray(fitted.solution_["alpha"]), float(fitted.solution_["b"])
        return self

    def _solve(self, K: Array, y: Array, weights: Array, error: float | Array, clock: Clock) -> Solution:
        self.solver_ = "ce" if self.solver == "auto" else self.solver
        data = replace(as_l0_data(K, y, self.C, weights), entry_error=error)
        if self.search is None or not self.search.svm_screen:
            solution, self._searched = self._solve_and_bound(data, clock)
            return solution
        from polyopt.sparse.one_norm import solve_relaxation

        candidates = self._screen(K, y, weights, clock)
        # The bounds of this solution are valid for patterns within the candidates only.
        solution, _ = self._solve_and_bound(data.of_centres(candidates), clock)
        self._screened = self._rows[candidates], float(solution.bound or 0.0)
        relaxation = solve_relaxation(data, time_limit=clock.left)
        primal = dict(solution.primal)
        for name in ("alpha", "sigma"):
            primal[name] = np.zeros(len(y))
            primal[name][candidates] = solution[name]
        duals = {**solution.duals, "relaxation": relaxation["margin"]}
        return replace(solution, primal=primal, duals=duals, bound=relaxation.bound)

    def _unsolved(self, y: Array, weights: Array) -> Solution:
        if self.search is not None and self.search.svm_screen:
            self._screened = self._rows, 0.0
        return super()._unsolved(y, weights)

    def _fallback_solver(self) -> str:
        return "one-norm"

    def _screen(self, K: Array, y: Array, weights: Array, clock: Clock) -> NDArray[np.intp]:
        """Return the support vectors of the SVM."""
        from polyopt.margin.svm import SVM

        all_samples = np.arange(len(y))
        if clock.is_over:
            return all_samples
        svm = SVM(self.C, kernel="precomputed", time_limit=clock.left)
        try:
            candidates = np.asarray(svm.fit(K, y, sample_weight=weights).support_)
        except ValueError as error:
            raise ValueError(f"svm_screen=True needs a kernel that the SVM can take: {error}") from error
        return candidates if candidates.size else all_samples  # none if the SVM had no time

    def _solve_and_bound(self, data: L0Data, clock: Clock) -> tuple[Solution, float | None]:
        """Solve by the chosen solver; return also the bound on every score by branch and bound, or None."""
        from polyopt.sparse.cross_entropy import round_relaxation
        from polyopt.sparse.proof import DEFAULT, solve_globally, solve_integer_program

        known = self.__dict__.pop("_known", None)  # for this fit alone
        if known is not None and len(known[0]) != len(data.centres):
            known = None
        if self.solver_ == "one-norm":
            return round_relaxation(data, time_limit=clock.left), None
        if self.solver_ == "ce":
            return self._search(data, clock.left), None
        if self.solver_ == "global":
            return solve_globally(data, partial(self._search, data), clock, known=known)
        start = None
        if self.solver_ == "highs":
            start = self._search(data, clock.part(DEFAULT.search_time).left)
            if start.status is Status.SOLVED:
                return start, None
        return solve_integer_program(data, clock, start, known=known)

    def _search(self, data: L0Data, time_limit: float | None) -> Solution:
        from polyopt.sparse.cross_entropy import solve_l0

        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        solution, self._searches = solve_l0(
            data, self.search, time_limit=time_limit, seed=seed, n_jobs=self.n_jobs
        )
        return solution

    @property
    def search_(self) -> L0Search:
        """Record of the cross-entropy method."""
        if self._searches is None:
            raise AttributeError("search_ needs two classes and a run of the cross-entropy method")
        return self._searches

    @property
    def candidates_(self) -> NDArray[np.intp]:
        """Indices of the samples that passed the screen."""
        return self._screen_result()[0]

    @property
    def candidates_bound_(self) -> float:
        """Lower bound of the relaxation on every score within the candidates."""
        return self._screen_result()[1]

    def _screen_result(self) -> tuple[NDArray[np.intp], float]:
        if self._screened is None:
            raise AttributeError("candidates_ and candidates_bound_ need two classes and svm_screen=True")
        return self._screened

    # -- answering ---------------------------------------------------------------------------

    def _terms(self) -> tuple[Array, float | Array, Array]:
        caps = self.C * np.asarray(self.solution_["sigma"])
        return caps, 0.0, self._weights

    def _binary_certificate(self, tol: float) -> Certificate:
        K, error = self._training_kernel()
        data = replace(as_l0_data(K, self._y, self.C, self._weights), entry_error=error)
        alpha, b = self._coefficients(), float(self.intercept_[0])
        stated = self.solution_.bound if self.solver_ in ("highs", "exact") else None
        certificate = certify_l0_data(
            data, alpha, b, u=self.solution_["margin"], v=self.solution_["relaxation"],
            searched=self._searched, stated=stated, tol=tol,
        )  # fmt: skip
        if self.kernel == "precomputed":  # a claim file states a kernel by its formula
            return certificate
        from polyopt.sparse.proof import evidence_of

        # The tree in the claim file has to prove this bound, up to half of the tolerance.
        best_bound = max(certificate.dual_value, certificate.stated or 0.0)
        goal = min(best_bound, certificate.primal_value) * (1.0 - 0.5 * tol)
        evidence = evidence_of(data, self._X, self._kernel, alpha, b, self.solution_["margin"], goal)
        return replace(certificate, evidence=(evidence,))
