"""The Convex Polytope Machine: one class inside a convex polytope, the other outside of it.

A fit begins at random starts, or at a given assignment of samples to faces (``fit_from``), which alternation
may change, or which is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from formulations.language.arguments import at_least, positive
from formulations.language.solution import Solution
from formulations.polyhedral import pull
from formulations.polytope import Loss, assignment_matrix, face_margins, natural_assignment, perplexity
from polyopt.base.onnx_graph import Graph
from polyopt.base.types import ClassWeight, SamplesLike, Seed
from polyopt.certificates.certificate import Certificate
from polyopt.cpm.certificate import certify_cpm, certify_cpm_held, certify_cpm_search
from polyopt.cpm.duals import duals_frame, penalty_rows
from polyopt.cpm.penalty_term import choose_group_multipliers
from polyopt.cpm.restricted_faces import NUMBERS, WholePolytope, certify_restricted, check_restrictions
from polyopt.cpm.sgd import CpmSgd
from polyopt.cpm.solve import Settings as SolverSettings
from polyopt.cpm.solve import as_floats, solve_cpm, solve_cpm_from
from polyopt.cpm.stream import PolytopeStream
from polyopt.cpm.two_sides import BOTH, certificate_of_sides, fit_sides, frame_of_sides, one_sided, take_sides
from polyopt.estimators.face_penalty import FacePenalty
from polyopt.estimators.faces import FaceClassifier
from polyopt.estimators.parameters import MACHINE, Settings, estimator, ruled, shared
from polyopt.estimators.status import warn
from polyopt.estimators.stream import keeps_no_data, learn_chunk
from polyopt.linalg.used_features import UsedFeatures, present_features
from polyopt.polytope import Polytope

if TYPE_CHECKING:
    import pandas as pd

    from formulations.error_bounds.rademacher import PolytopeBound

# Entries of all faces' programs up to which ``solver="auto"`` is exact, two or three seconds for all starts.
_MAX_EXACT_CELLS, _MAX_EXACT_RESTRICTED_CELLS = 30_000, 100_000
_CELLS_PER_PROGRAM = 1_500  # cost of a program, however small it is
_MAX_PRICED_CELLS = 10_000_000  # the same up to which Newton steps are worth their time
_STARTS = {"exact": 20, "dual": 20, "sgd": 1, "global": 1}


@dataclass(frozen=True, kw_only=True)
class SGDSettings(Settings):
    """Settings of the stochastic solver of a Convex Polytope Machine, for its parameter ``sgd``.

    Parameters
    ----------
    perplexity : float, default=1.0
        Floor of the effective number of faces in use, from 1 (off) to K, by which Algorithm 2 keeps
        faces from falling out of use: the exponential of its entropy h. It steers the stochastic
        solver by the samples inside their margin; no program states it. The perplexity of the answer is
        ``perplexity_``; a warning says so if that is less than the floor.
    average : bool, default=True
        True: the answer is the better of an average of the iterates and the last one. False: always the last
        iterate of the run, as in Algorithm 1.
    feature_scale : float, default=1.0
        Factor of every entry of X: 1/255 takes bytes for pixels in [0, 1] without turning them
        into floats first.

    Examples
    --------
    >>> from polyopt import ConvexPolytopeMachine, SGDSettings
    >>> machine = ConvexPolytopeMachine(10, solver="sgd", sgd=SGDSettings(perplexity=5.0))
    >>> machine.set_params(sgd__average=False).sgd
    SGDSettings(perplexity=5.0, average=False, feature_scale=1.0)
    """

    perplexity: float = 1.0
    average: bool = True
    feature_scale: float = 1.0

    _parameter_constraints: ClassVar[Mapping[str, Any]] = {
        "perplexity": ruled("perplexity", at_least, 1.0),
        "average": ["boolean"],
        "feature_scale": ruled("feature_scale", positive),
    }


@dataclass(frozen=True)
class Beginning:
    """An assignment (n,) from which a fit begins, a face for each sample given; True if it is held."""

    assignment: NDArray[np.int64]
    is_held: bool

    def of(self, rows: NDArray[np.int64], y: NDArray[Any], n_faces: int) -> NDArray[np.int64]:
        """Return the faces of the samples `rows`, -1 at those inside (y = -1).

        ValueError: a sample outside has no face, or a face that does not exist.
        """
        own = np.where(y > 0, self.assignment[rows], -1)
        wrong = np.flatnonzero((y > 0) & ((own < 0) | (own >= n_faces)))
        if len(wrong):
            first = int(wrong[0])
            raise ValueError(
                f"assignment must have a face from 0 to {n_faces - 1} for every sample outside; sample "
                f"{int(rows[first])} has {int(own[first])}"
            )
        return own


@estimator
class ConvexPolytopeMachine(FaceClassifier):
    """Convex Polytope Machine: positives outside a polytope of K faces, negatives inside.

    Scores are ``f(x) = max_k (W_k'x + b_k)``. Minimises, over the faces and over which of them answers
    for each positive, ``||W||² + ||b||² + C Σ ξ``: eq. (6) of [1]_, where a positive pays
    ``[1 - f(x_i)]_+`` and a negative ``Σ_k [1 + W_k'x_i + b_k]_+`` or the largest term of this sum.
    The biases are penalised, as in the paper. The problem is not convex for more than one face.

    Parameters
    ----------
    n_faces : int, default=3
        K, the faces of the polytope; one is a linear support vector machine.
    C : float, default=1.0
        Cost of a unit of slack; positive. Algorithm 1's λ is 2/(nC).
    loss : {"sum", "max"}, default="sum"
        Slack of a negative: "sum", that of every face it violates (the paper's unconstrained form, which
        Algorithm 1 minimises); "max", the worst (eq. (6) as printed; solvers "exact" and "global").
    penalty : FacePenalty, optional
        Prices of weights, signs to keep, few features, whole numbers, and the norm of the faces that is
        penalised; by default ``FacePenalty()``, the sum of the squared norms.
    sgd : SGDSettings, optional
        Entropy floor, averaging and scale of "sgd"; by default ``SGDSettings()``.
    inside_label : label, optional
        The class inside, of two; by default ``classes_[0]``. "both" learns two polytopes, one with each class
        outside, and predicts by the difference of their scores; they are in ``sides_``.
    solver : {"auto", "exact", "dual", "sgd", "global"}, default="auto"
        "exact" alternates between assigning positives to faces and solving the program of
        ``formulations.cpm`` for that assignment, to about 1e-10; "dual" alternates with a dual
        coordinate solver, to `tol`; "sgd" is Algorithms 1 and 2; "global" proves the optimum over all
        assignments, by branch and bound, for small data, and begins with the answer of "sgd", which has a
        tenth of a `time_limit`: up to 2,000 samples, or 20,000 with up to 4 features; the certificate has the
        gap. With loss="max" or margin="worst" and several faces "global" solves the mixed-integer program
        instead, of up to 200 samples, by SCIP (``pip install 'polyopt[mip]'``), whose bound is stated, not
        proven. All minimise the same objective. "auto" is exact on small data and SGD beyond, and with a
        price or signs dual before SGD; ``solver_`` says which.
        With a price "dual" makes Newton steps on the dual, and ends at gaps of about 1e-10; "sgd" is dual
        averaging, whose answers have exact zeros too; "global" has none.
    n_init : int or "auto", default="auto"
        Random starts, of which the best is kept; "auto" is 20 for "exact" and "dual", 10 with `max_features`,
        5 for "dual" with a price (each from the end of a run without), else 1. With more than one, "exact"
        makes a last run from the best of half as many dual ascents.
    tol : float, default=1e-3
        "sgd" stops once its objective varies by no more than this, relative; "dual" solves for an
        assignment to a tenth of this gap, relative. "exact" and "global" are always solved to 1e-6 or better.
    max_iter : int, default=300
        Rounds ("exact", "dual") or epochs ("sgd") at most, per start; the best point is kept. For the best
        start they include the rounds that refine or prove its end ("dual" with a price, `max_features`), but
        not the ascents and epochs without a price that make a start. "global" has no such cap.

    Attributes
    ----------
    assignment_ : ndarray of int, shape (n,)
        Face that answers for each sample outside, -1 for those inside (binary problems with one side;
        samples of zero weight left out).
    perplexity_ : float
        Effective number of faces in use: the exponential of the entropy of the assignment (binary
        problems with one side).
    sides_ : tuple of ConvexPolytopeMachine
        With ``inside_label="both"``: the machine with ``classes_[1]`` outside and the one with
        ``classes_[0]``.
    integers_, scales_, thresholds_ : ndarray of shape (K, m), (K,), (K,)
        With `integers`: a sample is outside where ``integers_[k] @ x > thresholds_[k]`` for some k, and the
        scores are these differences times ``scales_`` (binary problems with one side).
    integer_loss_ : float
        With `integers`: the objective less the bound of the real program for the same assignment.
    solution_ : Solution or list of Solution
        The solver's answer, for the scaled samples (one per side or pair of classes).
    duals_ : pandas.DataFrame
        One row per constraint, with its multiplier (nan from "sgd", which has none), in input order; and
        with a price or signs rows for each face and feature: what ``upper``, ``lower``, ``group`` and
        ``sign`` hold against its weight (none from "sgd").
    history_ : pandas.DataFrame
        One row per round or epoch of every start, of which ``n_iter_`` is the number. With "global"
        ``n_iter_`` is the number of nodes and rounds of prices, and a row is made every fifth of a second.

    References
    ----------
    .. [1] Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope
       Machine, 2014.

    Examples
    --------
    >>> from polyopt import ConvexPolytopeMachine, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = ConvexPolytopeMachine(2, inside_label=1, solver="exact", random_state=0)
    >>> polytope = machine.fit(data.X, data.y).polytope_
    >>> polytope.n_faces, polytope.n_features
    (2, 34)
    >>> machine.certificate().relative_gap < 1e-6  # of the program for its assignment of samples to faces
    True
    """

    n_faces: int = 3
    C: float = 1.0
    _: KW_ONLY
    loss: Loss = "sum"
    penalty: FacePenalty | None = None
    sgd: SGDSettings | None = None
    inside_label: object = None
    solver: str = "auto"
    n_init: int | str = "auto"
    tol: float = 1e-3
    max_iter: int = 300
    time_limit: float | None = None
    class_weight: ClassWeight = None
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: bool | int = False

    # Of a fit_from at work: where it begins; after it: True if the assignment was given, and held.
    _beginning: Beginning | None = field(init=False, default=None)
    _is_held: bool = field(init=False, default=False)
    _perplexity: float | None = field(init=False, default=None)
    _known: NDArray[np.float64] | None = field(init=False, default=None)  # faces to reach by "global"

    _fit_inputs: ClassVar[tuple[str, ...]] = ("_beginning", "_known")
    _dtypes: ClassVar[list[Any]] = [np.float64, np.float32, np.uint8]
    _scored_dtypes: ClassVar[Any] = _dtypes
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **shared(*MACHINE),
        "loss": [StrOptions({"sum", "max"})],
        "penalty": [FacePenalty, None],
        "sgd": [SGDSettings, None],
        "inside_label": "no_validation",  # type: ignore[dict-item]
        "solver": [StrOptions({"auto", *_STARTS})],
        "n_init": [StrOptions({"auto"}), *shared("n_init")["n_init"]],
    }
    _settings: ClassVar[dict[str, type[Settings]]] = {"penalty": FacePenalty, "sgd": SGDSettings}
    _moved: ClassVar[dict[str, str]] = {
        **{name: f"penalty__{name}" for name in FacePenalty().get_params()},
        **{name: f"sgd__{name}" for name in SGDSettings().get_params()},
        "double_sided": "give inside_label='both' for two polytopes",
        "ties": "a tie of votes is always broken by the sum of the scores",
    }

    # -- fitting -----------------------------------------------------------------------------

    def _validate_params(self) -> None:
        super()._validate_params()
        penalty, floor = self.penalty or FacePenalty(), (self.sgd or SGDSettings()).perplexity
        if floor > self.n_faces:
            raise ValueError(f"perplexity must be from 1 to n_faces={self.n_faces}, not {floor!r}")
        special = f"loss={self.loss!r}" if self.loss != "sum" else ""
        special = f"margin={penalty.margin!r}" if penalty.margin != "total" else special
        if special and self.solver not in ("auto", "exact", "global"):
            raise ValueError(
                f"{special} needs solver='exact' or 'global': the others minimise margin='total', loss='sum'"
            )
        if penalty.has_prices and self.solver == "global":
            raise ValueError(
                "l1, group and signs need solver='exact', 'dual' or 'sgd': 'global' bounds the machine "
                "without a price, so set l1=0, group=0 and signs=None for it"
            )
        if floor > 1 and penalty.has_prices:
            raise ValueError(f"perplexity={floor!r} needs l1=0, group=0 and signs=None")
        if floor > 1 and (special or self.solver not in ("auto", "sgd")):
            raise ValueError(
                f"perplexity={floor!r} needs solver='sgd' with margin='total' and loss='sum': the "
                "others have no such floor, so set perplexity=1 for them"
            )
        check_restrictions(self)

    @property
    def _is_double_sided(self) -> bool:  # type: ignore[override]
        return isinstance(self.inside_label, str) and self.inside_label == BOTH

    @property
    def _asked_sgd(self) -> SGDSettings:
        """The settings of the fit, or of the fit to come."""
        return getattr(self, "_asked", {}).get("sgd", self.sgd) or SGDSettings()

    @classmethod
    def _with_moved(cls, values: dict[str, Any]) -> dict[str, Any]:
        if values.pop("double_sided", False):
            values["inside_label"] = BOTH
        return super()._with_moved(values)

    def fit_from(
        self, X: SamplesLike, y: ArrayLike, assignment: ArrayLike, *, hold: bool = False,
        sample_weight: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """Fit from one assignment, by the explicit programs: alternating from there, or with it held.

        Parameters
        ----------
        X, y, sample_weight
            As of :meth:`fit`, of two classes.
        assignment : array_like of int, shape (n,)
            Face of each sample outside, from 0 to K - 1; the entries of samples inside are ignored.
        hold : bool
            True: the assignment stays: one convex program, and a certificate of it alone.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ValueError
            An assignment of other faces, or settings that are not of the plain machine.
        """
        if not isinstance(hold, bool | np.bool_):
            raise ValueError(f"hold must be True or False, not {hold!r}")
        if self.solver not in ("auto", "exact"):
            raise ValueError(f"fit_from needs solver='auto' or 'exact', not {self.solver!r}")
        special = {
            "inside_label='both'": self._is_double_sided, "penalty": self.penalty is not None,
            "perplexity": (self.sgd or SGDSettings()).perplexity > 1,
            "calibration": self.calibration is not None,
        }  # fmt: skip
        if wrong := [name for name, is_set in special.items() if is_set]:
            raise ValueError(f"fit_from is of the plain machine: leave out {wrong[0]}")
        faces = np.asarray(assignment)
        if faces.dtype.kind not in "iu":
            raise ValueError(f"assignment must be of whole numbers, not of {faces.dtype}")
        if faces.shape != np.shape(y):
            raise ValueError(f"assignment must be of shape {np.shape(y)}, as y is, not {faces.shape}")
        if len(np.unique(np.asarray(y))) > 2:
            raise ValueError("fit_from needs two classes: of more, each pair has an assignment of its own")
        self._beginning = Beginning(faces.astype(np.int64), bool(hold))
        try:
            return self.fit(X, y, sample_weight)
        finally:
            del self._beginning

    def _fit_binary(self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        if not self._is_double_sided:
            self._fit_side(X, y, weights, rows, self._chosen_side())
            return
        if any(isinstance(label, str) and label == BOTH for label in self.classes_):
            raise ValueError(
                "inside_label='both' asks for two polytopes, and a class is called so: rename it"
            )
        fit_sides(self, X, y, weights, rows)

    def _fit_side(
        self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any], side: float
    ) -> None:
        self._check_sizes(X, weights, self.C)
        self._advise_scaling(X)
        penalty, sgd = self._asked_penalty, self._asked_sgd
        used = UsedFeatures.all(X) if penalty.is_restricted else UsedFeatures.of(X)
        samples, begin = used.samples(X), self._beginning
        self._side, self.solver_ = side, self._pick_solver(samples) if begin is None else "exact"
        self._X, self._y, self._rows, self._costs = X, side * y, rows, self.C * weights
        settings = self._solver_settings()
        if settings.penalty is not None:
            settings = replace(settings, penalty=settings.penalty.of_features(used.columns))
        if settings.known is not None:
            settings = replace(settings, known=used.faces(settings.known))
        self.__dict__.pop("_known", None)  # for this fit alone
        program = (samples, self._y, self._costs, settings)
        if begin is None:
            found = solve_cpm(*program, self._seed())
        else:
            self._is_held = begin.is_held
            found = solve_cpm_from(*program, begin.of(rows, self._y, self.n_faces), hold=begin.is_held)
        self._show(used.solution(found))
        self.n_iter_ = max(self.solution_.iterations, 1)
        W = self.solution_["W"]
        if "assignment" in self.solution_.primal:
            self._assignment = self.solution_["assignment"]
        else:
            self._assignment = natural_assignment(self._scaled(X), self._y, W)
        outside = self._y > 0
        self._perplexity = perplexity(self.assignment_[outside], weights[outside])
        # Of whole numbers there is no tolerance to be short of.
        self._warn_if_short(None if penalty.integers else lambda: self._binary_certificate(tol=1e-6))
        self._warn_if_empty(W)
        if self.perplexity_ < (1.0 - 1e-9) * sgd.perplexity:
            warn(
                self,
                f"the faces' perplexity is {self.perplexity_:.3g}, below the floor of "
                f"{sgd.perplexity:.3g} that was asked: Algorithm 2 steers by samples inside their margin "
                "alone. A smaller C brings more of them inside",
            )

    def begin_from(self, fitted: ConvexPolytopeMachine) -> Self:
        """Let the next fit, of two classes by "global", begin from known faces as well.

        Its answer is then no worse.

        Parameters
        ----------
        fitted : ConvexPolytopeMachine
            A machine fitted to the same samples with the same settings, by any solver, with one polytope.
        """
        check_is_fitted(fitted)
        self._known = None if isinstance(fitted.solution_, list) else fitted.solution_["W"]
        return self

    def _solver_settings(self) -> SolverSettings:
        penalty, sgd = self._asked_penalty, self._asked_sgd
        return SolverSettings(
            n_faces=self.n_faces,
            solver=self.solver_,
            loss=self.loss,
            margin=penalty.margin,
            perplexity=sgd.perplexity,
            average=sgd.average,
            feature_scale=sgd.feature_scale,
            n_init=self._starts() if isinstance(self.n_init, str) else self.n_init,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            n_jobs=self.n_jobs,
            max_features=penalty.max_features,
            penalty=self._face_penalty(),
            integers=penalty.integers,
            known=self._known,
        )

    def _starts(self) -> int:
        """Return the number of starts of n_init="auto"."""
        if self._asked_penalty.max_features is not None:
            return 10
        if self._asked_penalty.has_prices and self.solver_ == "dual":
            return 5  # each begins with a run without the price
        return _STARTS[self.solver_]

    def _forget(self) -> None:
        super()._forget()
        self._perplexity, self._is_held, self._sides = None, False, None

    def _show(self, solution: Solution) -> None:
        """Take the faces of a solution, in the units of X, and its whole numbers if it has them."""
        self.solution_ = solution
        self.W_, self.b_ = self._feature_scale() * solution["W"][:, :-1], solution["W"][:, -1]
        for name in (*NUMBERS, "integer_loss"):
            self.__dict__.pop(f"{name}_", None)
        if "integers" in solution.primal:
            self.integers_, self.scales_, self.thresholds_ = (solution[name] for name in NUMBERS)
            self.integer_loss_ = solution.objective - float(solution.bound or 0.0)

    def _pick_solver(self, X: Any) -> str:
        penalty = self._asked_penalty
        if self.solver != "auto":
            return self.solver
        if self.loss == "max" or penalty.margin == "worst":
            return "exact"
        n, m = X.shape
        if penalty.is_restricted:
            return "exact" if self.n_faces * n * (m + 1) <= _MAX_EXACT_RESTRICTED_CELLS else "dual"
        if penalty.has_prices:
            return "dual" if n * m * self.n_faces <= _MAX_PRICED_CELLS else "sgd"
        small = self.n_faces * (n * (m + 1) + _CELLS_PER_PROGRAM) <= _MAX_EXACT_CELLS
        return "exact" if small and self._asked_sgd.perplexity == 1 else "sgd"

    def _at_once(self) -> str:
        penalty = self.penalty or FacePenalty()
        if self.loss == "max" or penalty.margin == "worst":
            return self.solver
        return "dual" if penalty.has_prices or penalty.is_restricted else "sgd"

    def _feature_scale(self) -> float:
        return float(self._asked_sgd.feature_scale)

    def _scaled(self, X: Any) -> Any:
        return as_floats(X, self._feature_scale())

    # -- streams -----------------------------------------------------------------------------

    @available_if(keeps_no_data)
    def partial_fit(
        self, X: SamplesLike, y: ArrayLike, classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None, n_total: int | None = None,
    ) -> Self:  # fmt: skip
        """Make one pass of Algorithm 1 over a chunk of a stream, or of data too large for the memory.

        Parameters
        ----------
        X, y, classes, sample_weight
            The chunk, as in :meth:`Polyceptron.partial_fit`: samples (n, m) and their labels (n,), all labels
            at the first call unless the chunk has them all, non-negative weights (n,).
        n_total : int, optional
            Size of all the data, which C refers to: λ = 2/(n_total C). Read at the first call; by
            default the size of the first chunk.

        Returns
        -------
        self
            With the faces as they are now. No data are kept; :func:`polyopt.certify_cpm` certifies on data
            given to it.

        Raises
        ------
        ValueError
            One class, labels that are not among the classes, or settings that need another solver.
        """
        penalty = self.penalty or FacePenalty()
        plain = self.loss == "sum" and penalty.margin == "total" and not penalty.has_prices
        if self.solver not in ("auto", "sgd") or not plain or penalty.is_restricted:
            raise ValueError(
                "partial_fit is Algorithm 1: it needs solver='sgd', loss='sum' and margin='total', no "
                "max_features, no integers and no price"
            )
        return learn_chunk(self, X, y, classes, sample_weight, n_total)

    def _begin(self, X: Any, n_total: int) -> PolytopeStream:
        outer, sgd = [1.0, -1.0] if self._is_double_sided else [self._chosen_side()], self._asked_sgd
        sides = [
            CpmSgd(
                X.shape[1], self.n_faces, perplexity=sgd.perplexity, average=sgd.average,
                scale=sgd.feature_scale, seed=self._seed(),
            )
            for _ in outer
        ]  # fmt: skip
        for side in sides:
            side.U[:-1][~present_features(X)] = 0.0  # until a chunk shows them
        return PolytopeStream(sides, outer, n_total)

    def _learn(self, X: Any, codes: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        self._check_sizes(X, weights, self.C)
        assert isinstance(self._stream, PolytopeStream)
        found = self._stream.partial_fit(X, codes, self.C * weights)
        parts = [one_sided(self) for _ in found] if self._is_double_sided else [self]
        for part, outer, solution in zip(parts, self._stream.outside_labels, found, strict=True):
            part._side, part.solver_, part.n_iter_ = outer, "sgd", solution.iterations
            part._show(solution)
        if self._is_double_sided:
            take_sides(self, parts)

    # -- answering ---------------------------------------------------------------------------

    @property
    def sides_(self) -> tuple[Self, ...]:
        """The machine with ``classes_[1]`` outside, and the one with ``classes_[0]``."""
        if self._sides is None:
            raise AttributeError("sides_ is of a machine with inside_label='both' and two classes")
        return self._sides

    def _binary_scores(self, X: Any) -> NDArray[Any]:
        if self._sides is None:
            return super()._binary_scores(X)
        minus, plus = self._sides
        return np.asarray(minus._binary_scores(X) + plus._binary_scores(X))

    def _draw_scores(self, graph: Graph, x: str) -> str:
        if self._sides is None:
            return super()._draw_scores(graph, x)
        return graph.op("Sum", *(side._draw_scores(graph, x) for side in self._sides))

    def _scores_of_faces(self, X: Any) -> NDArray[np.float64]:
        """Return the scores; of whole numbers above 0 where the rule p_k·x > θ_k holds, to the last digit."""
        if not hasattr(self, "integers_"):
            return super()._scores_of_faces(X)
        sums = np.asarray(X.astype(np.float64, copy=False) @ self.integers_.T.astype(float))
        return np.asarray(self.scales_ * (sums + -self.thresholds_))

    @property
    def polytope_(self) -> Polytope:
        """The inside as a set, in the units of X; of whole numbers, with these for its coefficients."""
        found = super().polytope_
        if not hasattr(self, "integers_"):
            return found
        numbers = self.integers_.astype(float)
        return WholePolytope(
            numbers, -self.thresholds_, found.names, found.spread, found.centre, found.is_closed
        )

    # -- what is proven ----------------------------------------------------------------------

    @property
    def perplexity_(self) -> float:
        """Effective number of faces in use: the exponential of the entropy of the assignment."""
        if self._perplexity is None:
            raise AttributeError("perplexity_ needs a fit on whole data with one polytope")
        return self._perplexity

    def _keep_no_solution(self, whole: Self) -> None:
        if whole._sides is not None:
            take_sides(self, [side.without_data() for side in whole._sides])
            return
        self._perplexity = whole._perplexity
        super()._keep_no_solution(whole)

    @property
    def holds_data(self) -> bool:
        """True if it holds its training data, of which certificates and multipliers are made."""
        if self._sides is not None:
            return all(side.holds_data for side in self._sides)
        return super().holds_data

    def _binary_certificate(self, tol: float) -> Certificate:
        if self._sides is not None:
            return certificate_of_sides(self, tol)
        penalty = self._asked_penalty
        if self.solver_ == "global" and len(self.W_) > 1:
            program = (self._scaled(self._X), self._y, self._costs, self.solution_, tol)
            loss, margin = self._asked["loss"], penalty.margin
            certificate = certify_cpm_search(*program, loss=loss, margin=margin)
            from polyopt.cpm.global_search.claim_tree import evidence_of

            return replace(certificate, evidence=evidence_of(*program, loss=loss, margin=margin))
        if penalty.is_restricted:
            return certify_restricted(self, self._scaled(self._X), tol)
        certify = certify_cpm_held if self._is_held else certify_cpm
        return certify(
            self._scaled(self._X),
            self._y,
            self._costs,
            W=self.solution_["W"],
            alpha=self.solution_.duals.get("margin"),
            assignment=self.assignment_,
            margin=penalty.margin,
            loss=self._asked["loss"],
            penalty=self._face_penalty(),
            tol=tol,
        )

    def _binary_history(self) -> pd.DataFrame:
        if self._sides is None:
            return super()._binary_history()
        return frame_of_sides(self, [side.history_ for side in self._sides], last=True)

    def _binary_duals(self) -> pd.DataFrame:
        if self._sides is not None:
            return frame_of_sides(self, [side.duals_ for side in self._sides])
        X, labels = self._scaled(self._X), self.classes_[::-1] if self._side > 0 else self.classes_
        Z = assignment_matrix(self._y, len(self.W_), self.assignment_)
        frame = duals_frame(
            X, self._y, self._costs, self.solution_, Z, self._asked["loss"], self._rows, labels
        )
        alpha, penalty = self.solution_.duals.get("margin"), self._face_penalty()
        if alpha is None or penalty is None:
            return frame
        import pandas as pd

        V, W = pull(X, alpha * self._y[:, None]), self.solution_["W"]
        q = choose_group_multipliers(penalty, V, W) if self._asked_penalty.margin == "worst" else None
        rows = penalty_rows(penalty, V, W, getattr(self, "feature_names_in_", None), q)
        return pd.concat([frame.astype({"label": object}), rows], ignore_index=True)

    @property
    def margins_(self) -> pd.DataFrame:
        """Both margins of section 3.2 of [1]_, from the training data: a row for each polytope.

        The columns: the class ``outside`` and the one ``inside``; ``worst``, the least y f(x) of a sample,
        the faces being scaled to norms of 1, biases included; ``total``, the sum over the faces of the
        least of the samples assigned to each; ``faces``, those that have samples, as others add nothing. A
        negative margin is of a sample on the wrong side. With two sides each has a row, and
        with more than two classes each pair has: the paper has no margin of a difference of two polytopes,
        nor of votes. Samples count as the solver saw them, times `feature_scale`.
        """
        self._need_data("margins_")
        import pandas as pd

        return pd.DataFrame(_margin_rows(self), columns=["outside", "inside", "worst", "total", "faces"])

    def generalization_bound(self, delta: float = 0.05) -> PolytopeBound:
        """Return a bound on the error, Theorem 1 of [1]_, from the training data (binary, one side).

        Parameters
        ----------
        delta : float
            The bound holds with a probability of 1 - delta over the draw of the training data.
        """
        from formulations.error_bounds.rademacher import polytope_bound

        self._need_one_polytope("the bound")
        self._need_data("generalization_bound()")
        return polytope_bound(self._scaled(self._X), self._y, self.solution_["W"], delta)


def _margin_rows(machine: ConvexPolytopeMachine) -> Iterator[tuple[object, object, float, float, int]]:
    """Rows of ``margins_``: class outside, class inside, worst, total, faces; one for each polytope."""
    parts = getattr(machine, "estimators_", None)
    for part in parts or [machine]:
        for side in part._sides or [part]:
            margins, samples = face_margins(side._scaled(side._X), side._y, side.solution_["W"])
            own = margins[samples > 0]
            labels = [side.outer_label_, side.inside_label_]
            if parts is not None:
                labels = [machine.classes_[code] for code in labels]  # a pair knows its classes by number
            yield labels[0], labels[1], float(own.min()), float(own.sum()), len(own)
