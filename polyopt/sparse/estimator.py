"""The support vector machine that pays for support vectors: cross-entropy method and exact program."""

from __future__ import annotations

from collections.abc import Callable
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
from polyopt.sparse.expansion_classifier import EXPANSION_PARAMETERS, ExpansionClassifier
from polyopt.sparse.settings import CrossEntropySettings

if TYPE_CHECKING:
    from polyopt.sparse.cross_entropy import L0Search

_SOLVERS = ("auto", "ce", "one-norm", "highs", "global", "exact")
# Fractions of a time limit: that of the cross-entropy method with "global" and "highs", at most, which has
# the best point if the proof does not end; and that of the integer program with "exact".
_START_TIME, _PROGRAM_TIME = 0.9, 0.75


@estimator
class CrossEntropySVM(ExpansionClassifier):
    """Support vector machine that pays for the number of its support vectors.

    Minimises ``‖α‖₀ + C Σ ξ_i`` subject to ``y_i (Σ_j y_j α_j k(x_i, x_j) + b) >= 1 - ξ_i`` and
    ``0 <= α_j <= C``: eq. (1) of [1]_. Which samples may be support vectors is a pattern σ of zeros and ones;
    for a given pattern the rest is a linear program, of value L(σ), and the score is S(σ) = 1'σ + C L(σ). The
    cross-entropy method draws patterns and learns from the best. The kernel may be any function.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of slack in support vectors, and cap of the coefficients; positive.
    solver : {"auto", "ce", "one-norm", "highs", "global", "exact"}, default="auto"
        "ce" (and "auto") is the cross-entropy method; "one-norm" the support of the relaxation, the one-norm
        machine with the price 1/C, fitted once more: two linear programs. "highs" and "global" start from the
        answer of "ce" and prove the optimum, "highs" by the integer program in HiGHS, "global" by branch and
        bound over the relaxation, which asks "ce" only where it is open after some thousand steps; on more
        than a few hundred samples they may never end without a `time_limit`, of which "ce" has nine tenths
        at most. "exact" is the explicit program of ``formulations.l0.mixed_integer`` by a general solver, for
        comparison. If three quarters of a `time_limit` leave it open, "ce" has the rest, and the better point
        is the answer.
    search : CrossEntropySettings, optional
        Settings of the cross-entropy method, among them a screen by the SVM's support vectors; by default
        ``CrossEntropySettings()``.

    Attributes
    ----------
    score_ : float
        S, the number of support vectors plus C times the loss (binary problems).
    search_ : L0Search
        Record of the cross-entropy method: its runs, scores, programs spared (binary problems; solvers
        "ce", "highs" and "global").
    candidates_ : ndarray of int
        Numbers of the samples that the screen let through (with ``svm_screen``; binary problems).
    candidates_bound_ : float
        Lower bound of the relaxation on every score within the candidates; above ``certificate().dual_value``
        by what the screen may cost, above ``score_`` of another fit by what it certainly costs.
    duals_ : pandas.DataFrame
        One row per constraint of the pattern's linear program, with its multiplier, in input order. The cap
        of a centre that is not used has the rate at which the loss would fall if it were.
    history_ : pandas.DataFrame
        One row per iteration of the cross-entropy method, or per record of the integer solver.

    Notes
    -----
    A sample's weight multiplies its loss. It is not quite a repetition, for a copy would be another centre.

    ``certificate()`` bounds the distance to the best of all patterns, by the relaxation or by the leaves of a
    branch and bound of our own. The bounds of "highs" and "exact" are an integer solver's word: a tree of 500
    nodes looks for the proof, or for a better point, and where it finds neither the claim says whose word it
    is.

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
        **EXPANSION_PARAMETERS,
        "solver": [StrOptions(set(_SOLVERS))],
        "search": [CrossEntropySettings, None],
        "random_state": ["random_state"],
    }

    _searches: L0Search | None = field(init=False, default=None)
    _known: tuple[Array, float] | None = field(init=False, default=None)  # a point to be no worse than
    _searched: float | None = field(init=False, default=None)  # the bound of branch and bound on every score
    # The candidates, and the lower bound on every score within them.
    _screened: tuple[NDArray[np.intp], float] | None = field(init=False, default=None)

    # A coefficient under 1e-9 of the cap C counts as 0: it must not change an output by much over 0.1.
    _largest_entry = 1e8

    # -- fitting -----------------------------------------------------------------------------

    def _fit_binary(self, X: Any, y: Array, weights: Array, rows: NDArray[np.intp]) -> None:
        super()._fit_binary(X, y, weights, rows)
        self.score_ = self.solution_.objective

    def begin_from(self, fitted: CrossEntropySVM) -> Self:
        """Let the next fit, of two classes by "exact", "highs" or "global", begin from a known point as well.

        Its answer is then no worse. With ``svm_screen``, which leaves centres out, the point is not used.

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
        settings = self.search or CrossEntropySettings()
        data = replace(as_l0_data(K, y, self.C, weights), entry_error=error)
        if not settings.svm_screen:
            solution, self._searched = self._find(data, settings, clock)
            return solution
        from polyopt.sparse.one_norm import solve_relaxation

        kept = self._screen(K, y, weights, clock)
        solution, _ = self._find(data.within(kept), settings, clock)
        self._screened = self._rows[kept], float(solution.bound or 0.0)
        self._searched = None  # the bound proven is for the candidates alone
        relaxation = solve_relaxation(data, time_limit=clock.left)
        return replace(
            solution,
            primal={
                **solution.primal,
                **{name: _filled(solution[name], kept, len(y)) for name in ("alpha", "sigma")},
            },
            duals={**solution.duals, "relaxation": relaxation["margin"]},
            bound=relaxation.bound,
        )

    def _unsolved(self, y: Array, weights: Array) -> Solution:
        if self.search is not None and self.search.svm_screen:
            self._screened = self._rows, 0.0
        return super()._unsolved(y, weights)

    def _at_once(self) -> str:
        return "one-norm"

    def _screen(self, K: Array, y: Array, weights: Array, clock: Clock) -> NDArray[np.intp]:
        """Return the support vectors of the SVM."""
        from polyopt.margin.svm import SVM

        everything = np.arange(len(y))
        if clock.is_over:
            return everything
        svm = SVM(self.C, kernel="precomputed", time_limit=clock.left)
        try:
            candidates = np.asarray(svm.fit(K, y, sample_weight=weights).support_)
        except ValueError as error:
            raise ValueError(f"svm_screen=True needs a kernel that the SVM can take: {error}") from error
        return candidates if candidates.size else everything  # a fit stopped at once has none

    def _find(
        self, data: L0Data, settings: CrossEntropySettings, clock: Clock
    ) -> tuple[Solution, float | None]:
        """Return the solution, and the lower bound on every score by branch and bound, None without one."""
        from polyopt.sparse.cross_entropy import L0Search, round_relaxation
        from polyopt.sparse.proof import better_of, solve_globally, solve_integer_program

        known = self.__dict__.pop("_known", None)  # for this fit alone
        if self.solver_ == "one-norm":
            return round_relaxation(data, time_limit=clock.left), None
        if self.solver_ == "ce":
            return self._search(data, settings, clock.left), None
        if known is not None and len(known[0]) != len(data.centres):
            known = None
        if self.solver_ == "exact":
            program = Clock(None if clock.left is None else _PROGRAM_TIME * clock.left)
            answer, searched = solve_integer_program(data, program)
            if answer.status not in (Status.SOLVED, Status.INTERRUPTED):
                start = self._search(data, settings, clock.left)
                answer = better_of(data, answer, (start["alpha"], float(start["b"])))
            return answer if known is None else better_of(data, answer, known), searched
        if self.solver_ == "global":
            search = partial(self._search, data, settings)
            solution = solve_globally(
                data, search, clock, search_time=_START_TIME, known=known, progress=self._progress()
            )
            if self._searches is None:
                self._searches = L0Search.none(data, solution[0]["relaxation"])
            return solution
        start = self._search(data, settings, None if clock.left is None else _START_TIME * clock.left)
        start = start if known is None else better_of(data, start, known)
        if start.status in (Status.SOLVED, Status.INTERRUPTED):
            return start, None
        return solve_integer_program(data, clock, start)

    def _search(self, data: L0Data, settings: CrossEntropySettings, time_limit: float | None) -> Solution:
        from polyopt.sparse.cross_entropy import solve_l0

        solution, self._searches = solve_l0(
            data,
            settings,
            time_limit=time_limit,
            seed=int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max)),
            n_jobs=self.n_jobs,
            progress=self._progress(),
        )
        return solution

    def _progress(self) -> Callable[[dict[str, float]], None] | None:
        from polyopt.base.progress import listener

        return listener()

    @property
    def search_(self) -> L0Search:
        """Record of the cross-entropy method."""
        if self._searches is None:
            raise AttributeError("search_ needs two classes and the cross-entropy method")
        return self._searches

    @property
    def candidates_(self) -> NDArray[np.intp]:
        """Numbers of the samples that the screen let through."""
        return self._of_the_screen()[0]

    @property
    def candidates_bound_(self) -> float:
        """Lower bound of the relaxation on every score within the candidates."""
        return self._of_the_screen()[1]

    def _of_the_screen(self) -> tuple[NDArray[np.intp], float]:
        if self._screened is None:
            raise AttributeError("candidates_ and candidates_bound_ are of two classes and svm_screen=True")
        return self._screened

    # -- answering ---------------------------------------------------------------------------

    def _terms(self) -> tuple[Array, float | Array, Array]:
        caps = self.C * np.asarray(self.solution_["sigma"])
        return caps, 0.0, self._weights

    def _binary_certificate(self, tol: float) -> Certificate:
        K, error = self._training_kernel()
        data = as_l0_data(K, self._y, self.C, self._weights)
        data = replace(data, entry_error=error)
        alpha, b = self._coefficients(), float(self.intercept_[0])
        certificate = certify_l0_data(
            data,
            alpha,
            b,
            u=self.solution_["margin"],
            v=self.solution_["relaxation"],
            searched=self._searched,
            stated=self.solution_.bound if self.solver_ in ("highs", "exact") else None,
            tol=tol,
        )
        if self.kernel == "precomputed":  # no form in the file
            return certificate
        from polyopt.sparse.proof import evidence_of

        known = max(certificate.dual_value, certificate.stated or 0.0)
        goal = min(known, certificate.primal_value) * (1.0 - 0.5 * tol)
        evidence = evidence_of(data, self._X, self._kernel, alpha, b, self.solution_["margin"], goal)
        return replace(certificate, evidence=(evidence,))


def _filled(values: Array, positions: NDArray[np.intp], n: int) -> Array:
    """Return the values at their positions among n, and zeros elsewhere."""
    filled = np.zeros(n)
    filled[positions] = values
    return filled
