"""PLUME: polyhedral learning by a mixture of experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.utils._param_validation import StrOptions

from formulations import mixture
from formulations.language.arguments import at_least
from formulations.language.solution import Solution
from formulations.language.types import Array
from polyopt.base.onnx_graph import Graph
from polyopt.base.types import ClassWeight
from polyopt.certificates.certificate import Certificate
from polyopt.estimators.parameters import Settings, estimator, ruled, shared
from polyopt.linalg.span import SampleSpan
from polyopt.polyhedral.estimator import SHARED, PolyhedralClassifier
from polyopt.polyhedral.logistic_certificate import certify_plume

if TYPE_CHECKING:
    from formulations.error_bounds.rademacher import PolytopeBound
    from polyopt.polyhedral.plume import Method


@dataclass(frozen=True, kw_only=True)
class EMSettings(Settings):
    """Settings of expectation and maximisation for the parameter ``em`` of :class:`polyopt.PLUME`.

    Parameters
    ----------
    inner : int, optional
        Steps of the M-step at most; by default 1, 5 with "bfgs".
    anneal : bool, default=True
        True: each run begins at a soft gate, γ = 1/4, and doubles it up to `gamma`.
    polish : bool, default=True
        True: the objective itself is minimised once the steps become slow, or after 15 of them. Without
        it and without `anneal`, a run is the paper's Algorithm 1 to its own end, where a step lowers the
        objective by no more than `tol`, relative; that need not be a stationary point.

    Examples
    --------
    >>> from polyopt import PLUME, EMSettings
    >>> PLUME(em=EMSettings(inner=5)).set_params(em__anneal=False).em
    EMSettings(inner=5, anneal=False, polish=True)
    """

    inner: int | None = None
    anneal: bool = True
    polish: bool = True

    _parameter_constraints: ClassVar[Mapping[str, Any]] = {
        **shared(optional=["inner"]),
        "anneal": ["boolean"],
        "polish": ["boolean"],
    }


@estimator
class PLUME(PolyhedralClassifier):
    """Polyhedral learning by mixture of experts, of Shah, Sastry & Manwani [1]_.

    With scores ``s_k = W_k'x + b_k``, every face is a logistic expert and the gate prefers the face with the
    least score: ``P(inside | x) = Σ_k g_k(x) / (1 + exp(-s_k))``, ``g_k`` proportional to ``exp(-γ s_k)``.
    Minimises the negative log-likelihood plus ``ridge/2 (||W||² + ||b||²)`` by expectation and maximisation,
    no step of which raises it. Where these steps become slow, Newton's method or L-BFGS minimises it directly
    to a stationary point, whatever `solver` made the M-steps. The problem is not convex for more than one
    face. As γ grows the model becomes SPLA1's, ``P = σ(min_k s_k)``.

    Parameters
    ----------
    n_faces : int, default=3
        K, the faces; one is logistic regression.
    gamma : float, default=1.0
        γ, the sharpness of the gate, at least 0. At a sharp gate samples hardly change faces while
        learning, for which there is ``EMSettings(anneal=True)``.
    ridge : float, default=0.1
        ρ, at least 0; without it nothing can be proven, and separable data have no optimum. With 0 the
        normals are the shortest with their scores: a feature that is constant in training has the weight 0.
    solver : {"auto", "newton", "bfgs", "gradient", "exact"}, default="auto"
        The M-step: some steps of Newton's method on all faces together, of L-BFGS, or up the gradient with
        backtracking, or ("exact") the explicit program of ``formulations.plume`` to its end. "auto" is
        Newton's up to a few hundred unknowns, else L-BFGS.
    em : EMSettings, optional
        Steps, gate and end of expectation and maximisation; by default ``EMSettings()``.
    decision : {"posterior", "polytope"}, default="posterior"
        Decision rule: which class is the more probable (``classes_[0]`` if both are equally so), or whether
        the sample is in the polytope of the faces. The two differ near the polytope's edges, where
        ``predict_proba``, which without `calibration` is the model's probability in either case, may be less
        than one half for the class that is predicted.
    n_init : int, default=10
        Starts, of which the best end is kept.
    max_iter : int, default=5000
        Iterations at most, per start: steps of expectation and maximisation, also those at softer gates,
        and iterations of Newton's method or L-BFGS in the polish, all together.
    tol : float, default=1e-6
        Relative tolerance of the certificate that the end of a run is to reach.

    Attributes
    ----------
    polytope_ : Polytope
        Where all scores are positive, as a set: redundant faces, vertices, volume, rules (binary problems).
    assignment_ : ndarray of int, shape (n,)
        The face with the least score for each sample (binary problems; samples of zero weight left out).
    duals_ : pandas.DataFrame
        One row per sample and face: how far the face is responsible for the sample, and what the sample
        pulls at it, in input order.
    history_ : pandas.DataFrame
        One row per iteration of every start, and one numbered 0 for the start itself. Rows of one ``gamma``
        compare. The faces in use are in the rows of steps and of the end of the polish.

    References
    ----------
    .. [1] Shah, Sastry & Manwani, PLUME: Polyhedral Learning Using Mixture of Experts, 2019.

    Examples
    --------
    >>> from polyopt import PLUME, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = PLUME(2, inside_label=1, n_init=2, random_state=0).fit(data.X, data.y)
    >>> machine.polytope_.n_faces, machine.predict_proba(data.X).shape
    (2, (351, 2))
    >>> machine.certificate().relative_gap < 1e-6  # of the program for its responsibilities
    True
    """

    _: KW_ONLY
    gamma: float = 1.0
    ridge: float = 0.1
    solver: Method = "auto"
    em: EMSettings | None = None
    decision: str = "posterior"
    max_iter: int = 5000
    tol: float = 1e-6
    class_weight: ClassWeight = None

    _dtypes: ClassVar[list[Any]] = [np.float64, np.float32]
    _scored_dtypes: ClassVar[Any] = _dtypes
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED,
        **shared("tol"),
        "gamma": ruled("gamma", at_least, 0.0),
        "ridge": ruled("ridge", at_least, 0.0),
        "solver": [StrOptions({"auto", "newton", "bfgs", "gradient", "exact"})],
        "em": [EMSettings, None],
        "decision": [StrOptions({"posterior", "polytope"})],
    }
    _settings: ClassVar[dict[str, type[Settings]]] = {"em": EMSettings}
    _moved: ClassVar[dict[str, str]] = {
        **{name: f"em__{name}" for name in EMSettings().get_params()},
        "init": "the starts are random faces",
    }
    _models_probabilities: ClassVar[bool] = True

    def _solve(self, X: Any, y: Array, c: Array, seed: int) -> Solution:
        from polyopt.polyhedral.plume import PlumeProblem, solve_plume

        em = self.em or EMSettings()
        problem = PlumeProblem(
            X, y, c, self.n_faces,
            gamma=self.gamma, ridge=self.ridge, method=self.solver, inner=em.inner,
        )  # fmt: skip
        self.solver_ = problem.method
        found = solve_plume(
            problem,
            n_init=self.n_init if self.n_faces > 1 else 1,  # logistic regression has one optimum
            max_iter=self.max_iter,
            tol=self.tol,
            anneal=em.anneal,
            polish=em.polish,
            time_limit=self.time_limit,
            seed=seed,
            n_jobs=self.n_jobs,
        )
        if self.ridge == 0.0:
            faces = SampleSpan(X).project(found["W"])
            found = replace(found, primal={**found.primal, "W": faces})
        return found

    def _binary_scores(self, X: Any) -> Array:
        if self._asked["decision"] == "polytope":
            return super()._binary_scores(X)
        return self._log_odds(X)

    def _log_odds(self, X: Any) -> Array:
        return self._side * mixture.log_odds(X, self._faces, self._asked["gamma"])

    def _draw_scores(self, graph: Graph, x: str) -> str:
        if self._asked["decision"] == "polytope":
            return super()._draw_scores(graph, x)
        s = graph.affine(x, self.W_, self.b_)
        least = graph.over_columns("ReduceMin", s)
        gate = graph.op("Mul", graph.op("Sub", least, s), graph.constant(float(self._asked["gamma"])))
        inside, outside = (
            _draw_log_sum(graph, graph.op("Sub", gate, _draw_softplus(graph, each)))
            for each in (graph.op("Neg", s), s)
        )
        return graph.op("Mul", graph.op("Sub", inside, outside), graph.constant(self._side))

    @property
    def _decides_by_model(self) -> bool:
        """True if the model's probabilities decide, and not the polytope of the faces."""
        return bool(self._asked["decision"] == "posterior")

    def _certify(self, W: Array, tol: float) -> Certificate:
        return certify_plume(
            self._X,
            self._y,
            W,
            gamma=self._asked["gamma"],
            ridge=self._asked["ridge"],
            C=self._costs,
            tol=tol,
        )

    def _multipliers(self) -> dict[str, Any]:
        W, n, K = self.solution_["W"], len(self._y), len(self.W_)
        r = mixture.responsibilities(self._X, self._y, W, self._asked["gamma"]).ravel()
        wrong = expit(-self._y[:, None] * mixture.scores_in_blocks(self._X, W)).ravel()
        place = np.repeat(np.arange(n), K)
        states = np.array(["another face's", "shared", "its own"])
        return {
            "row": np.full(n * K, "score"),
            "letter": np.full(n * K, "alpha"),
            "place": place,
            "face": np.tile(np.arange(K), n),
            "multiplier": mixture.multipliers(
                self._X, self._y, W, None, self._asked["gamma"], self._costs
            ).ravel(),
            "responsibility": r,
            "doubt": wrong,
            "state": states[(r > 0.05).astype(int) + (r > 0.5)],
        }

    def generalization_bound(self, delta: float = 0.05) -> PolytopeBound:
        """Return a bound on the error, by Rademacher complexity, from the training data (two classes).

        It is of what `decision` decides by: the log-odds, or the polytope of the faces.

        Parameters
        ----------
        delta : float
            The bound holds with a probability of 1 - delta over the draw of the training data, for a γ that
            was chosen without them.
        """
        from formulations.error_bounds.rademacher import plume_bound, polytope_bound

        self._need_one_polytope("the bound")
        self._need_data("generalization_bound()")
        if self._asked["decision"] == "polytope":
            # The polytope's theorem has its faces positive outside.
            return polytope_bound(self._X, -self._y, -self.solution_["W"], delta)
        return plume_bound(self._X, self._y, self.solution_["W"], self._asked["gamma"], delta)


def _draw_log_sum(graph: Graph, a: str) -> str:
    """Return the logarithm (n, 1) of the sum of the columns' exponentials."""
    top = graph.over_columns("ReduceMax", a)
    sums = graph.over_columns("ReduceSum", graph.op("Exp", graph.op("Sub", a, top)))
    return graph.op("Add", top, graph.op("Log", sums))


def _draw_softplus(graph: Graph, s: str) -> str:
    """``log(1 + e^s)``; ONNX Runtime's own operation is of single precision alone."""
    small = graph.op("Exp", graph.op("Neg", graph.op("Abs", s)))
    rest = graph.op("Log", graph.op("Add", graph.constant(1.0), small))
    return graph.op("Add", graph.op("Max", s, graph.constant(0.0)), rest)
